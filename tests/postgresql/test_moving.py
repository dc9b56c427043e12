"""A service whose store is moved to PostgreSQL, and back, says what it said before."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli import exits
from tests import daemons
from tests.cli.conftest import Program
from tests.daemons import Daemon
from tests.postgresql.servers import Database
from tests.scenarios.upgrades import make_state, states
from tests.servers import sinks

pytestmark = [pytest.mark.providers, pytest.mark.slow]

ARCHIVE = sorted(states.FOLDER.glob("from-*.tar.xz"))[-1]
# Of the moment: when something was used last, which run it was, and sessions, which no copy has.
PASSING = frozenset({"session", "runs"})


@contextmanager
def running(folder: Path, proxy: str, **settings: object) -> Iterator[Daemon]:
    daemon = states.daemon(folder, proxy=proxy)
    daemon.configure(list(daemon.repositories.values()), **settings)
    daemon.start()
    try:
        states.settle(daemon)
        yield daemon
    finally:
        daemon.stop()


def said(daemon: Daemon, kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return its sentences, once it has found all mistakes."""
    wanted = set(kept["said"]["notifications"])
    secrets = kept["secrets"]
    root = {"root": secrets["people"]["root"]}
    daemons.until(lambda: wanted <= set(states.notifications(daemon, root)), "what was wrong is known")
    found = states.answers(daemon, **secrets)
    return {name: value for name, value in found.items() if name not in PASSING}


def moved(tmp_path: Path, source: str, target: str) -> None:
    told = Program(tmp_path)("store", "copy", source, target)
    assert told.code == exits.OK, told.err


def test_everything_is_as_it_was_on_the_other_engine_and_back(tmp_path: Path, database: Database) -> None:
    folder = tmp_path / "service"
    kept = states.unpack(ARCHIVE, folder)
    states.grow_young(folder, since=datetime.fromisoformat(kept["made"]))
    state = folder / "state"
    with sinks.listening() as sink:
        sink.choose(make_state.is_told)
        proxy = make_state.proxy(sink)
        with running(folder, proxy) as daemon:
            before = said(daemon, kept)
            session = states.me(daemon, {"Cookie": kept["secrets"]["cookie"]})
        moved(tmp_path, str(state), database.url)
        for name in ("store.db", "ops.db"):
            (state / name).rename(tmp_path / name)
        store = {"url": database.url, "workerUrl": database.worker_url}
        with running(folder, proxy, store=store, replica={"name": "moved"}) as daemon:
            there = said(daemon, kept)
            signed_out = states.me(daemon, {"Cookie": kept["secrets"]["cookie"]})
            daemon.apply(daemons.asked("made-there"))
        for path in state.glob("*.db*"):
            path.unlink()
        moved(tmp_path, database.url, str(state))
        with running(folder, proxy) as daemon:
            back = said(daemon, kept)
            assert daemon.resource("Destination", "made-there") is not None
    assert (session[0], signed_out[0]) == (200, 401)
    # A replica opens its own notifications of its queues, and resolves those of nobody after two minutes.
    notified = there["notifications"]
    own = [notified.pop(key) for key in notified.keys() - before["notifications"].keys()]
    assert {one["title"].rpartition(" (")[2] for one in own} <= {"replica moved)"}
    for name, value in before.items():
        assert there[name] == value, name
    made = back["resources"]["default"].pop("Destination/made-there")
    assert made["listed"]["metadata"]["version"] == 1
    for name, value in before.items():
        assert back[name] == value, name
    shutil.rmtree(folder)
