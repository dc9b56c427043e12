"""Values that are taken all the same are told in the notes of an update, of a run and of a plan."""

import json

import pytest

from tests import worlds
from tests.projects import Resource, destination
from tests.worlds import Options, World

OVER = (
    "`retry_on_failure_initial_interval` is over `retry_on_failure_max_interval`, which is used instead; lower it, or"
)
NOTE = f"/spec/parameters/1/value: {OVER} raise the other"


def hook(initial: int, name: str = "own") -> Resource:
    return destination(name, "webhook", hostname="a.example", retry_on_failure_initial_interval=initial)


@pytest.mark.parametrize("options", [worlds.ASKED, Options(accept_invalid=True), Options(dry_run=True)])
def test_an_update_tells_them_for_as_long_as_they_are_so(world: World, options: Options) -> None:
    def told(one: Resource) -> tuple[str, object]:
        [update] = world.apply([one], options).body["updates"]
        assert "reason" not in update
        return update["status"], update.get("notes")

    assert told(hook(31)) == ("created", [NOTE])
    if not options.dry_run:
        assert told(hook(31)) == ("unchanged", [NOTE])
        assert told(hook(30)) == ("configured", None)


def test_what_is_refused_has_its_reason_alone(world: World) -> None:
    wrong = destination("own", "webhook", hostname="a.example", retry_on_failure_initial_interval=31, port=0)
    [update] = world.apply([wrong]).body["updates"]
    assert (update["status"], "notes" in update) == ("invalid", False)


def test_a_run_tells_them_with_the_place_in_the_file(world: World) -> None:
    world.push("a", {"own.json": json.dumps(hook(31), indent=1)})
    looked = world.look("a")
    assert looked is not None
    [status] = looked.told
    assert (status.status, status.reason) == ("created", None)
    assert status.notes is not None
    assert status.notes.startswith("own.json:")
    assert status.notes.endswith(NOTE)
