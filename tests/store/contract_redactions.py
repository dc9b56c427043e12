"""Promises of a store about rewritten versions: what they and what quotes them were is gone, whole or not at all."""

import asyncio
import json
from contextlib import aclosing
from pathlib import Path

import pytest

from reconciler.model.names import Key
from reconciler.store.contract import Store, StoreFault
from reconciler.store.records import AuditRow, Changes, QuoteRow, Record, Traces, VersionRow
from tests.store import looking, redacting_process, rows
from tests.store.contract_processes import start
from tests.store.engines import Engine

SECRET = redacting_process.SECRET
NAME = redacting_process.NAME


def rewritten(number: int, padding: str) -> VersionRow:
    return VersionRow(rows.PROJECT, rows.KIND, NAME, number, rows.body(NAME, number, padding), None)


def files_holding(folder: Path, text: str) -> list[str]:
    """The files in a folder that hold a text; see `looking.files` for the one that is left out."""
    files = [file for file in sorted(folder.iterdir()) if not file.name.endswith("-shm")]
    return [file.name for file in files if text.encode() in file.read_bytes()]


async def paddings(store: Store) -> set[str]:
    """Return what distinguishes the versions, without its length."""
    found = await looking.history(store, rows.key(NAME))
    return {str(one["spec"]["padding"]).rstrip("x") for one in found}


async def filled(store: Store) -> None:
    """Many versions hold a secret, and a run quotes it."""
    record = Record(run=rows.run(redacting_process.RUN))
    await store.commit(redacting_process.storing(), record=record)


async def erased(store: Store) -> None:
    """Erase the traces. A server that looks at its tables by itself at this moment keeps them for a moment."""
    for _ in range(100):
        if await store.erase_traces() is Traces.ERASED:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the traces are kept")


