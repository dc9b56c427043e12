"""The mirror is damaged: it is made anew, and nothing is lost."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import daemons
from tests.daemons import Daemon, destination, watched
from tests.repositories import Repository


def mirror(daemon: Daemon) -> Path:
    [found] = (daemon.state / "mirrors").iterdir()
    return found


def _objects(folder: Path) -> list[Path]:
    return [path for path in (folder / "objects").rglob("*") if path.is_file()]


def truncate(folder: Path) -> None:
    for path in _objects(folder):
        path.chmod(0o600)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garble(folder: Path) -> None:
    for path in _objects(folder):
        path.chmod(0o600)
        path.write_bytes(b"\0" * path.stat().st_size)


def lose_objects(folder: Path) -> None:
    shutil.rmtree(folder / "objects")
    (folder / "objects").mkdir()


def lose_everything(folder: Path) -> None:
    shutil.rmtree(folder)


def lock(folder: Path) -> None:
    for name in ("HEAD.lock", "config.lock", "refs/reconciler/head.lock", "packed-refs.lock", "shallow.lock"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


DAMAGES = [truncate, garble, lose_objects, lose_everything]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_mirror_is_made_anew_while_the_daemon_runs(
    damage: Callable[[Path], None], tmp_path: Path, source: Repository
) -> None:
    with daemons.running(tmp_path / "daemon", repositories=[watched("one", source.path)]) as daemon:
        daemon.run_of("one", source.head())
        damage(mirror(daemon))
        source.write("a.yaml", destination("a", "edited"))
        source.write("c.yaml", destination("c"))
        source.commit()
        daemon.state_of("one", "ready")
        daemons.until(lambda: daemon.repository("one")["commit"] == source.head(), "the commit is applied")
        assert _versions(daemon) == {"a": 2, "b": 1, "c": 1}
        run = daemon.run_of("one", source.head())
        assert run["outcome"] == "succeeded"


@pytest.mark.parametrize("damage", [*DAMAGES, lock])
def test_a_mirror_that_was_damaged_while_nothing_ran_is_made_anew(
    damage: Callable[[Path], None], tmp_path: Path, source: Repository
) -> None:
    with daemons.running(tmp_path / "daemon", repositories=[watched("one", source.path)]) as daemon:
        daemon.run_of("one", source.head())
        daemon.stop()
        damage(mirror(daemon))
        source.remove("a.yaml")
        source.commit()
        daemon.start()
        daemons.until(lambda: daemon.repository("one")["commit"] == source.head(), "the commit is applied")
        assert _versions(daemon) == {"b": 1}


def _versions(daemon: Daemon) -> dict[str, int]:
    return {one["metadata"]["name"]: one["metadata"]["version"] for one in daemon.resources("Destination")}
