"""A secret was committed in a description: after it is mended and redacted, nothing of the service holds it."""

import asyncio
import logging
import os
import shutil
import subprocess
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import pytest

from reconciler.server import daemon as server_daemon
from reconciler.store.records import Record
from reconciler.store.sqlite import SqliteStore
from tests import daemons
from tests.daemons import COMMAND, Daemon, destination, statuses, watched
from tests.repositories import Repository
from tests.store import redacting_process, rows
from tests.store.contract_redactions import files_holding, filled
from tests.store.engines import read_only

CANARY = "canary-in-a-commit-7f3a"
QUICK = 0.01  # seconds between two tries to erase
SECONDS = 20.0
ERASED_SECONDS = 60.0  # every five seconds it is tried, and a read that is under way puts it off


@pytest.fixture
def clean(source: Repository) -> str:
    """The commit before anything was wrong."""
    return source.head()


@pytest.fixture
def daemon(tmp_path: Path, source: Repository, clean: str) -> Iterator[Daemon]:
    """A daemon that has read a canary in a description, and its mend; between them it stored what an admin made of it,
    and refused a document that a run quotes.
    """
    with daemons.running(tmp_path / "daemon", repositories=[watched("one", source.path)]) as daemon:
        daemon.run_of("one", clean)
        source.write("a.yaml", destination("a", f"token {CANARY}"))
        daemon.run_of("one", source.commit())
        assert daemon.post("/v1/repositories/one/suspend", {"reason": "a bad night"}).status == 200
        document = {"apiVersion": "service/v1", "kind": "Destination", "spec": {"type": "otlp"}}
        override = {**document, "metadata": {"name": "a", "description": f"{CANARY}, and more"}}
        assert daemon.post("/v1/apply", {"resources": [override]}).status == 202
        resumed = daemon.post("/v1/repositories/one/resume", {})
        assert resumed.status == 202, resumed
        daemon.finished(resumed.body["run"])
        source.write("a.yaml", destination("a", "mended", **{CANARY: 1}))
        run = daemon.run_of("one", source.commit())
        assert statuses(run) == {"a": "invalid"}
        assert CANARY in run["statuses"][0]["reason"]
        source.write("a.yaml", destination("a", "mended"))
        daemon.run_of("one", source.commit())
        yield daemon


