"""`ops.db`: what is kept is there after every end, and a file that cannot be used says what to do."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reconciler.model.errors import Refused
from reconciler.store import files
from reconciler.store import operations as store_operations
from reconciler.store.contract import StoreFault
from reconciler.store.operations import SqliteOperations
from reconciler.store.records import SessionRow
from reconciler.store.sqlite import SqliteStore
from tests.store.contract_operations import AT, LATER, row
from tests.store.engines import writer

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
KILLED = """
import asyncio, os, sys
from pathlib import Path
from reconciler.store.operations import SqliteOperations
from tests.store.contract_operations import row

async def main():
    operations = SqliteOperations(Path(sys.argv[1]))
    await operations.put_session(row(2), without=[row(1).digest])
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


CROWDED = """
import os, resource, sys
from pathlib import Path
from reconciler.model.errors import ReconcilerError
from reconciler.store import database
from reconciler.store.operations import PACKAGE, SqliteOperations
from reconciler.store.sqlite import SqliteStore

path = Path(sys.argv[1])
database.load_queries()
database.load_queries(PACKAGE)
resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))
try:
    while True:
        os.dup(0)
except OSError:
    pass
for opening in (SqliteOperations, SqliteStore):
    try:
        opening(path)
    except ReconcilerError as problem:
        print(problem.message)
"""
NOW = datetime(2026, 11, 27, 1, 2, 3, tzinfo=UTC)


async def left(path: Path) -> list[SessionRow]:
    """Return what another opening finds."""
    opened = SqliteOperations(path)
    found = await opened.sessions()
    await opened.close()
    return found


def killed(path: Path) -> int:
    """The exit code of a process that dies as soon as it was told that a session is kept."""
    return subprocess.run([sys.executable, "-c", KILLED, path], cwd=ROOT, timeout=30, check=False).returncode


