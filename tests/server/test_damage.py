"""A byte of a stored resource was flipped on the disk: nobody is served it, and the next version takes its place."""

import contextlib
import resource
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from reconciler.model.errors import OPEN_FILES
from tests import daemons
from tests.daemons import Daemon, asked, destination, statuses, watched
from tests.repositories import Repository
from tests.store.engines import flip

MARKER = "marker-of-one-description"
DAMAGED = "the Destination {} is damaged in the store; apply it anew, let Git be read in full, or restore a backup"


WEBHOOK = """
apiVersion: service/v1
kind: Destination
metadata: {name: s}
spec:
  type: webhook
  parameters:
    - {name: hostname, value: logs.example.org}
    - {name: headers, value: {Authorization: marker-of-one-secret}}
"""


def broken(daemon: Daemon) -> dict[str, str]:
    """Return what the list says of the Destinations that are damaged, by name."""
    found = daemon.resources("Destination")
    return {one["metadata"]["name"]: one["status"]["error"] for one in found if "error" in one["status"]}


@pytest.fixture
def whole() -> dict[str, Any]:
    """The damaged resources as they were before, by name."""
    return {}


@pytest.fixture
def daemon(tmp_path: Path, source: Repository, whole: dict[str, Any]) -> Iterator[Daemon]:
    """One that has read a marker in a description of Git's and another in a secret, and taken one in a description from
    the API; all are damaged.
    """
    source.write("a.yaml", destination("a", f"{MARKER}-git"))
    source.write("s.yaml", WEBHOOK)
    source.commit()
    settings = {"notifications": {"interval": "1s"}}
    repositories = [watched("one", source.path)]
    with daemons.running(tmp_path / "daemon", repositories=repositories, settings=settings) as daemon:
        daemon.run_of("one", source.head())
        daemon.apply(asked("x", f"{MARKER}-api"), asked("y", "whole"))
        whole.update({name: daemon.resource("Destination", name) for name in ("a", "s", "x")})
        daemon.stop()
        flip(daemon.state / "store.db", f"{MARKER}-git".encode())
        flip(daemon.state / "store.db", f"{MARKER}-api".encode())
        flip(daemon.state / "store.db", b"marker-of-one-secret")
        yield daemon.start()


def test_what_is_damaged_is_an_error_by_itself_until_another_version_is_stored(
    daemon: Daemon, source: Repository, whole: dict[str, Any]
) -> None:
    for name in ("a", "s", "x"):
        answer = daemon.get(f"/v1/resources/Destination/{name}")
        told = DAMAGED.format(name)
        assert (answer.status, answer.body) == (500, {"errors": [f"T{told[1:]}."], "codes": ANY})
    assert broken(daemon) == {name: DAMAGED.format(name) for name in ("a", "s", "x")}
    assert [one["metadata"]["name"] for one in daemon.resources("Destination")] == ["a", "b", "s", "x", "y"]
    daemons.until(lambda: "StoreDamaged" in daemon.opened(), "the damage is notified of")
    # What Git owns, the API cannot store anew; what the API owns, it can, with the document that was stored.
    of_git, of_api = daemon.apply(asked("a", f"{MARKER}-git"), asked("x", f"{MARKER}-api"))
    assert of_git["status"] == "forbidden"
    assert (of_api["status"], of_api["resource"]["metadata"]["description"]) == ("configured", f"{MARKER}-api")
    assert daemon.resource("Destination", "x") == of_api["resource"]
    assert of_api["resource"]["spec"] == whole["x"]["spec"]
    assert broken(daemon) == {name: DAMAGED.format(name) for name in ("a", "s")}
    # Another setting of the repository has it read in full.
    daemon.follow(watched("one", source.path, acceptInvalid=True))

    def is_whole() -> bool:
        return not broken(daemon)

    daemons.until(is_whole, "the full read stores the next version")
    [run, *_] = [run for run in daemon.runs("one") if run["counts"].get("configured")]
    assert statuses(daemon.run(run["id"])) == {"a": "configured", "s": "configured"}
    for name in ("a", "s"):
        now = daemon.resource("Destination", name)
        assert now is not None
        assert (now["spec"], now["metadata"]["version"]) == (whole[name]["spec"], 2)
        assert daemon.history("Destination", name)[1]["status"]["error"] == DAMAGED.format(name)
    daemons.until(lambda: "StoreDamaged" not in daemon.opened(), "it is resolved")
    events = daemon.get("/v1/audit-events?action=configured&kind=Destination").body["events"]
    versions = [(one["name"], one["versionBefore"], one["versionAfter"]) for one in events]
    assert sorted(versions) == [("a", 1, 2), ("s", 1, 2), ("x", 1, 2)]
    daemon.restart()
    assert (daemon.repository("one")["state"], broken(daemon)) == ("ready", {})


