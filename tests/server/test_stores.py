"""One daemon has one store: one that is missing is no new one, one that is removed takes nothing, nobody shares one."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import daemons
from tests.daemons import Daemon


def asked(name: str) -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": "Destination", "metadata": {"name": name}, "spec": {"type": "otlp"}}


def ends(daemon: Daemon) -> tuple[int, str]:
    """The exit code of a start that fails, and what it wrote."""
    known = len(daemon.output()) if daemon.log.exists() else 0
    daemon.launch()
    code = daemon.process.wait(daemons.START_SECONDS)
    told = daemon.output()[known:]
    daemon.log.write_bytes(b"")  # that is no line of JSON, as all others are
    return code, told


def remove(store: Path) -> None:
    """Remove a store with what is beside it."""
    for path in store.parent.glob("store.db*"):
        path.unlink()


@pytest.mark.parametrize("how", ["is missing", "is empty"])
def test_a_store_that_a_used_directory_lost_is_made_anew_only_if_that_is_meant(tmp_path: Path, how: str) -> None:
    with daemons.running(tmp_path / "daemon") as daemon:
        daemon.apply(asked("a"))
        daemon.stop()
        store = daemon.state / "store.db"
        remove(store)
        if how == "is empty":
            store.touch()
        told = (
            f"error: the store {store} {how}, and {daemon.state} is of a service that had one; put it back, restore a "
            "backup with `reconciler restore BACKUP`, or start once with --new-store to begin with an empty one\n"
        )
        assert ends(daemon) == (1, told)
        assert [path.stat().st_size for path in daemon.state.glob("store.db")] == ([0] if how == "is empty" else [])
        daemon.options = ("--new-store",)
        daemon.start()
        assert daemon.resources("Destination") == []
        daemon.apply(asked("b"))
        daemon.restart()
        assert [one["metadata"]["name"] for one in daemon.resources("Destination")] == ["b"]


def test_the_newest_copy_beside_a_missing_store_is_named(tmp_path: Path) -> None:
    with daemons.running(tmp_path / "daemon") as daemon:
        daemon.stop()
        copies = [daemon.state / f"store.db.before-{number}" for number in (8, 7)]
        (daemon.state / "store.db").rename(copies[0])
        copies[1].write_bytes(copies[0].read_bytes())
        for age, copy in enumerate(copies):
            os.utime(copy, (1_700_000_000 - age, 1_700_000_000 - age))
        code, told = ends(daemon)
        assert (code, f"`reconciler restore {copies[0]}`" in told) == (1, True)


def test_a_store_that_is_removed_under_a_service_takes_nothing_and_the_service_is_not_ready(tmp_path: Path) -> None:
    settings = {"notifications": {"interval": "1s"}}
    with daemons.running(tmp_path / "daemon", settings=settings) as daemon:
        daemon.apply(asked("a"))
        assert daemon.get("/readyz").status == 200
        store = daemon.state / "store.db"
        store.rename(store.with_name("elsewhere"))
        told = f"The store {store} was removed or replaced under the running service, so that nothing can be stored; "
        answer = daemon.post("/v1/apply", {"resources": [asked("b")]})
        assert (answer.status, answer.body["errors"][0].startswith(told)) == (503, True)
        assert daemon.post("/v1/projects", {"name": "acme"}).status == 503
        assert daemon.get("/readyz").status == 503
        store.with_name("elsewhere").rename(store)
        assert daemon.get("/readyz").status == 200


def test_two_services_with_directories_of_their_own_do_not_share_a_store(tmp_path: Path) -> None:
    url = {"store": {"url": f"sqlite:///{tmp_path}/shared.db"}}
    with daemons.running(tmp_path / "one", settings=url) as daemon:
        second = Daemon(tmp_path / "two", settings=url)
        told = f"error: another daemon (process {daemon.process.pid}) uses the store {tmp_path}/shared.db; "
        assert ends(second) == (1, f"{told}stop it, or give this one another `store.url`\n")
        assert daemon.get("/readyz").status == 200
        assert (tmp_path / "shared.db.lock").stat().st_mode & 0o777 == 0o600


OPENS = """
import asyncio, sys
from datetime import UTC, datetime
from pathlib import Path
path = Path(sys.argv[1])
opened = []
sys.addaudithook(lambda event, told: opened.append(str(told[0])) if event == "open" else None)
from reconciler.store import engines
from reconciler.store.records import Record
from reconciler.store.sqlite import SqliteStore
from reconciler.ops import backup as backing_up, databases as upgrading
from reconciler.ops.checks import files
from reconciler.store.files import STORE, DatabasePlaces as Places
from reconciler.ops.databases import ProgressWatch as Watch
async def use():
    store = SqliteStore(path)
    engines.open_view(str(path))
    places = Places(path, path.with_name("ops.db"))
    upgrading.copy_before_upgrade(places, clock=lambda: 0.0)
    watch = Watch(lambda: 0.0, 60, lambda _: None)
    backing_up.back_up(places, path.parent / "backup", now=datetime.now(UTC), watch=watch)
    files.check_database(path, STORE, is_full=True)
    await store.commit((), record=Record(redacts=True))
    await store.erase_traces()
    store.figures()
    await store.close()
asyncio.run(use())
print(opened.count(str(path)), len(opened) > 10)
"""


def test_nothing_but_sqlite_opens_a_store_that_is_there(tmp_path: Path) -> None:
    """Closing any other descriptor of it would drop SQLite's locks."""
    with daemons.running(tmp_path / "daemon") as daemon:
        daemon.stop()
        store = str(daemon.state / "store.db")
        command = [sys.executable, "-c", OPENS, store]
        done = subprocess.run(command, capture_output=True, check=False, text=True)
        assert (done.stdout, done.stderr) == ("0 True\n", "")
