"""The promises of a store when there are several processes, and when one of them dies."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reconciler.store.contract import Store
from reconciler.store.records import Record
from tests.store import looking, rows, viewing_process, writing_process
from tests.store.engines import Engine

ROOT = Path(__file__).parents[2]
COMMITS = 6
WAIT = 30  # seconds


def start(module: str, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", f"tests.store.{module}", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def acknowledged_until_killed(engine: Engine, *, after: int, seconds: float) -> int:
    """The last commit that a writing process acknowledged, killed so long after it acknowledged a few."""
    with start("writing_process", engine.url) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(after)]
        time.sleep(seconds)  # into whatever it does by then, so there is nothing to wait for
        process.kill()
        lines += process.stdout.readlines()
    return int([line for line in lines if line.endswith("\n")][-1])


async def check_whole(store: Store, *, acknowledged: int) -> None:
    """No acknowledged commit is lost, at most the one under way is there besides, and each is whole."""
    revision = await store.revision()
    assert revision in (acknowledged, acknowledged + 1)
    listed = await looking.listed(store)
    found = {one["metadata"]["name"]: one["metadata"]["version"] for one in listed}
    assert found == dict.fromkeys(writing_process.NAMES, revision)
    for name in (writing_process.NAMES[0], writing_process.NAMES[-1]):
        assert await looking.versions(store, name) == list(range(revision, 0, -1))
    runs = [run["id"] for run in await looking.runs(store, limit=1_000_000)]
    assert runs == [writing_process.run_id(number) for number in range(revision, 0, -1)]


async def kill_and_check(engine: Engine, *, times: int) -> None:
    for turn in range(times):
        # Moments that are spread over the length of several commits.
        acknowledged = acknowledged_until_killed(engine, after=1 + turn % 5, seconds=0.02 * turn / times)
        store = engine.open()
        await check_whole(store, acknowledged=acknowledged)
        await store.close()


class ProcessPromises:
    """Several processes."""

    pytestmark = pytest.mark.anyio

    async def test_a_planning_process_sees_whole_commits_only(self, engine: Engine, store: Store) -> None:
        names = viewing_process.NAMES
        with start("viewing_process", engine.url, str(COMMITS)) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            while await store.revision() < COMMITS:
                number = await store.revision() + 1
                parts = (rows.stored(*names[at : at + 250], number=number) for at in range(0, len(names), 250))
                await store.commit(parts, record=Record())
            told, _ = process.communicate(timeout=WAIT)
        assert json.loads(told) == {"first": 0, "last": COMMITS, "torn": []}

    @pytest.mark.slow
    async def test_a_killed_process_loses_no_acknowledged_commit_and_leaves_no_half_one(self, engine: Engine) -> None:
        await kill_and_check(engine, times=4)

    @pytest.mark.slow
    async def test_sixty_killed_processes_lose_no_acknowledged_commit(self, engine: Engine) -> None:
        await kill_and_check(engine, times=60)