def test_another_version_takes_the_place_of_a_damaged_one_and_what_is_damaged_can_be_deleted(daemon: Daemon) -> None:
    [update] = daemon.apply(asked("x", "another"))
    assert (update["status"], update["resource"]["metadata"]["version"]) == ("configured", 2)
    [second, first] = daemon.history("Destination", "x")
    assert second == daemon.resource("Destination", "x")
    assert first == {
        "kind": "Destination",
        "metadata": {"name": "x", "version": 1},
        "status": {"error": DAMAGED.format("x")},
    }
    assert daemon.delete("/v1/resources/Destination/x").status == 204
    assert [one["metadata"]["name"] for one in daemon.resources("Destination")] == ["a", "b", "s", "y"]


def test_a_damaged_file_of_sessions_is_set_aside_and_told_until_it_is_removed(tmp_path: Path) -> None:
    with daemons.running(tmp_path / "daemon", settings={"notifications": {"interval": "1s"}}) as daemon:
        daemon.apply(asked("a"))
        daemon.stop()
        file = daemon.state / "ops.db"
        file.write_bytes(b"a text, and no database" * 100)
        daemon.start()
        daemons.until(lambda: daemon.opened() == ["SessionsLost"], "it is notified of")
        [kept] = daemon.state.glob("ops.db.damaged-*")
        assert kept.read_bytes() == b"a text, and no database" * 100
        [line] = [line for line in daemon.messages() if "is damaged" in line]
        assert line == (
            f"{file} is damaged (file is not a database): it is {kept} now, and a new one takes its place. Everybody "
            "signs in again, and what is wrong is notified anew."
        )
        assert [one["metadata"]["name"] for one in daemon.resources("Destination")] == ["a"]
        daemon.restart()
        daemons.until(lambda: daemon.opened() == ["SessionsLost"], "it still is after a restart")
        kept.unlink()
        daemons.until(lambda: daemon.opened() == [], "it is resolved")


def test_too_many_open_files_are_told_in_the_log_and_notified_of(tmp_path: Path) -> None:
    """No more connection is answered then: the event loop closes it without a word."""
    with daemons.running(tmp_path / "daemon", settings={"notifications": {"interval": "1s"}}) as daemon:
        process = daemon.process.pid
        limits = resource.prlimit(process, resource.RLIMIT_NOFILE)
        limit = len(list(Path(f"/proc/{process}/fd").iterdir())) + 20
        resource.prlimit(process, resource.RLIMIT_NOFILE, (limit, limits[1]))
        with contextlib.ExitStack() as opened:
            for _ in range(30):
                opened.enter_context(socket.create_connection((daemon.host, daemon.port)))

            # The store, too, may find that no file can be opened: its line says less.
            def told() -> bool:
                return any(
                    OPEN_FILES in line and line.startswith(f"Of {limit} files that the service may open, ")
                    for line in daemon.messages()
                )

            daemons.until(told, "the log says so")
        resource.prlimit(process, resource.RLIMIT_NOFILE, limits)

        def is_over() -> bool:
            try:
                return daemon.opened() == []
            except ConnectionError:
                return False

        daemons.until(is_over, "connections are answered again, and it is resolved")
        [one] = daemon.get("/v1/api/notifications").body["notifications"]
        assert (one["spec"]["notificationType"], one["spec"]["severity"]) == ("TooManyOpenFiles", "critical")