def redact(daemon: Daemon, name: str) -> str:
    """Return what the command says, once no trace is left."""
    environment = {**os.environ, "SERVICE_API_KEY": daemon.key, "SERVICE_SERVER": f"http://127.0.0.1:{daemon.port}"}
    command = [str(COMMAND), "history", "redact", "Destination", name, "--value-file", "-"]
    ran = subprocess.run(
        command, input=CANARY + "\n", env=environment, text=True, capture_output=True, check=False, timeout=SECONDS
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    daemons.until(lambda: not holding(daemon.state), "the traces are erased", seconds=ERASED_SECONDS)
    return str(ran.stdout)


def holding(folder: Path) -> list[Path]:
    """The files that hold the canary, but for mirrors, whose objects are compressed."""
    files = [path for path in folder.rglob("*") if path.is_file() and "mirrors" not in path.parts]
    return [path for path in files if CANARY.encode() in path.read_bytes()]


def objects_with(daemon: Daemon, text: str) -> list[str]:
    """The objects in the mirror that hold a text."""
    (mirror,) = (daemon.state / "mirrors").iterdir()
    found = []
    for name in _git(mirror, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").decode().split():
        if text.encode() in _git(mirror, "cat-file", "-p", name):
            found.append(name)
    return found


def _git(folder: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True).stdout


def explained(daemon: Daemon, name: str) -> list[dict[str, Any]]:
    """A history, once its newest version says which commit changed it: that may come a moment after the run."""

    def look() -> list[dict[str, Any]] | None:
        found = daemon.history("Destination", name)
        return found if "changedBy" in found[0]["status"]["source"] else None

    return daemons.until(look, f"the lineage of {name} is known")


def test_nothing_but_the_mirror_holds_what_was_redacted(daemon: Daemon, source: Repository) -> None:
    before, other = explained(daemon, "a"), explained(daemon, "b")
    assert holding(daemon.state) != []
    assert redact(daemon, "a").startswith("Destination/a: versions 2, 3, 4 rewritten, 4 places\n")
    assert [path for path in (daemon.log,) if CANARY in path.read_text()] == []
    after = daemon.history("Destination", "a")
    descriptions = [one["metadata"].get("description") for one in after]
    assert descriptions == ["mended", "token (redacted)", "(redacted), and more", "token (redacted)", None]
    for old, new in zip(before[:-1], after[:-1], strict=True):
        assert new == {**old, "metadata": {**old["metadata"], "description": new["metadata"]["description"]}}
    assert (after[0], after[-1]) == (before[0], before[-1])
    assert daemon.history("Destination", "b") == other
    assert not any(CANARY in str(daemon.run(run["id"])) for run in daemon.runs("one"))
    known = len(daemon.runs("one"))
    daemon.configure([watched("one", source.path, acceptInvalid=True)])  # so that everything is read again
    daemon.restart()
    daemon.reconcile("one")
    assert [run["counts"] for run in daemon.runs("one")[:-known]] == [{}, {"unchanged": 2}]
    assert daemon.history("Destination", "a") == after


def test_the_mirror_forgets_a_rewritten_history_when_it_is_made_anew(
    daemon: Daemon, source: Repository, clean: str
) -> None:
    redact(daemon, "a")
    history = explained(daemon, "a")
    # Upstream the history is rewritten, and pushed by force.
    source.git("read-tree", "--reset", "-u", clean)
    source.write("a.yaml", destination("a", "mended"))
    run = daemon.run_of("one", source.lead_to(source.prepared(upon=clean)))
    assert (run["rewound"], run["outcome"], run["counts"]) == (True, "succeeded", {})
    assert objects_with(daemon, CANARY) != []
    daemon.stop()
    (mirror,) = (daemon.state / "mirrors").iterdir()
    shutil.rmtree(mirror)
    daemon.start()
    assert daemon.reconcile("one")["counts"] == {}
    source.write("c.yaml", destination("c"))
    assert daemon.run_of("one", source.commit())["counts"] == {"created": 1}
    assert (objects_with(daemon, CANARY), holding(daemon.state)) == ([], [])
    assert daemon.history("Destination", "a") == history


class TestErasing:
    """The loop that clears the store's files."""

    pytestmark = pytest.mark.anyio

    async def test_it_waits_for_readers_and_says_when_traces_are_gone(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        async with aclosing(_rewritten(tmp_path)) as stores:
            store = await anext(stores)
            pages = store.history_pages(rows.PROJECT, rows.key(redacting_process.NAME))
            task = asyncio.create_task(server_daemon.erase_loop(store, seconds=QUICK, again_seconds=QUICK))
            async with aclosing(pages):
                assert await anext(pages)
                await store.commit([], record=Record(redacts=True))
                await asyncio.sleep(5 * QUICK)
                assert caplog.messages == []  # what a reader holds open waits for it
            await _said(caplog, "The store's files hold no trace of what was rewritten any more.")
            assert files_holding(tmp_path, redacting_process.SECRET) == []
            await _ended(task)
        assert len(caplog.messages) == 1

    async def test_a_disk_that_takes_nothing_is_told_and_tried_again(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        async with aclosing(_rewritten(tmp_path)) as stores:
            store = await anext(stores)
            with read_only(tmp_path / "store.db"):
                task = asyncio.create_task(server_daemon.erase_loop(store, seconds=QUICK, again_seconds=QUICK))
                told = "Traces of what was rewritten may still be in the store's files. The store could not be"
                await _said(caplog, told)
            await _said(caplog, "The store's files hold no trace of what was rewritten any more.")
            assert files_holding(tmp_path, redacting_process.SECRET) == []
            await _ended(task)


async def _rewritten(folder: Path) -> AsyncGenerator[SqliteStore, None]:
    """A store whose versions held a secret, and whose files still do."""
    store = SqliteStore(folder / "store.db")
    await store.create_project(rows.PROJECT, at=rows.AT)
    await filled(store)
    await store.commit(redacting_process.rewriting(), record=Record())
    yield store
    await store.close()


async def _said(caplog: pytest.LogCaptureFixture, start: str) -> None:
    """Wait for a line of the log."""
    async with asyncio.timeout(SECONDS):
        while True:
            if any(message.startswith(start) for message in caplog.messages):
                return
            await asyncio.sleep(0.005)


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
