"""A disk that is full or read-only, as the state directory of a real daemon."""

from pathlib import Path
from typing import Any

import pytest

from tests import daemons, needs
from tests.daemons import Daemon, destination, watched
from tests.disks import fill
from tests.repositories import Repository

SMALL_DISK = 'mount -t tmpfs -o size=8m tmpfs "$0" && exec "$@"'
READ_ONLY_DISK = 'mount -t tmpfs -o ro,size=1m tmpfs "$0" && exec "$@"'


def on_disk(script: str, folder: Path, source: Repository | None = None) -> Daemon:
    """A daemon whose state directory is a disk of its own, made by this script."""
    (folder / "state").mkdir(parents=True)
    prefix = [*needs.require_mount_namespace(), "sh", "-c", script, str(folder / "state")]
    repositories = [] if source is None else [watched("one", source.path, interval="300ms")]
    return Daemon(folder, repositories=repositories, prefix=prefix)


def inside(daemon: Daemon) -> Path:
    """The state directory as the daemon sees it: nobody else has its mounts."""
    return Path(f"/proc/{daemon.process.pid}/root{daemon.state}")


def asked(name: str) -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": "Destination", "metadata": {"name": name}, "spec": {"type": "otlp"}}


def names(daemon: Daemon) -> list[str]:
    return [one["metadata"]["name"] for one in daemon.resources("Destination")]


@pytest.mark.slow
def test_a_full_disk_is_told_what_is_stored_is_served_and_room_mends_it(tmp_path: Path, source: Repository) -> None:
    daemon = on_disk(SMALL_DISK, tmp_path / "daemon", source)
    try:
        daemon.start()
        daemon.run_of("one", source.head())
        ballast = fill(inside(daemon))
        for number in range(20):  # more than fits into the room that the store's own files still have
            source.write(f"large-{number}.yaml", destination(f"large-{number}", "x" * 100_000))
        source.write("a.yaml", destination("a", "edited"))
        commit = source.commit()

        def is_told() -> bool:
            told = [line["message"] for line in daemon.lines() if line["level"] in ("warning", "error")]
            return any("space" in message or "full" in message for message in told)

        daemons.until(is_told, "the full disk is told")
        refused = daemon.post("/v1/apply", {"resources": [asked(f"api-{number}") for number in range(1_000)]})
        assert (refused.status, "disk is full" in str(refused.body["errors"])) == (503, True)
        assert (daemon.get("/readyz").status, names(daemon)) == (200, ["a", "b"])
        assert "space" in daemon.repository("one")["message"]
        daemons.until(lambda: "StoreDegraded" in daemon.opened(), "what is wrong with the store is notified of")
        ballast.unlink()
        run = daemon.run_of("one", commit)
        assert (run["outcome"], run["counts"]) == ("succeeded", {"created": 20, "configured": 1})
        [update] = daemon.apply(asked("api"))
        assert update["status"] == "created"
        one = daemon.repository("one")
        assert (one["state"], one["message"]) == ("ready", None)
        daemons.until(lambda: "StoreDegraded" not in daemon.opened(), "it is resolved")
    finally:
        daemons.end(daemon)


def test_a_repository_that_is_added_on_a_full_disk_is_read_once_there_is_room(
    tmp_path: Path, source: Repository
) -> None:
    daemon = on_disk(SMALL_DISK, tmp_path / "daemon", source)
    other = Repository.init(tmp_path / "other")
    other.write("other.yaml", destination("other"))
    commit = other.commit()
    try:
        daemon.start()
        daemon.run_of("one", source.head())
        ballast = fill(inside(daemon))
        daemon.configure([watched("one", source.path), watched("two", other.path, interval="300ms")])
        daemon.reload()
        assert (daemon.get("/readyz").status, names(daemon)) == (200, ["a", "b"])
        ballast.unlink()
        daemon.reload()
        assert daemon.run_of("two", commit)["counts"] == {"created": 1}
    finally:
        daemons.end(daemon)


def test_a_read_only_disk_refuses_to_start_with_one_sentence(tmp_path: Path) -> None:
    daemon = on_disk(READ_ONLY_DISK, tmp_path / "daemon")
    daemon.launch()
    assert daemon.process.wait(daemons.START_SECONDS) == 1
    told = f"error: the state directory {daemon.state} cannot be used (Read-only file system); "
    assert daemon.output() == f"{told}choose another with `stateDir`, or mend its permissions\n"


def test_a_disk_that_is_full_from_the_start_refuses_to_start_with_one_sentence(tmp_path: Path) -> None:
    full = 'mount -t tmpfs -o size=16k tmpfs "$0" && { cat /dev/zero > "$0/ballast" 2>&-; exec "$@"; }'
    daemon = on_disk(full, tmp_path / "daemon")
    daemon.launch()
    assert daemon.process.wait(daemons.START_SECONDS) == 1
    output = daemon.output()
    assert (output.startswith("error: the st"), len(output.splitlines())) == (True, 1)
