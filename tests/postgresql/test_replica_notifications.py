"""Three replicas show the same notifications, each of which has one owner, and lose no change of access."""

import base64
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import daemons
from tests.daemons import Answer, Daemon
from tests.postgresql import replicas
from tests.postgresql.replicas import Replica, Replicas
from tests.postgresql.servers import Database
from tests.repositories import Repository
from tests.servers import sinks
from tests.servers.sinks import Sink

pytestmark = [pytest.mark.providers, pytest.mark.slow]

LIST = "/v1/api/notifications"
SHOWN_SECONDS = 2.0
TAKEN_OVER_SECONDS = 60.0
GONE_SECONDS = 180.0
WHOLE_DISK = 1 << 50  # bytes that no disk has: each replica finds its own nearly full


class Scene(NamedTuple):
    """Three replicas that follow one repository, which is not there yet, and the target of their alerts."""

    three: Replicas
    sink: Sink
    source: Path

    def holder(self) -> Replica:
        """The replica that follows the repository."""
        found = daemons.until(lambda: self.three.holders()["lost"], "somebody follows it", seconds=TAKEN_OVER_SECONDS)
        return self.three[found]

    def others(self) -> list[Replica]:
        """The living ones beside the holder."""
        holder = self.holder()
        return [one for one in self.three.living() if one is not holder]

    def mend(self) -> None:
        """Make the repository."""
        made = Repository.init(self.source)
        made.write("a.yaml", daemons.destination("a"))
        made.commit()

    def disks(self) -> list[tuple[str, str]]:
        """The notifications of the disks of all three, open."""
        every = self.three.every.values()
        return sorted((f"The disk of {one.state} is nearly full (replica {one.name})", "open") for one in every)

    def alerts(self) -> Counter[tuple[str, str]]:
        """The alerts that were accepted: their events and types."""
        told = [one.json for one in [*self.sink.accepted]]
        return Counter((one["event"], one["notification"]["spec"]["notificationType"]) for one in told)


@pytest.fixture
def scene(tmp_path: Path, database: Database) -> Iterator[Scene]:
    source = tmp_path / "lost"
    watched = [daemons.watched("lost", source, interval="2s")]
    with sinks.listening() as sink:
        sink.script(sinks.says(503))
        settings = {
            "alerts": [{"name": "all", "url": f"http://127.0.0.1:{sink.port}/"}],
            "notifications": {"interval": "200ms"},
            "delivery": {"freeBytes": WHOLE_DISK},
        }
        with replicas.running(
            tmp_path / "replicas", database=database, repositories=watched, settings=settings
        ) as three:
            yield Scene(three, sink, source)


