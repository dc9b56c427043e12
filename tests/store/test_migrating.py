"""Migrations: each step is applied whole with its record, or not at all."""

import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reconciler.store import database
from reconciler.store.records import Record
from reconciler.store.sqlite import SqliteStore
from reconciler.store.statements import Migration
from tests.store import looking, rows

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
STEPS = database.migrations()
LATEST = STEPS[-1].number
GOOD = Migration(number=LATEST + 1, sql="create table good (value any) strict;")
BAD = Migration(
    number=LATEST + 2,
    sql="create table half (value any) strict; insert into good values (1); nonsense;",
)
KILLED = """
import os, sys
from pathlib import Path
from reconciler.store import database as connections, database as migrating
from reconciler.store.statements import Migration

def die():
    os.kill(os.getpid(), 9)

connection = connections.open_writer(Path(sys.argv[1]))
connection.create_function("die", 0, die)
numbers = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)"
fill = f"insert into half {numbers} select hex(randomblob(99)) from n"
sql = f"create table half (value any) strict; {fill}; update fact set value = 99; select die();"
migrating.migrate(connection, steps=(Migration(number=int(sys.argv[2]), sql=sql),))
"""


def shape(connection: sqlite3.Connection) -> tuple[int, list[str]]:
    """The version, and the tables that the steps of these tests make."""
    found = connection.execute("select name from sqlite_schema where name in ('good', 'half') order by name").fetchall()
    return connection.execute("pragma user_version").fetchone()[0], [name for (name,) in found]


def killed_in_a_step(path: Path) -> int:
    """The bytes that the killed step had written by then."""
    died = subprocess.run([sys.executable, "-c", KILLED, path, str(LATEST + 1)], cwd=ROOT, timeout=30, check=False)
    assert died.returncode == -signal.SIGKILL
    return path.with_name(f"{path.name}-wal").stat().st_size


def test_the_steps_that_ship_are_numbered_without_a_gap() -> None:
    assert [step.number for step in STEPS] == list(range(1, LATEST + 1))


async def test_a_new_store_has_the_latest_version_and_says_whose_it_is(tmp_path: Path) -> None:
    await SqliteStore(tmp_path / "store.db").close()
    header = (tmp_path / "store.db").read_bytes()[:100]
    assert (header[:15], int.from_bytes(header[60:64], "big"), header[68:72]) == (b"SQLite format 3", LATEST, b"RCLR")


async def test_a_step_that_fails_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    await store.create_project(rows.PROJECT, at=rows.AT)
    await store.commit([rows.stored("a")], record=Record(run=rows.run("R1")))
    seen = await looking.everything(store)
    await store.close()

    connection = database.open_writer(path)
    with pytest.raises(sqlite3.OperationalError, match="nonsense"):
        database.migrate(connection, steps=(*STEPS, GOOD, BAD))
    assert (shape(connection), connection.in_transaction) == ((LATEST, []), False)
    repaired = Migration(number=BAD.number, sql="create table half (value any) strict;")
    database.migrate(connection, steps=(*STEPS, GOOD, repaired))
    assert shape(connection) == (LATEST + 2, ["good", "half"])
    connection.execute(f"pragma user_version = {LATEST}")
    connection.close()

    again = SqliteStore(path)
    assert await looking.everything(again) == seen
    await again.close()


def test_a_step_may_end_in_a_comment(tmp_path: Path) -> None:
    connection = database.open_writer(tmp_path / "store.db")
    step = Migration(number=1, sql="create table good (value any) strict; -- no line after this")
    database.migrate(connection, steps=(step,))
    assert (shape(connection), connection.in_transaction) == ((1, ["good"]), False)
    connection.close()


async def test_a_process_killed_in_a_step_leaves_the_version_before_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    await store.create_project(rows.PROJECT, at=rows.AT)
    await store.commit([rows.stored("a")], record=Record())
    seen = await looking.everything(store)
    await store.close()
    assert killed_in_a_step(path) > 0
    again = SqliteStore(path)
    assert await looking.everything(again) == seen
    await again.close()
    connection = database.open_writer(path)
    assert shape(connection) == (LATEST, [])
    connection.close()


def test_a_step_that_another_process_takes_meanwhile_is_taken_once(tmp_path: Path) -> None:
    first, second = (database.open_writer(tmp_path / "store.db") for _ in range(2))
    waiting = threading.Event()
    second.set_trace_callback(lambda statement: waiting.set() if statement.startswith("begin") else None)
    step = Migration(number=1, sql="create table good (value any) strict;")
    first.execute("begin immediate")
    with ThreadPoolExecutor(1) as executor:
        migrated = executor.submit(database.migrate, second, steps=(step,))
        assert waiting.wait(10)  # it has seen the version before the step
        first.execute(step.sql)
        first.execute("pragma user_version = 1")
        first.execute("commit")
        migrated.result(10)
    assert (shape(first), shape(second), second.in_transaction) == ((1, ["good"]), (1, ["good"]), False)
    first.close()
    second.close()


def test_processes_that_open_a_new_store_at_once_all_succeed(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from reconciler.store.sqlite import SqliteStore; SqliteStore(pathlib.Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "store.db")]
    processes = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    told = [process.communicate(timeout=30)[1] for process in processes]
    assert ([process.returncode for process in processes], told) == ([0] * 4, [""] * 4)
