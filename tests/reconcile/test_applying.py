"""Applying: many at once, none lost; and what dry runs tell."""

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests import daemons
from tests.daemons import Daemon, asked

THREADS = 8
ROUNDS = 10
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemons.running(tmp_path_factory.mktemp("daemon")) as running:
        yield running


@pytest.fixture
def project(daemon: Daemon) -> str:
    """One that holds nothing."""
    name = f"p{next(_numbers)}"
    assert daemon.post("/v1/projects", {"name": name}).status == 201
    return name


def test_changes_of_one_resource_at_the_same_time_are_all_versions(daemon: Daemon, project: str) -> None:
    told: list[str] = []

    def change(thread: int) -> None:
        for number in range(ROUNDS):
            told.extend(
                update["status"] for update in daemon.apply(asked("one", f"{thread}-{number}"), project=project)
            )

    threads = [threading.Thread(target=change, args=(thread,)) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == ["configured"] * (THREADS * ROUNDS - 1) + ["created"]
    history = daemon.history("Destination", "one", project=project)
    versions = [version["metadata"]["version"] for version in history]
    assert versions == list(range(THREADS * ROUNDS, 0, -1))
    assert len({version["metadata"]["description"] for version in history}) == THREADS * ROUNDS
    assert {version["metadata"]["id"] for version in history} == {history[0]["metadata"]["id"]}


def test_applies_and_deletes_at_the_same_time_end_as_their_answers_say(daemon: Daemon, project: str) -> None:
    left: dict[str, bool] = {}

    def change(thread: int) -> None:
        for number in range(ROUNDS):
            name = f"{thread}-{number}"
            assert daemon.apply(asked(name), project=project)[0]["status"] == "created"
            if number % 2:
                assert daemon.delete(f"/v1/resources/Destination/{name}", project=project).status == 204
            left[name] = not number % 2

    threads = [threading.Thread(target=change, args=(thread,)) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(left) == THREADS * ROUNDS
    names = [one["metadata"]["name"] for one in daemon.resources("Destination", project=project)]
    assert names == sorted(name for name, stays in left.items() if stays)


@pytest.mark.parametrize("flagged", [True, False])
def test_a_dry_run_never_tells_whether_a_guessed_secret_is_right(
    daemon: Daemon, project: str, *, flagged: bool
) -> None:
    """Neither by the status, nor by a hash, nor by what is masked."""

    def secret(value: str, *, sensitive: bool) -> dict[str, Any]:
        parameter = {"name": "configuration", "value": value, "sensitive": sensitive}
        return asked("one") | {"spec": {"type": "custom", "parameters": [parameter]}}

    daemon.apply(secret("right", sensitive=True), project=project)
    told = []
    for guess in ("right", "wrong"):
        [update] = daemon.apply(secret(guess, sensitive=flagged), query="?dryRun=true", project=project)
        del update["resource"]["metadata"]["dateModified"]
        del update["resource"]["status"]["source"]
        told.append(update)
    assert told[0] == told[1]
    assert told[0]["status"] == "configured"
    [update] = daemon.apply(secret("right", sensitive=True), project=project)
    assert update["status"] == "unchanged"


TYPED = {"apiVersion": "service/v1", "kind": "DestinationType", "metadata": {"name": "own"}}


def typed(*, sensitive: bool, needed: bool) -> dict[str, Any]:
    """A type whose parameter `token` may be sensitive, and another parameter needed beside it."""
    more = [{"name": "more", "type": "string", "required": True}] if needed else []
    token = {"name": "token", "type": "string", "options": {"sensitive": sensitive}}
    return TYPED | {"spec": {"parameters": [token, *more]}}


@pytest.mark.parametrize(
    ("after", "query"),
    [
        (typed(sensitive=False, needed=False), ""),  # the type calls it a secret no more, and it is stored as one
        (typed(sensitive=True, needed=True), "&acceptInvalid=true"),  # what is stored is incomplete by now
        (typed(sensitive=False, needed=True), "&acceptInvalid=true"),
    ],
)
def test_a_dry_run_tells_nothing_of_a_guess_after_the_type_changed(
    daemon: Daemon, project: str, after: dict[str, Any], query: str
) -> None:
    def holding(value: str) -> dict[str, Any]:
        return asked("one") | {"spec": {"type": "own", "parameters": [{"name": "token", "value": value}]}}

    daemon.apply(typed(sensitive=True, needed=False), holding("right"), project=project)
    daemon.apply(after, project=project)
    told = []
    for guess in ("right", "wrong"):
        [update] = daemon.apply(holding(guess), query=f"?dryRun=true{query}", project=project)
        del update["resource"]["metadata"]["dateModified"]
        del update["resource"]["status"]["source"]
        told.append(update)
    assert told[0] == told[1]
    assert told[0]["status"] == "configured"


def test_a_dry_run_answers_the_same_and_stores_nothing(daemon: Daemon, project: str) -> None:
    daemon.apply(asked("one"), project=project)
    dry = daemon.apply(asked("one", "edited"), asked("two"), query="?dryRun=true", project=project)
    assert [update["status"] for update in dry] == ["configured", "created"]
    assert [one["metadata"]["version"] for one in daemon.resources("Destination", project=project)] == [1]
    real = daemon.apply(asked("one", "edited"), asked("two"), project=project)
    assert [update["status"] for update in real] == ["configured", "created"]