class RedactionPromises:
    """Rewriting."""

    pytestmark = pytest.mark.anyio

    async def test_versions_and_quotes_are_found_and_rewritten(self, engine: Engine, store: Store) -> None:
        told = AuditRow(
            rows.AT, rows.PROJECT, "key:ada", "suspended", "Repository", "r", None, None, None, None, SECRET
        )
        other = rows.run_status("R2", 1, reason="nothing of it")
        quoting = rows.run_status("R1", 3, name="b", reason=f"b: {SECRET}", notes=f"one\n{SECRET} two")
        parts = [rows.stored(NAME, padding=SECRET), Changes(statuses=[quoting, other], audit=[told])]
        await store.commit(parts, record=Record(run=rows.run("R1", message=f"it was {SECRET}")))
        await store.commit([rows.stored(NAME, number=2)], record=Record(run=rows.run("R2")))
        view = engine.view()
        with view.snapshot() as revision:
            versions = [(one.version, json.loads(one.body)) for one in view.versions(rows.PROJECT, rows.key(NAME))]
            [first] = view.versions(rows.PROJECT, rows.key(NAME), number=1)
            found = list(view.quotes(rows.PROJECT, [SECRET]))
            assert list(view.quotes("another", [SECRET])) == []
            assert list(view.versions("another", Key(rows.KIND, NAME))) == []
        assert versions == [(2, json.loads(rows.body(NAME, 2))), (1, json.loads(rows.body(NAME, 1, SECRET)))]
        assert first.version == 1
        detail, message, notes, reason = found
        assert (detail.of, detail.text, message[0:3], message.text) == (
            "detail",
            SECRET,
            ("message", "R1", 0),
            f"it was {SECRET}",
        )
        assert notes == QuoteRow("notes", "R1", 3, f"one\n{SECRET} two")
        assert reason == QuoteRow("reason", "R1", 3, f"b: {SECRET}")
        left = [quote._replace(text=quote.text.replace(SECRET, "?")) for quote in found]
        part = Changes(rewritten=[rewritten(1, "?")], quotes=left)
        assert await store.commit([part], record=Record()) == revision + 1
        assert await looking.run(store, "R1") == [
            {**(await looking.run(store, "R1"))[0], "message": "it was ?"},
            {
                "kind": rows.KIND,
                "name": "b",
                "status": "invalid",
                "reason": "b: ?",
                "path": "a.yaml",
                "line": 3,
                "notes": ["one", "? two"],
            },
        ]
        assert (await looking.run(store, "R2"))[1]["reason"] == "nothing of it"
        with view.snapshot():
            assert list(view.quotes(rows.PROJECT, [SECRET])) == []
            found = list(view.quotes(rows.PROJECT, ["never said", "?"]))
        assert [quote.of for quote in found] == ["detail", "message", "notes", "reason"]
        view.close()

    async def test_a_redaction_grows_the_revision_whatever_it_found(self, store: Store) -> None:
        await store.commit([rows.stored(NAME)], record=Record())
        assert await store.commit([], record=Record(redacts=True)) == 2
        await erased(store)
        assert await store.erase_traces() is Traces.NONE

    async def test_there_is_nothing_to_erase_after_other_commits(self, store: Store) -> None:
        await store.commit([rows.stored(NAME)], record=Record())
        assert await store.erase_traces() is Traces.NONE

    async def test_traces_stay_as_long_as_somebody_reads_an_older_revision(self, store: Store) -> None:
        await filled(store)
        pages = store.history_pages(rows.PROJECT, rows.key(NAME))
        async with aclosing(pages):
            assert await anext(pages)
            await store.commit(redacting_process.rewriting(), record=Record())
            assert await store.erase_traces() is Traces.KEPT
            assert await paddings(store) == {"(redacted)"}
        await erased(store)

    async def test_what_is_to_be_erased_is_known_after_a_restart(self, engine: Engine, store: Store) -> None:
        await filled(store)
        await store.commit(redacting_process.rewriting(), record=Record())
        await store.close()
        again = engine.open()
        seen = await looking.everything(again)
        assert [await again.erase_traces(), await again.erase_traces()] == [Traces.ERASED, Traces.NONE]
        assert await looking.everything(again) == seen
        await again.close()

    async def test_a_disk_that_takes_nothing_leaves_the_erasing_to_be_done(self, engine: Engine, store: Store) -> None:
        await filled(store)
        await store.commit(redacting_process.rewriting(), record=Record())
        with engine.failing(store), pytest.raises(StoreFault, match="could not be cleared of traces"):
            await store.erase_traces()
        await erased(store)
        assert await paddings(store) == {"(redacted)"}

    @pytest.mark.slow
    async def test_a_killed_redaction_is_whole_or_not_there(self, tmp_path: Path, engine: Engine, store: Store) -> None:
        await kill_and_check(tmp_path, engine, store, times=4)

    @pytest.mark.slow
    async def test_a_redaction_is_killed_many_times(self, tmp_path: Path, engine: Engine, store: Store) -> None:
        await kill_and_check(tmp_path, engine, store, times=60)


async def kill_and_check(folder: Path, engine: Engine, store: Store, *, times: int) -> None:
    await filled(store)
    await store.close()
    for turn in range(times):
        said = killed(engine, at=turn)
        again = engine.open()
        try:
            left = await paddings(again)
            assert left in ({SECRET}, {"(redacted)"})
            if "committed\n" in said:
                assert left == {"(redacted)"}
            reason = (await looking.run(again, redacting_process.RUN))[1]["reason"]
            assert (SECRET in reason) == (left == {SECRET})
            if left == {"(redacted)"}:
                assert await again.erase_traces() in (Traces.ERASED, Traces.NONE)
                assert files_holding(folder, SECRET) == []
        finally:
            await again.close()


def killed(engine: Engine, *, at: int) -> list[str]:
    """Output of a redacting process before it was killed: as soon as it has begun, committed or erased, or later."""
    with start("redacting_process", engine.url) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(1 + at % 3)]
        process.kill()
        return lines + process.stdout.readlines()
