"""A state directory of an earlier version goes on as it was: an upgrade stores, begins, ends and holds nothing.

Each archive beside this file was made by the version that it is of (`make_state`), together with what it said of it.
Where a later version means to say something else, the lists here name it, with the reason.
"""

import tarfile
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests import daemons
from tests.daemons import Daemon
from tests.docs.test_project import MACHINE_PATH
from tests.scenarios.upgrades import make_state, states
from tests.servers import sinks
from tests.servers.sinks import Sink

ARCHIVES = sorted(states.FOLDER.glob("from-*.tar.xz"))

# What a start may open that no version before did.
OPENED = frozenset(
    {
        "KeysToReview",  # keys whose makers are no admins any more belong to their project now
    }
)
# Members of a resource's status that a version before did not have.
ADDED = frozenset({"notes", "runsOn", "leftOut", "rendering"})

LARGEST_BYTES = 400_000
CLOSED = "nightly"  # a destination whose window does not open
DELIVERED = sorted(f"canary-record-{number}" for number in range(3))


@dataclass(frozen=True, slots=True)
class Upgraded:
    """A service on a state directory of an earlier version, what that one said, and what this one says."""

    service: Daemon
    sink: Sink
    secrets: Mapping[str, Any]
    old: Mapping[str, Any]
    new: Mapping[str, Any]


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name.partition(".")[0])
def test_an_archive_is_small_and_names_no_place_of_one_machine(archive: Path) -> None:
    assert archive.stat().st_size < LARGEST_BYTES
    with tarfile.open(archive, "r:xz") as tar:
        for entry in tar:
            file = tar.extractfile(entry)
            assert file is not None
            assert MACHINE_PATH.search(file.read().decode("latin-1")) is None, entry.name


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda path: path.name.partition(".")[0])
def upgraded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgraded]:
    """One start for all tests here: they only ask, but for the last."""
    folder: Path = tmp_path_factory.mktemp("state")
    kept = states.unpack(request.param, folder)
    states.grow_young(folder, since=datetime.fromisoformat(kept["made"]))
    with sinks.listening() as sink:
        sink.choose(make_state.is_told)
        service = states.daemon(folder, proxy=make_state.proxy(sink)).start()
        try:
            states.settle(service)
            wanted = set(kept["said"]["notifications"])
            daemons.until(
                lambda: wanted <= known(service, kept["secrets"]["people"]["root"]), "what was wrong is known"
            )
            new = states.answers(service, **kept["secrets"])
            yield Upgraded(service, sink, kept["secrets"], kept["said"], new)
        finally:
            daemons.end(service)


def known(service: Daemon, password: str) -> set[str]:
    """The notifications that are open now."""
    return set(states.notifications(service, {"root": password}))


def test_no_resource_has_another_version_hash_or_history(upgraded: Upgraded) -> None:
    for project, resources in upgraded.old["resources"].items():
        now = upgraded.new["resources"][project]
        assert sorted(now) == sorted(resources), project
        for key, before in resources.items():
            assert versions(now[key]) == versions(before), (project, key)
            for member in ("metadata", "spec"):
                assert now[key]["listed"].get(member) == before["listed"].get(member), (project, key)


