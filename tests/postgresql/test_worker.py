"""The worker of a daemon on PostgreSQL: its connections, and what becomes of its work when they are lost."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import psycopg
import pytest

from reconciler.worker import messages
from tests import stores
from tests.canaries import MARKER
from tests.daemons import Daemon, asked, destination, end, until, watched
from tests.postgresql.servers import PASSWORDS, WORKER, Database, Server
from tests.repositories import Repository

pytestmark = pytest.mark.providers

LANES = len(get_args(messages.Job))
SOON_SECONDS = 5.0  # until a lost connection is noticed


@pytest.fixture
def own() -> Iterator[Server]:
    """A server with passwords that a test may stop."""
    server = Server(tcp=True)
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture
def source(tmp_path: Path) -> Repository:
    source = Repository.init(tmp_path / "source")
    source.write("one.yaml", destination("one"))
    source.commit()
    return source


def on(database: Database, folder: Path, *sources: Repository) -> Daemon:
    """A daemon whose store is in this database, and whose worker is the real one."""
    stores.keep(folder / "state", database)
    entries = [watched(one.path.name, one.path, interval="500ms") for one in sources]
    return Daemon(folder, repositories=entries, has_real_reader=True)


def connections(database: Database) -> list[tuple[Any, ...]]:
    """The backends of the worker."""
    with psycopg.connect(database.admin_url) as admin:
        found = "select pid from pg_stat_activity where datname = %s and usename = %s order by pid"
        return admin.execute(found, [database.name, WORKER]).fetchall()


def test_its_connections_are_one_for_each_kind_of_job_and_its_password_is_shown_nowhere(
    own: Server, tmp_path: Path, source: Repository
) -> None:
    database = own.database("one")
    daemon = on(database, tmp_path / "daemon", source)
    try:
        daemon.start()
        daemon.applied("source", source.head())
        daemon.apply(asked("two"))
        assert len(connections(database)) == LANES == 8
        worker = Path(f"/proc/{daemon.reader()}")
        shown = [(worker / name).read_bytes() for name in ("cmdline", "environ")] + [daemon.log.read_bytes()]
        for password in PASSWORDS.values():
            assert MARKER in password
            assert password.encode() not in b"".join(shown)
        assert daemon.stop() == 0
        assert until(lambda: connections(database) == [], "its connections end with it")
    finally:
        end(daemon)


def test_a_lost_connection_ends_it_and_the_next_job_gets_another(
    database: Database, tmp_path: Path, source: Repository
) -> None:
    daemon = on(database, tmp_path / "daemon", source)
    try:
        daemon.start()
        daemon.applied("source", source.head())
        first, [(backend,), *_] = daemon.reader(), connections(database)
        with psycopg.connect(database.admin_url) as admin:
            admin.execute("select pg_terminate_backend(%s)", [backend])
        until(lambda: not Path(f"/proc/{first}").exists(), "it has ended", seconds=SOON_SECONDS)
        source.write("one.yaml", destination("one", "changed"))
        daemon.applied("source", source.commit())
        assert daemon.reader() != first
        assert len(connections(database)) == LANES
    finally:
        end(daemon)


def test_without_the_server_it_is_started_seldom_and_afterwards_everything_is_read(
    own: Server, tmp_path: Path, source: Repository
) -> None:
    database = own.database("one")
    daemon = on(database, tmp_path / "daemon", source)
    try:
        daemon.start()
        daemon.applied("source", source.head())
        first = daemon.reader()
        own.stop("immediate")
        until(lambda: not Path(f"/proc/{first}").exists(), "it has ended", seconds=SOON_SECONDS)
        source.write("one.yaml", destination("one", "changed"))
        head = source.commit()
        answers, begun = [], time.monotonic()
        while time.monotonic() < begun + 6:
            answers.append(daemon.post("/v1/apply", {"resources": [asked("two")]}).status)
            time.sleep(0.2)
        assert set(answers) == {503}
        told = [message for message in daemon.messages() if message.startswith("The worker ended")]
        assert 1 <= len(told) <= 6, told
        own.start()
        until(lambda: daemon.post("/v1/apply", {"resources": [asked("two")]}).status == 202, "it applies again")
        daemon.applied("source", head)
        assert daemon.run_of("source", head)["counts"] == {"configured": 1}
        assert daemon.repository("source")["state"] == "ready"
    finally:
        end(daemon)


def test_a_connection_that_is_lost_in_a_job_sets_no_file_aside(
    database: Database, tmp_path: Path, source: Repository
) -> None:
    for number in range(1_000):
        source.write(f"{number}.yaml", destination(f"d-{number}"))
    head = source.commit()
    daemon = on(database, tmp_path / "daemon", source)
    try:
        daemon.start()
        for _ in range(4):
            until(lambda: len(connections(database)) >= LANES, "it is connected")
            with psycopg.connect(database.admin_url) as admin:
                statement = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and usename = %s"
                admin.execute(statement, [database.name, WORKER])
            time.sleep(0.3)
        # A run that failed is tried again after a while.
        until(lambda: daemon.repository("source")["commit"] == head, "it is applied", seconds=90)
        run = daemon.run_of("source", head)
        assert (run["outcome"], sum(run["counts"].values())) == ("succeeded", 1_001)
        assert not [message for message in daemon.messages() if "set aside" in message]
    finally:
        end(daemon)


def test_a_killed_worker_leaves_no_connection(database: Database, tmp_path: Path, source: Repository) -> None:
    daemon = on(database, tmp_path / "daemon", source)
    try:
        daemon.start()
        daemon.applied("source", source.head())
        os.kill(daemon.reader(), signal.SIGKILL)
        daemon.apply(asked("two"))
        until(lambda: len(connections(database)) == LANES, "those of the killed one are gone", seconds=10)
    finally:
        end(daemon)
