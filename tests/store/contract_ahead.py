"""What a store promises of a change that is written ahead: unseen until it is shown, whole from then on, or gone."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.store.contract import (
    Ahead,
    Changes,
    HeadStatusRow,
    HeldRow,
    Moved,
    QuoteRow,
    Record,
    RewrittenRow,
    Store,
    StoreFault,
    Traces,
)
from tests.store import ahead_process, looking, rows
from tests.store.contract_commits import BREAKING
from tests.store.contract_processes import start
from tests.store.contract_redactions import files_holding
from tests.store.engines import Engine

WAIT = 10.0  # seconds
LARGE = "x" * 1_000_000  # more than any page that happens to be free
OWNER = "telemetry"
INDEX = Changes(files=(rows.file("a.yaml"),), wanted=(rows.wanted("a.yaml", "a"),))


async def written(store: Store, *parts: Changes) -> Ahead:
    """Parts that were written ahead."""
    ahead = store.ahead()
    assert ahead is not None
    await ahead.write(parts)
    return ahead


def seen_by_plans(engine: Engine) -> dict[str, object]:
    """What a plan reads of the rows that the tests here write."""
    view = engine.view()
    keys = [rows.key(name) for name in "abcd"]
    with view.snapshot() as revision:
        seen = {
            "revision": revision,
            "stored": view.stored(rows.PROJECT, keys),
            "last versions": view.last_versions(rows.PROJECT, keys),
            "referrers": view.referrers(rows.PROJECT, keys),
            "owned": view.owned(OWNER, rows.PROJECT),
            "ids": view.taken_ids(rows.PROJECT, [f"id-{key.name}" for key in keys]),
            "index": view.index(OWNER),
            "stays": view.stays(OWNER),
            "quotes": list(view.quotes(rows.PROJECT, ["created"])),
        }
    view.close()
    return seen


class AheadPromises:
    """Writing ahead."""

    pytestmark = pytest.mark.anyio

    async def test_nobody_sees_what_is_written_ahead_until_all_of_it_is_shown(
        self, engine: Engine, store: Store
    ) -> None:
        await store.commit([rows.stored("a", "b"), INDEX], record=Record(), planned_at=0)
        before, planned = await looking.everything(store), seen_by_plans(engine)
        parts = (
            rows.referring("a", "b", number=2),
            rows.referring("c", "a"),
            rows.removed("b"),
            Changes(forgotten_files=((OWNER, "a.yaml"),)),
            Changes(files=(rows.file("c.yaml"),), wanted=(rows.wanted("c.yaml", "c"),)),
            rows.held("b"),
            Changes(statuses=(rows.run_status("R1", 0),)),
        )
        ahead = await written(store, *parts)
        assert (await looking.everything(store), seen_by_plans(engine)) == (before, planned)
        revision = await store.commit((), record=Record(run=rows.run("R1")), planned_at=1, ahead=ahead)
        assert (await store.revision(), await looking.names(store)) == (revision, ["a", "c"])
        after = seen_by_plans(engine)
        assert (after["revision"], after["ids"]) == (revision, {"id-a", "id-c"})
        assert after["referrers"] == {rows.key("b"): {rows.key("a")}, rows.key("a"): {rows.key("c")}}
        assert after["index"] == ([rows.file("c.yaml")], [rows.wanted("c.yaml", "c")])
        assert after["stays"] == {HeldRow(OWNER, rows.KIND, "b", "held")}
        assert len(await looking.run(store, "R1")) == 2
        again = engine.open()
        assert await looking.everything(again) == await looking.everything(store)
        await again.close()

    async def test_one_change_at_a_time_is_written_ahead(self, store: Store) -> None:
        first = await written(store, rows.stored("a"))
        assert store.ahead() is None
        await first.drop()
        second = await written(store, rows.stored("a"))
        assert store.ahead() is None
        await store.commit((), record=Record(), planned_at=0, ahead=second)
        assert await looking.names(store) == ["a"]
        assert await written(store, rows.stored("b")) is not None

    async def test_what_is_dropped_is_gone_and_can_be_written_again(self, engine: Engine, store: Store) -> None:
        part = replace(rows.referring("a", "b"), statuses=(rows.run_status("R1", 0),))
        await store.commit([rows.stored("b")], record=Record(), planned_at=0)
        before = await looking.everything(store)
        for _ in range(3):
            ahead = await written(store, part, rows.removed("b"), INDEX)
            await ahead.drop()
            assert await looking.everything(store) == before
        assert seen_by_plans(engine)["referrers"] == {}
        await store.commit([part, INDEX], record=Record(run=rows.run("R1")), planned_at=1)
        assert (await looking.names(store), len(await looking.run(store, "R1"))) == (["a", "b"], 2)

    async def test_what_was_dropped_is_not_seen_with_a_later_change(self, store: Store) -> None:
        dropped = await written(store, *(rows.stored(f"dropped-{number:03}", padding=LARGE) for number in range(5)))
        await dropped.drop()
        shown = await written(store, rows.stored("a"))
        await store.commit((), record=Record(), planned_at=0, ahead=shown)
        assert await looking.names(store) == ["a"]

    async def test_commits_between_are_seen_at_once_and_stay(self, engine: Engine, store: Store) -> None:
        ahead = await written(store, rows.stored("a", "c"))
        assert await store.commit([rows.stored("b")], record=Record(), planned_at=0) == 1
        assert await looking.names(store) == ["b"]
        await ahead.write([rows.stored("d")])
        await store.commit((), record=Record(), planned_at=None, ahead=ahead)
        again = engine.open()
        assert await looking.names(again) == ["a", "b", "c", "d"]
        await again.close()

    async def test_a_commit_between_waits_for_no_more_than_a_few_parts(self, store: Store) -> None:
        """It would be the last otherwise."""
        ahead = store.ahead()
        assert ahead is not None
        taken: list[int] = []
        begun = threading.Event()

        def parts() -> Iterator[Changes]:
            for number in range(400):
                taken.append(number)
                begun.set()
                yield rows.stored(*(f"{number:03}-{name:02}" for name in range(40)))

        writing = asyncio.create_task(ahead.write(parts()))
        async with asyncio.timeout(WAIT):
            assert await asyncio.to_thread(begun.wait, WAIT)
            await store.commit([rows.stored("between")], record=Record(), planned_at=0)
        assert len(taken) < 400
        async with asyncio.timeout(WAIT):
            await writing
        await ahead.drop()
        assert await looking.names(store) == ["between"]

    @pytest.mark.parametrize(
        "between",
        [
            pytest.param(rows.stored("a", number=2), id="the same version"),
            pytest.param(rows.removed("a"), id="a deletion"),
            pytest.param(Changes(heads=(rows.head("a", owner="other"),)), id="another owner"),
            pytest.param(Changes(head_statuses=(rows.head_status("a", "x"),)), id="a status"),
            pytest.param(
                replace(rows.stored("z"), heads=(rows.head("z")._replace(resource_id="id-new"),)), id="an id it brings"
            ),
            pytest.param(rows.stored("new"), id="a resource it brings"),
            pytest.param(rows.stored("gone", number=2), id="a resource it deletes"),
            pytest.param(Changes(forgotten_files=((OWNER, "a.yaml"),)), id="the same index"),
        ],
    )
    async def test_a_commit_that_touches_the_same_wins(self, engine: Engine, store: Store, between: Changes) -> None:
        await store.commit([rows.stored("a", "gone"), INDEX], record=Record(), planned_at=0)
        await store.commit([rows.stored("q")], record=Record(), planned_at=1)
        ahead = await written(
            store, rows.stored("a", number=2), rows.stored("new"), rows.removed("gone"), Changes(files=INDEX.files)
        )
        await store.commit([between], record=Record(), planned_at=2)
        seen, planned = await looking.everything(store), seen_by_plans(engine)
        await ahead.write([rows.stored("more")])
        with pytest.raises(Moved):
            await store.commit((), record=Record(run=rows.run("R1")), planned_at=None, ahead=ahead)
        assert (await looking.everything(store), seen_by_plans(engine)) == (seen, planned)
        assert await written(store, rows.stored("more")) is not None

    async def test_a_plan_that_another_version_overtook_before_it_was_written_is_void(self, store: Store) -> None:
        await store.commit([rows.stored("a")], record=Record(), planned_at=0)
        ahead = await written(store, rows.stored("b"), rows.stored("a"))
        with pytest.raises(Moved):
            await store.commit((), record=Record(), planned_at=0, ahead=ahead)
        assert await looking.names(store) == ["a"]

    @pytest.mark.parametrize("part", BREAKING)
    async def test_what_breaks_the_store_ahead_is_a_fault_of_the_commit(self, store: Store, part: Changes) -> None:
        await store.commit([rows.stored("a")], record=Record(), planned_at=0)
        before = await looking.everything(store)
        ahead = await written(store, rows.stored("c"), part)
        with pytest.raises(StoreFault):
            await store.commit((), record=Record(run=rows.run("R1")), planned_at=1, ahead=ahead)
        assert await looking.everything(store) == before

    async def test_ids_are_free_again_after_a_deletion(self, store: Store) -> None:
        await store.commit([rows.stored("a")], record=Record(), planned_at=0)
        heir = replace(rows.stored("b"), heads=(rows.head("b")._replace(resource_id="id-a"),))
        ahead = await written(store, rows.removed("a"), heir)
        revision = await store.commit((), record=Record(), planned_at=1, ahead=ahead)
        assert await looking.names(store) == ["b"]
        with pytest.raises(StoreFault):
            await store.commit([rows.stored("a", number=2)], record=Record(), planned_at=revision)
        await store.commit([rows.removed("b"), rows.stored("a", number=2)], record=Record(), planned_at=revision)
        assert await looking.names(store) == ["a"]

    async def test_what_is_deleted_and_made_again_is_the_new_one(self, engine: Engine, store: Store) -> None:
        await store.commit([rows.referring("a", "b"), rows.stored("b")], record=Record(), planned_at=0)
        ahead = await written(store, rows.removed("a"), rows.referring("a", "c", number=2), rows.removed("b"))
        revision = await store.commit((), record=Record(), planned_at=1, ahead=ahead)
        assert await looking.versions(store, "a") == [2, 1]
        assert seen_by_plans(engine)["referrers"] == {rows.key("c"): {rows.key("a")}}
        again = rows.stored("b", number=2)
        await store.commit([rows.removed("a"), again], record=Record(), planned_at=revision)
        await store.commit([rows.referring("a", "b", number=3)], record=Record(), planned_at=revision + 1)
        assert (await looking.names(store), await looking.versions(store, "a")) == (["a", "b"], [3, 2, 1])
        assert seen_by_plans(engine)["referrers"] == {rows.key("b"): {rows.key("a")}}

    async def test_a_status_ahead_leaves_all_else_of_a_resource(self, store: Store) -> None:
        await store.commit([rows.stored("a")], record=Record(), planned_at=0)
        before = await looking.listed(store)
        row = HeadStatusRow(rows.PROJECT, rows.KIND, "a", 1, b'{"latest":true,"incomplete":["x"]}')
        ahead = await written(store, Changes(head_statuses=(row,)))
        assert await looking.listed(store) == before
        await store.commit((), record=Record(), planned_at=1, ahead=ahead)
        [after] = await looking.listed(store)
        assert after["status"] == {**before[0]["status"], "incomplete": ["x"]}

    async def test_a_whole_index_takes_the_place_of_the_one_before(self, engine: Engine, store: Store) -> None:
        other = rows.file("o.yaml", repository="other")
        await store.commit([INDEX, Changes(files=(other,))], record=Record(), planned_at=0)
        whole = Changes(files=(rows.file("b.yaml"),), wanted=(rows.wanted("b.yaml", "b"),), whole_index=True)
        ahead = await written(store, whole)
        assert seen_by_plans(engine)["index"] == ([*INDEX.files], [*INDEX.wanted])
        await store.commit((), record=Record(forget_files_of=OWNER), planned_at=1, ahead=ahead)
        assert seen_by_plans(engine)["index"] == ([*whole.files], [*whole.wanted])
        view = engine.view()
        assert view.index("other") == ([other], [])
        view.close()

    async def test_an_index_that_forgets_none_is_refused_as_a_mistake(self, engine: Engine, store: Store) -> None:
        await store.commit([INDEX], record=Record(), planned_at=0)
        ahead = await written(store, Changes(files=(rows.file("b.yaml"),), whole_index=True))
        with pytest.raises(ValueError, match="a whole index"):
            await store.commit((), record=Record(), planned_at=1, ahead=ahead)
        ahead = await written(store, Changes(files=(rows.file("b.yaml"),)))
        with pytest.raises(ValueError, match="a whole index"):
            await store.commit((), record=Record(forget_files_of=OWNER), planned_at=1, ahead=ahead)
        assert seen_by_plans(engine)["index"] == ([*INDEX.files], [*INDEX.wanted])

    async def test_statuses_alone_do_not_grow_the_revision(self, store: Store) -> None:
        await store.commit([rows.stored("a")], record=Record(), planned_at=0)
        ahead = await written(store, Changes(statuses=(rows.run_status("R1", 0),), audit=(rows.audit("a"),)))
        assert await store.commit((), record=Record(run=rows.run("R1")), planned_at=1, ahead=ahead) == 1
        assert len(await looking.run(store, "R1")) == 2

    async def test_nothing_written_ahead_is_a_commit_of_its_own(self, store: Store) -> None:
        ahead = store.ahead()
        assert await store.commit([rows.stored("a")], record=Record(), planned_at=0, ahead=ahead) == 1
        assert await looking.names(store) == ["a"]

    async def test_parts_behind_what_is_ahead_are_shown_with_it(self, engine: Engine, store: Store) -> None:
        ahead = await written(store, rows.referring("a", "b"), rows.pruned(1_000), rows.held("x"))
        late = (rows.referring("a", "c", number=2), Changes(head_statuses=(rows.head_status("a", "y"),)))
        record = Record(forget_held_of=OWNER)
        revision = await store.commit(late, record=record, planned_at=0, ahead=ahead)
        assert await looking.versions(store, "a") == [2, 1]
        assert seen_by_plans(engine)["referrers"] == {rows.key("c"): {rows.key("a")}}
        view = engine.view()
        assert (view.pruned_since(OWNER, 0).deleted, len(view.stays(OWNER))) == (1, 1)
        view.close()
        assert revision == await store.revision()

    async def test_parts_that_end_in_an_error_void_it(self, store: Store) -> None:
        def parts() -> Iterator[Changes]:
            yield rows.stored("a")
            raise BrokenPipeError("the reader has gone")

        ahead = await written(store, rows.stored("b"))
        with pytest.raises(BrokenPipeError):
            await ahead.write(parts())
        with pytest.raises(Moved):
            await store.commit((), record=Record(), planned_at=0, ahead=ahead)
        assert await looking.names(store) == []

    async def test_another_user_who_opens_the_store_drops_it(self, engine: Engine, store: Store) -> None:
        ahead = await written(store, rows.stored("a"))
        other = engine.open()
        await ahead.write([rows.stored("b")])
        with pytest.raises(Moved):
            await store.commit((), record=Record(), planned_at=0, ahead=ahead)
        assert (await looking.names(other), await other.revision()) == ([], 0)
        await other.close()

    async def test_another_users_change_is_not_seen_with_this_one(self, engine: Engine, store: Store) -> None:
        other = engine.open()
        theirs = await written(other, rows.stored("theirs"))
        ours = await written(store, rows.stored("ours"))
        await store.commit((), record=Record(), planned_at=0, ahead=ours)
        with pytest.raises(Moved):
            await other.commit((), record=Record(), planned_at=None, ahead=theirs)
        assert await looking.names(store) == ["ours"]
        await other.close()

    async def test_a_reader_of_before_reads_on(self, store: Store) -> None:
        names = [f"{number:04}" for number in range(450)]
        await store.commit([rows.stored(*names)], record=Record(), planned_at=0)
        pages = store.list_pages(rows.PROJECT, rows.KIND, after="", limit=1_000)
        async with aclosing(pages):
            found = len(await anext(pages))
            ahead = await written(store, rows.stored(*names, number=2), rows.removed(*names[:200]))
            await store.commit((), record=Record(), planned_at=1, ahead=ahead)
            found += len([one async for page in pages for one in page])
        assert (found, len(await looking.names(store))) == (450, 250)

    @pytest.mark.parametrize("trouble", ["full", "failing"])
    async def test_a_disk_that_takes_no_more_ahead_keeps_nothing_and_reads_go_on(
        self, engine: Engine, store: Store, trouble: str
    ) -> None:
        await store.commit([rows.stored("a")], record=Record(), planned_at=0)
        before = await looking.everything(store)
        ahead = await written(store, rows.stored("b"))
        with {"full": engine.full, "failing": engine.failing}[trouble](store):
            with pytest.raises(StoreFault, match=r"^The store could not be written \("):
                await ahead.write([rows.stored("c", padding=LARGE)])
            assert await looking.everything(store) == before
        await ahead.drop()
        ahead = await written(store, rows.stored("b"), rows.stored("c", padding=LARGE))
        await store.commit((), record=Record(), planned_at=1, ahead=ahead)
        assert await looking.names(store) == ["a", "b", "c"]

    async def test_a_commit_that_rewrites_leaves_nothing_of_what_is_ahead(self, tmp_path: Path, store: Store) -> None:
        secret = "hunter2-" + "x" * 900
        await store.commit([rows.stored("a", padding=secret)], record=Record(), planned_at=0)
        ahead = await written(
            store,
            *(rows.stored(f"{number:03}", padding=secret) for number in range(50)),
            Changes(statuses=(rows.run_status("R1", 0, reason="it says hunter2-"),)),
        )
        rewritten = RewrittenRow(rows.PROJECT, rows.KIND, "a", 1, rows.body("a", 1, "(redacted)"), None)
        await store.commit([Changes(rewritten=(rewritten,))], record=Record(redacts=True), planned_at=1)
        with pytest.raises(Moved):
            await store.commit((), record=Record(), planned_at=None, ahead=ahead)
        assert await store.erase_traces() is Traces.ERASED
        assert files_holding(tmp_path, "hunter2-") == []

    async def test_what_rewrites_may_be_written_ahead(self, tmp_path: Path, store: Store) -> None:
        secret = "hunter2-" + "x" * 900
        await store.commit([rows.stored("a", padding=secret)], record=Record(run=rows.run("R0")), planned_at=0)
        rewritten = RewrittenRow(rows.PROJECT, rows.KIND, "a", 1, rows.body("a", 1, "(masked)"), None)
        quote = QuoteRow("message", "R0", 0, "(masked)")
        ahead = await written(store, rows.stored("b"), Changes(rewritten=(rewritten,), quotes=(quote,)))
        assert (await looking.listed(store))[0]["spec"] == {"padding": secret}
        await store.commit((), record=Record(), planned_at=1, ahead=ahead)
        assert [one["spec"]["padding"] for one in await looking.listed(store)] == ["(masked)", ""]
        assert await store.erase_traces() is Traces.ERASED
        assert files_holding(tmp_path, "hunter2-") == []

    @pytest.mark.parametrize("after", [1, 2, 11, 13, 14, 27])
    async def test_a_killed_process_leaves_nothing_of_what_it_wrote_ahead(self, engine: Engine, after: int) -> None:
        between, shown = ahead_process.killed(start, engine.url, after=after)
        store = engine.open()
        names = await looking.names(store)
        large = [name for name in names if name.startswith(ahead_process.LARGE)]
        small = names[: len(names) - len(large)]
        # What was said is there, and perhaps one commit more, killed before it could be said.
        assert (small[: len(between)], len(small) - len(between) in (0, 1)) == (between, True)
        assert len(large) in (shown * ahead_process.SIZE, (shown + 1) * ahead_process.SIZE)
        ahead = await written(store, rows.stored("zone"))
        await store.commit((), record=Record(), planned_at=await store.revision(), ahead=ahead)
        assert await looking.names(store) == [*names, "zone"]
        await store.close()