def versions(one: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Its history without the status of each version, which may be incomplete no more: see `judged`."""
    return [{name: value for name, value in version.items() if name != "status"} for version in one["history"]]


def test_nothing_is_newly_invalid_and_no_delivery_began_or_ended(upgraded: Upgraded) -> None:
    for project, resources in upgraded.old["resources"].items():
        for key, before in resources.items():
            after = upgraded.new["resources"][project][key]
            assert judged(after, like=before) == judged(before), (project, key)


def test_what_delivers_runs_in_the_service(upgraded: Upgraded) -> None:
    runs_on = set()
    for project, resources in upgraded.old["resources"].items():
        for key, before in resources.items():
            if key.startswith("Configuration/") and before["listed"]["status"].get("delivery"):
                status = upgraded.new["resources"][project][key]["listed"]["status"]
                runs_on.add((before["listed"]["status"]["delivery"]["delivers"], status["runsOn"]))
    assert (True, "service") in runs_on
    assert (True, "collectors") not in runs_on
    assert (False, "collectors") in runs_on


def judged(one: Mapping[str, Any], *, like: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A status without sentences and what was added since; what cannot be rendered was not told before.

    `like`: what it was before, which may have been incomplete where it is not any more.
    """
    status = {name: value for name, value in deepcopy(one["listed"]["status"]).items() if name not in ADDED}
    status["incomplete"] = "incomplete" in status
    if "fault" in one["listed"]["status"].get("rendering", {}):
        status["ready"] = not status["incomplete"]
    if "delivery" in status:
        status["delivery"] = status["delivery"]["delivers"]
    if like is not None and "incomplete" in like["listed"]["status"] and not status["incomplete"]:
        status["incomplete"] = True
        if "ready" in like["listed"]["status"]:
            status["ready"] = like["listed"]["status"]["ready"]
    return status


def test_repositories_hold_what_they_held_and_their_runs_change_nothing(upgraded: Upgraded) -> None:
    assert upgraded.new["repositories"] == upgraded.old["repositories"]
    for name, run in upgraded.old["runs"].items():
        after = upgraded.new["runs"][name]
        assert (after["commit"], after["outcome"]) == (run["commit"], run["outcome"]), name
        assert [status for status in after["statuses"] if status not in run["statuses"]] == [], name


def test_every_key_works_as_before(upgraded: Upgraded) -> None:
    assert still(upgraded.old["keys"], upgraded.new["keys"])
    for name, before in upgraded.old["works"].items():
        assert upgraded.new["works"][name] == before, name
        assert still(upgraded.old["me"][name], upgraded.new["me"][name]), name


def test_people_sign_in_and_are_still_signed_in(upgraded: Upgraded) -> None:
    for members in ("users", "projects", "members"):
        assert still(upgraded.old[members], upgraded.new[members]), members
    for name in upgraded.old["people"]:
        assert still(upgraded.old["people"][name], upgraded.new["people"][name]), name
    assert still(upgraded.old["session"], upgraded.new["session"])


def still(old: Any, new: Any) -> bool:
    """Return True when all that was said is said.

    Members that are new do no harm, and an organization admin has every scope that there is.
    """
    if isinstance(old, dict):
        everywhere = bool(old.get("organizationAdmin")) and "scopes" in old
        if everywhere and not set(old["scopes"]) <= set(new["scopes"]):
            return False
        return all(
            name in new and (still(value, new[name]) or (everywhere and name == "scopes"))
            for name, value in old.items()
        )
    if isinstance(old, list):
        return len(old) == len(new) and all(still(one, other) for one, other in zip(old, new, strict=True))
    return bool(old == new)


def test_the_same_is_told_to_people_who_did_the_same_with_it(upgraded: Upgraded) -> None:
    before, after = upgraded.old["notifications"], upgraded.new["notifications"]
    for identifier in before:
        was = before[identifier]  # its title may change once a minute alone, and so may have been behind
        assert after[identifier] == {**was, "title": after[identifier]["title"]}, was["title"]
    opened = [one["title"] for key, one in after.items() if key not in before and one["type"] not in OPENED]
    assert opened == []


def test_who_waits_for_alerts_gets_them_and_no_others(upgraded: Upgraded) -> None:
    before = upgraded.old["alerts"]
    titles = {key: one["title"] for key, one in upgraded.old["notifications"].items()}

    def arrived() -> list[list[str]]:
        return states.alerts(upgraded.sink, titles)

    daemons.until(lambda: all(one in arrived() for one in before), "alerts that waited arrive")
    more = [one for one in arrived() if one not in before]
    assert [one for one in more if one[1] not in OPENED] == []


def test_what_is_sent_again_as_it_is_changes_nothing(upgraded: Upgraded) -> None:
    for project, resources in upgraded.old["resources"].items():
        mine = [one["listed"] for one in resources.values() if one["listed"]["status"]["source"]["type"] == "api"]
        updates = upgraded.service.apply(*mine, query="?acceptInvalid=true", project=project)
        assert [one for one in updates if one["status"] != "unchanged"] == [], project


def test_keys_whose_makers_are_no_admins_now_are_to_be_reviewed(upgraded: Upgraded) -> None:
    told = [one for one in upgraded.new["notifications"].values() if one["type"] == "KeysToReview"]
    made = len(make_state.OF_PEOPLE)
    assert sorted(
        (one["account"], one["title"].split(": ")[1].split()[0], one["title"].split()[0]) for one in told
    ) == [
        ("", "user:olga", str(made)),
        ("", "user:zoe", str(made)),
        *(("default", f"user:{name}", str(made)) for name in ("ana", "bob", "olga", "zoe")),
        *(("shop", f"user:{name}", str(made)) for name in ("ana", "bob")),
    ]
    assert not any(key["personal"] for key in upgraded.new["keys"])


def test_what_waits_is_delivered_and_what_died_can_be_sent_again(upgraded: Upgraded) -> None:
    assert upgraded.new["deliveries"] == upgraded.old["deliveries"]
    upgraded.sink.choose(lambda _: sinks.says(200))

    def rest() -> dict[tuple[str, str], tuple[int, int]]:
        left = {}
        for project in states.PROJECTS:
            for one in upgraded.service.get("/v1/deliveries", project=project).body["deliveries"]:
                left[project, one["destination"]] = (one["queue"]["records"], one["deadLetters"]["records"])
        return {key: both for key, both in left.items() if any(both) and key[1] != CLOSED}

    for name, one in upgraded.old["deliveries"]["default"].items():
        if one["dead"]["records"]:
            answer = upgraded.service.post(f"/v1/destinations/{name}/delivery/replay", {})
            assert answer.status == 200, answer
    daemons.until(lambda: not rest(), "all is delivered")
    for name, one in upgraded.old["deliveries"]["default"].items():
        if name != CLOSED and one["queue"]["records"] + one["dead"]["records"] >= 2 * len(DELIVERED):
            arrived = {text for text in came_to(upgraded.sink, name) if text.startswith("canary-record")}
            assert sorted(arrived) == DELIVERED, name


def came_to(sink: Sink, name: str) -> list[str]:
    """The records that an endpoint took."""
    found: list[str] = []
    for request in sink.accepted:
        if request.path.startswith(f"http://{name}.example.com:8080/"):
            found.extend(request.json if isinstance(request.json, list) else [request.json])
    return found
