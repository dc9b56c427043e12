"""A process that is stopped while it holds a project's lock loses it, and writes nothing when it goes on."""

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from reconciler.store import engines
from reconciler.store.contract import Store
from reconciler.store.records import Record
from tests.postgresql.servers import Database
from tests.store import rows

pytestmark = [pytest.mark.providers, pytest.mark.anyio]

STOPPED_SECONDS = 10.0  # until a session is ended in whose transaction nothing happens
# Takes the lock, and writes when it is told to.
HOLDER = """\
import asyncio, sys
from pathlib import Path
from reconciler.store import engines
from reconciler.store.contract import StoreFault
from reconciler.store.records import Record
from tests.store import rows

async def main(url, worker_url, folder):
    opened = await engines.open_store(url, Path(folder), worker_url=worker_url)
    try:
        async with opened.store.locked("default", seconds=5.0):
            print("locked", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            await opened.store.commit([rows.stored("held")], record=Record(), project="default")
        print("stored", flush=True)
    except StoreFault as fault:
        print("refused", fault.message, flush=True)
    await opened.operations.close()
    await opened.store.close()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
async def store(database: Database, tmp_path: Path) -> AsyncIterator[Store]:
    opened = await engines.open_store(database.url, tmp_path, worker_url=database.worker_url)
    await opened.store.create_project(rows.PROJECT, at=rows.AT)
    yield opened.store
    await opened.operations.close()
    await opened.store.close()


@contextlib.contextmanager
def holding(database: Database, folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that holds the lock."""
    command = [sys.executable, "-c", HOLDER, database.url, database.worker_url, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "locked\n"
            yield process
        finally:
            process.kill()


def finish(process: "subprocess.Popen[str]") -> str:
    """Have it write; what came of it."""
    output, _ = process.communicate("write\n", timeout=30)
    return output


async def test_a_process_that_only_waits_keeps_the_lock_and_writes(
    store: Store, database: Database, tmp_path: Path
) -> None:
    with holding(database, tmp_path) as process:
        with pytest.raises(TimeoutError):
            async with store.locked(rows.PROJECT, seconds=STOPPED_SECONDS + 4):
                pytest.fail("two hold the lock")
        assert await asyncio.to_thread(finish, process) == "stored\n"
    assert await store.get(rows.PROJECT, rows.key("held")) is not None


async def test_a_process_that_is_stopped_loses_the_lock_and_writes_nothing(
    store: Store, database: Database, tmp_path: Path
) -> None:
    with holding(database, tmp_path) as process:
        process.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        async with store.locked(rows.PROJECT, seconds=STOPPED_SECONDS + 10):
            waited = time.monotonic() - begun
            await store.commit([rows.stored("other")], record=Record(), project=rows.PROJECT)
        process.send_signal(signal.SIGCONT)
        told = await asyncio.to_thread(finish, process)
    assert STOPPED_SECONDS - 4 < waited < STOPPED_SECONDS + 2  # since its last sign of life, at most 3 s before
    assert told.startswith("refused The store could not be "), told
    assert await store.get(rows.PROJECT, rows.key("held")) is None
    assert await store.get(rows.PROJECT, rows.key("other")) is not None
    assert await store.revision() == 1


async def test_a_process_that_is_stopped_in_a_commit_keeps_others_waiting_for_seconds_only(
    store: Store, database: Database, tmp_path: Path
) -> None:
    """It holds the lock of one project; the others go on at once."""
    await store.create_project("second", at=rows.AT)
    with holding(database, tmp_path) as process:
        process.send_signal(signal.SIGSTOP)
        async with asyncio.timeout(2), store.locked("second", seconds=2.0):
            await store.commit([rows.stored("one", project="second")], record=Record(), project="second")
        process.kill()