def found(daemon: Daemon, type_: str, *, headers: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """The notifications of a type that a replica shows."""
    asked = {"Authorization": f"Bearer {daemon.key}"} if headers is None else headers
    answer = daemon.ask("GET", LIST, None, asked)
    assert answer.status == 200, answer
    return [one for one in answer.body["notifications"] if one["spec"]["notificationType"] == type_]


def states(daemon: Daemon, type_: str) -> list[tuple[str, str]]:
    """Of each, the title and the state."""
    every = found(daemon, type_)
    return sorted((one["metadata"]["displayName"], one["metadata"]["labels"]["service/state"]) for one in every)


def shows(daemon: Daemon, type_: str, wanted: list[tuple[str, str]]) -> bool:
    return states(daemon, type_) == wanted


UNREACHABLE = "RepositoryUnreachable"
OPEN = [("The repository lost cannot be read", "open")]
RESOLVED = [("Resolved: The repository lost cannot be read", "resolved")]


def waits(daemon: Daemon, type_: str, wanted: list[tuple[str, str]], *, seconds: float = TAKEN_OVER_SECONDS) -> None:
    """Wait until a replica shows these."""
    daemons.until(lambda: states(daemon, type_) == wanted or None, f"{type_} is {wanted}", seconds=seconds)


def admin(three: Replicas) -> dict[str, str]:
    """The header of the first admin, whose password one replica made."""
    [password] = [
        file.read_text().strip()
        for one in three.every.values()
        if (file := one.state / "initial-admin-password").exists()
    ]
    basic = base64.b64encode(f"admin:{password}".encode()).decode()
    return {"Authorization": f"Basic {basic}"}


def within(holds: Callable[[], bool], what: str) -> float:
    """Wait for something that has to happen soon; how long it took."""
    began = time.monotonic()
    daemons.until(lambda: holds() or None, what, seconds=SHOWN_SECONDS)
    return time.monotonic() - began


def test_what_one_opens_is_shown_read_and_resolved_on_all_and_told_once(scene: Scene) -> None:
    scene.sink.script(sinks.says(200))
    holder = scene.holder()
    waits(holder, UNREACHABLE, OPEN)
    for other in scene.others():
        print(f"shown after {within(partial(shows, other, UNREACHABLE, OPEN), 'it is shown'):.2f} s")
    person = admin(scene.three)
    [one] = found(holder, UNREACHABLE)
    reader, *_ = scene.others()
    address = f"{LIST}/{one['metadata']['id']}/status"
    body = json.dumps({"userStatus": "read"}).encode()
    assert reader.ask("POST", address, body, {**person, "Content-Type": "application/json"}).status == 200
    for replica in scene.three.living():

        def is_read(replica: Replica = replica) -> bool:
            [shown] = found(replica, UNREACHABLE, headers=person)
            return bool(shown["status"]["userStatus"] == "read")

        print(f"read after {within(is_read, 'it is read'):.2f} s")
    scene.mend()
    for replica in scene.three.living():
        waits(replica, UNREACHABLE, RESOLVED)
    daemons.until(lambda: scene.alerts()["resolved", UNREACHABLE] or None, "its end is told")
    time.sleep(SHOWN_SECONDS)  # in which others would tell it, too
    told = scene.alerts()
    assert (told["opened", UNREACHABLE], told["resolved", UNREACHABLE]) == (1, 1)
    for replica in scene.three.living():
        waits(replica, "DiskLow", scene.disks())
    assert scene.alerts()["opened", "DiskLow"] == len(scene.disks())


def test_the_next_holder_tells_what_was_due_and_the_dead_one_s_own_are_resolved(scene: Scene) -> None:
    dead = scene.holder()
    waits(dead, UNREACHABLE, OPEN)
    daemons.until(lambda: len(states(dead, "DiskLow")) == 3 or None, "each tells of its disk")
    dead.kill()
    began = time.monotonic()
    scene.sink.script(sinks.says(200))
    daemons.until(
        lambda: scene.alerts()["opened", UNREACHABLE] or None, "the alert is sent", seconds=TAKEN_OVER_SECONDS
    )
    print(f"the alert of a killed replica was sent after {time.monotonic() - began:.1f} s")
    living = scene.three.living()
    for replica in living:
        waits(replica, UNREACHABLE, OPEN)
        assert len(states(replica, "DiskLow")) == 3
    scene.mend()
    for replica in living:
        waits(replica, UNREACHABLE, RESOLVED)
    gone = [(f"The replica {dead.name} is gone", "open")]
    waits(living[0], "ReplicaGone", gone, seconds=GONE_SECONDS)
    print(f"told that it is gone after {time.monotonic() - began:.1f} s")
    for replica in living:
        waits(replica, "ReplicaGone", gone)
        resolved = [title for title, state in states(replica, "DiskLow") if state == "resolved"]
        assert resolved == [f"Resolved: The disk of {dead.state} is nearly full (replica {dead.name})"]
    dead.start()
    back = [(f"Resolved: The replica {dead.name} is gone", "resolved")]
    for replica in scene.three.living():
        waits(replica, "ReplicaGone", back)
        waits(replica, "DiskLow", scene.disks())
    told = scene.alerts()
    assert (told["opened", UNREACHABLE], told["resolved", UNREACHABLE], told["opened", "ReplicaGone"]) == (1, 1, 1)


def test_changes_of_access_by_two_replicas_at_once_are_decided_one_after_the_other(scene: Scene) -> None:
    first, second, third = scene.three.living()
    with ThreadPoolExecutor(8) as threads:

        def both(method: str, paths: tuple[str, str], bodies: tuple[object, object]) -> list[int]:
            """Ask two replicas at the same moment."""
            asked = [
                threads.submit(one.request, method, path, json.dumps(body).encode())
                for one, path, body in zip((first, second), paths, bodies, strict=True)
            ]
            return sorted(one.result().status for one in asked)

        for number in range(10):
            user = {"name": f"u{number}", "organizationAdmin": True, "password": "a long password 12"}
            assert both("POST", ("/v1/users", "/v1/users"), (user, user)) == [201, 409]
        # Each removes another admin, until one is left: never none.
        for number in range(0, 10, 2):
            removed = both("DELETE", (f"/v1/users/u{number}", f"/v1/users/u{number + 1}"), (None, None))
            assert removed == [204, 204]
        last = [{"name": name, "organizationAdmin": True, "password": "a long password 12"} for name in ("x", "y")]
        for one in last:
            assert first.request("POST", "/v1/users", json.dumps(one).encode()).status == 201
        assert first.delete("/v1/users/admin").status == 204
        within(partial(has_users, second, 2), "it is known")
        assert both("DELETE", ("/v1/users/x", "/v1/users/y"), (None, None)) == [204, 409]
    for replica in (first, second, third):
        within(partial(has_users, replica, 1), "one is left")
    made = first.post("/v1/api-keys", {"name": "k", "project": "default", "role": "viewer"})
    assert made.status == 201, made
    key = {"Authorization": f"Bearer {made.body['apiKey']['key']}"}

    def answers(replica: Replica) -> int:
        return replica.status("GET", "/v1/resources/Destination", None, key)

    def is_refused(replica: Replica) -> bool:
        return answers(replica) == 401

    daemons.until(lambda: answers(third) == 200 or None, "the key works elsewhere", seconds=SHOWN_SECONDS)
    removed_key: Answer = second.delete(f"/v1/api-keys/{made.body['apiKey']['id']}")
    assert (removed_key.status, answers(second)) == (204, 401)
    for replica in (first, third):
        print(f"a key ends after {within(partial(is_refused, replica), 'it ends'):.2f} s")


def test_three_that_start_together_on_an_empty_database_make_one_admin(tmp_path: Path, database: Database) -> None:
    three = Replicas(tmp_path, database=database, repositories=[])
    try:
        with ThreadPoolExecutor(3) as threads:
            assert len([*threads.map(Daemon.start, three.every.values())]) == 3
        person = admin(three)
        for replica in three.living():
            assert replica.ask("GET", "/v1/me", None, person).status == 200
            within(partial(has_users, replica, 1), "there is one user")
        events = three.living()[0].get("/v1/audit-events").body["events"]
        assert sorted((one["kind"], one["name"]) for one in events if one["action"] == "created") == [
            ("Project", "default"),
            ("User", "admin"),
        ]
    finally:
        for one in three.living():
            one.kill()


def has_users(replica: Replica, number: int) -> bool:
    return len(replica.get("/v1/users").body["users"]) == number