def damage(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + b"\xff" * (len(data) - len(data) // 2))


async def test_each_file_has_another_key_of_sealed_sign_ins(path: Path) -> None:
    found = []
    for name in ("ops.db", "other.db"):
        operations = SqliteOperations(path.with_name(name))
        found.append(await operations.flow_key())
        await operations.close()
    assert len(set(found)) == 2


async def test_only_the_owner_may_read_the_files(path: Path) -> None:
    before = os.umask(0)
    try:
        operations = SqliteOperations(path)
        await operations.put_session(row(1))
        modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in path.parent.iterdir()}
    finally:
        os.umask(before)
    await operations.close()
    assert modes == dict.fromkeys(["ops.db", "ops.db-shm", "ops.db-wal"], 0o600)


async def test_each_change_of_a_session_waits_for_the_disk(operations: SqliteOperations, path: Path) -> None:
    levels: list[int] = []

    def look(statement: str) -> None:
        if statement.startswith("commit"):
            levels.append(synchronous())

    def synchronous() -> int:
        connection.set_trace_callback(None)
        (level,) = connection.execute("pragma synchronous").fetchone()
        connection.set_trace_callback(look)
        return int(level)

    connection = writer(path)
    connection.set_trace_callback(look)
    await operations.put_session(row(1))
    await operations.touch_sessions({row(1).digest: LATER})
    await operations.remove_sessions([row(1).digest])
    connection.set_trace_callback(None)
    assert levels == [2, 2, 2]


async def test_a_process_that_is_killed_leaves_what_it_was_told_is_kept(path: Path) -> None:
    operations = SqliteOperations(path)
    await operations.put_session(row(1))
    await operations.close()
    assert (killed(path), await left(path)) == (-signal.SIGKILL, [row(2)])


async def test_so_much_may_wait_to_be_written_and_more_is_refused(operations: SqliteOperations, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as another:
        another.execute("begin immediate")
        waiting = [asyncio.ensure_future(operations.remove_sessions([])) for _ in range(store_operations.WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(StoreFault, match=r"^Too many writes of sessions and notifications wait; try again\.$"):
            await operations.put_session(row(1))
    await asyncio.gather(*waiting)
    await operations.put_session(row(1))
    assert await operations.sessions() == [row(1)]


def refusal(path: Path, why: str) -> str:
    return (
        f"The sessions in {path} cannot be used ({why}); look at the disk's space and permissions, or remove ops.db "
        "and what is called so with `-wal` and `-shm`: everybody signs in again, and what is wrong is notified "
        "anew; no more is lost."
    )


def refused(path: Path) -> tuple[str, bool]:
    """Return what a start says, and whether it left the file alone."""
    before = path.read_bytes()
    with pytest.raises(Refused) as caught:
        SqliteOperations(path)
    return caught.value.message, path.read_bytes() == before


def test_a_text_in_its_place_is_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"a text, and no database\n" * 100)
    assert refused(path) == (refusal(path, "file is not a database"), True)


async def test_another_database_in_its_place_is_refused_and_left_alone(path: Path) -> None:
    await SqliteStore(path).close()
    assert refused(path) == (refusal(path, "the file is another program's database"), True)


async def test_one_of_a_later_version_is_refused_and_left_alone(path: Path) -> None:
    await SqliteOperations(path).close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma user_version = 7000")
    assert refused(path) == (refusal(path, "a later version of this program wrote them"), True)


async def _fill(path: Path) -> None:
    operations = SqliteOperations(path)
    for number in range(100):
        await operations.put_session(row(number)._replace(id_token="x" * 1_000))
    await operations.close()


def _without_a_version(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma user_version = 0")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "pages": damage,
    "a text": lambda path: path.write_bytes(b"a text, and no database\n" * 100),
    "a few bytes": lambda path: path.write_bytes(path.read_bytes()[:100]),
    "half of it": lambda path: os.truncate(path, path.stat().st_size // 2),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "no version": _without_a_version,
}


@pytest.mark.parametrize("break_", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_one_is_set_aside_with_its_logs_and_a_new_one_takes_its_place(
    path: Path, break_: Callable[[Path], object]
) -> None:
    asyncio.run(_fill(path))
    assert files.set_aside_damaged(path, at=NOW) is None
    for turn in range(2):
        break_(path)
        path.with_name("ops.db-wal").write_bytes(b"log")
        broken = path.read_bytes()
        kept = files.set_aside_damaged(path, at=NOW)
        assert kept == path.with_name(f"ops.db.damaged-20261127T010203{turn:06}Z")
        assert (kept.read_bytes(), kept.with_name(f"{kept.name}-wal").read_bytes()) == (broken, b"log")
        assert files.damaged_copies(path)[turn:] == [kept]
        assert asyncio.run(left(path)) == []
    assert [one.name for one in path.parent.glob("ops.db-*")] == []


def test_the_damage_is_told_as_sqlite_tells_it_without_its_heading(path: Path) -> None:
    asyncio.run(_fill(path))
    with path.open("r+b") as file:
        file.seek(36)  # the number of free pages, in the header of a database
        file.write((7).to_bytes(4, "big"))
    assert files.damage(path) == "Main freelist: size is 0 but should be 7"


def test_what_is_not_damaged_is_not_set_aside(path: Path) -> None:
    assert files.set_aside_damaged(path, at=NOW) is None
    for content in ("", "create table theirs (name text)"):
        path.touch()
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute(content)
        assert files.set_aside_damaged(path, at=NOW) is None
    path.unlink()
    path.mkdir()
    assert files.set_aside_damaged(path, at=NOW) is None


def test_too_many_open_files_are_told_as_that(path: Path) -> None:
    """In a process of its own, which then can open nothing more."""
    told = subprocess.run([sys.executable, "-c", CROWDED, path], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (told.stdout, told.stderr) == (
        f"The sessions in {path} cannot be used (too many files are open: raise `LimitNOFILE` in the service's unit, "
        "or `ulimit -n` where it is started); look at the disk's space and permissions, or remove ops.db and what is "
        "called so with `-wal` and `-shm`: everybody signs in again, and what is wrong is notified anew; no more is "
        "lost.\nThe store could not be opened; nothing was changed: too many files are open: raise `LimitNOFILE` in "
        "the service's unit, or `ulimit -n` where it is started.\n",
        "",
    )


async def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "ops.db"
    with pytest.raises(Refused) as caught:
        SqliteOperations(path)
    assert caught.value.message == refusal(path, f"[Errno 2] No such file or directory: '{path}'")


def test_what_a_row_says_of_itself_holds_no_token_and_no_digest() -> None:
    assert repr(row(1)) == f"SessionRow(user='id-una', created_at='{AT}')"
