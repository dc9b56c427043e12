"""Promises of a store about a commit: all or nothing, planned against the present revision, faults keep nothing."""

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Iterator
from dataclasses import replace

import pytest

from reconciler.store.contract import Moved, Store, StoreFault
from reconciler.store.records import Changes, Record, VersionRow
from reconciler.store.repository_records import ApprovalRow, SuspensionRow
from tests.store import looking, rows
from tests.store.contract_lineages import lineage
from tests.store.engines import Engine

WAIT = 10.0  # seconds
PADDING = "x" * 100_000  # so that a write takes a while
LARGE = "x" * 1_000_000  # more than any page that happens to be free


def with_ids(**ids: str) -> Changes:
    """A part that stores new resources under these ids, by their names."""
    part = rows.stored(*ids)
    return replace(part, heads=[head._replace(resource_id=ids[head.name]) for head in part.heads])


# Parts that break the store, where `a` is stored and `c` came in an earlier part.
BREAKING = [
    pytest.param(Changes(heads=[rows.head("b")._replace(resource_id="id-a")]), id="an id of another resource"),
    pytest.param(with_ids(b="one", d="one"), id="one id for two"),
    pytest.param(with_ids(b="id-c"), id="an id of an earlier part"),
    pytest.param(rows.stored("a"), id="a version that exists"),
    pytest.param(rows.stored("b", project="nowhere"), id="a project that does not exist"),
]


class CommitPromises:
    """Writing."""

    pytestmark = pytest.mark.anyio

    async def test_a_commit_of_many_parts_is_kept_whole(self, engine: Engine, store: Store) -> None:
        parts = [rows.stored("a", "b"), rows.stored("c"), Changes(statuses=[rows.run_status("R1", 0)])]
        record = Record(run=rows.run("R1"), repository=rows.repository())
        assert await store.commit(iter(parts), record=record) == 1
        seen = await looking.everything(store)
        assert seen["resources"] == [rows.shown(name, 1) for name in "abc"]
        assert seen["repositories"] == [rows.repository()]
        other = engine.open()
        assert await looking.everything(other) == seen
        await other.close()

    async def test_the_store_is_the_same_after_it_was_closed_and_opened(self, engine: Engine, store: Store) -> None:
        await store.commit([rows.stored("a")], record=Record(run=rows.run("R1")))
        seen, secret = await looking.everything(store), await store.hmac_key()
        await store.close()
        again = engine.open()
        assert (await looking.everything(again), await again.hmac_key()) == (seen, secret)
        await again.close()

    async def test_a_rewritten_version_shows_its_new_body_and_all_else_of_it_stays(self, store: Store) -> None:
        await store.commit([rows.stored("a")], record=Record())
        await store.commit([rows.stored("a", number=2)], record=Record())
        masked = rows.body("a", 1, "(sensitive)")
        row = VersionRow(rows.PROJECT, rows.KIND, "a", 1, masked, b'{"/spec/padding":"x"}')
        assert await store.commit([Changes(rewritten=[row])], record=Record()) == 3
        newest, oldest = await looking.history(store, rows.key("a"))
        assert newest == rows.shown("a", 2)
        assert oldest == {**rows.shown("a", 1, latest=False), "spec": {"padding": "(sensitive)"}}

    async def test_users_who_write_at_once_lose_no_commit(self, engine: Engine, store: Store) -> None:
        other = engine.open()

        async def write(user: Store, prefix: str) -> None:
            for number in range(10):
                part = rows.stored(f"{prefix}{number}")
                await user.commit([part], record=Record())

        async with asyncio.timeout(WAIT):
            await asyncio.gather(write(store, "a"), write(other, "b"))
        expected = [f"{prefix}{number}" for prefix in "ab" for number in range(10)]
        assert (await looking.names(other), await store.revision()) == (expected, 20)
        await other.close()

    async def test_commits_of_one_user_at_once_are_written_one_after_another(self, store: Store) -> None:
        def commit(number: int) -> Awaitable[int]:
            record = Record(run=rows.run(f"R{number:02}"))
            return store.commit([rows.stored(f"{number:02}", padding=PADDING)], record=record)

        names = [f"{number:02}" for number in range(20)]
        async with asyncio.timeout(WAIT):
            revisions = await asyncio.gather(*map(commit, range(20)))
        assert (sorted(revisions), await looking.names(store)) == (list(range(1, 21)), names)

    @pytest.mark.parametrize(
        ("part", "record", "grows"),
        [
            (rows.stored("a"), Record(), 1),
            (Changes(heads=[rows.head("old", 1, owner="telemetry")]), Record(), 1),
            (Changes(head_statuses=[rows.head_status("old")]), Record(), 1),
            (rows.removed("old"), Record(), 1),
            (Changes(files=[rows.file("a.yaml")]), Record(), 1),
            (Changes(wanted=[rows.wanted("a.yaml", "a")]), Record(), 1),
            (Changes(forgotten_files=[("telemetry", "a.yaml")]), Record(), 1),
            (Changes(), Record(run=rows.run("R1"), repository=rows.repository()), 0),
            (Changes(audit=[rows.audit("a", 1)]), Record(), 0),
            (lineage("never"), Record(), 0),
            (Changes(), Record(forget_files_of="telemetry"), 1),
            (Changes(), Record(release_repository="telemetry"), 1),
            (Changes(), Record(), 0),
        ],
    )
    async def test_the_revision_grows_by_one_when_a_commit_holds_changes_and_else_not(
        self, store: Store, part: Changes, record: Record, grows: int
    ) -> None:
        await store.commit([rows.stored("old")], record=Record())
        assert await store.commit([part, Changes(), part] if grows == 0 else [part], record=record) == (1 + grows)
        assert await store.revision() == 1 + grows

    async def test_a_commit_that_lasts_too_long_is_rolled_back_and_the_next_one_has_its_own_time(
        self, store: Store
    ) -> None:
        before = await looking.everything(store)
        endless = (rows.stored(*(f"{part}-{number}" for number in range(100))) for part in itertools.count())
        with pytest.raises(StoreFault, match=r"^This changes too much to be stored in the time that a change has; "):
            await store.commit(endless, record=Record(run=rows.run("R1")), timeout=0.2)
        assert await looking.everything(store) == before
        assert await store.commit([rows.stored("a")], record=Record(run=rows.run("R1")), timeout=WAIT) == 1

    async def test_a_commit_whose_turn_does_not_come_in_time_says_so_and_takes_no_part(self, store: Store) -> None:
        started, rest = threading.Event(), threading.Event()

        def parts() -> Iterator[Changes]:
            started.set()
            assert rest.wait(WAIT)
            yield rows.stored("a")

        first = asyncio.create_task(store.commit(parts(), record=Record(), timeout=WAIT))
        assert await asyncio.to_thread(started.wait, WAIT)
        second = asyncio.create_task(store.commit([rows.stored("b")], record=Record(), timeout=0.01))
        await asyncio.sleep(0.02)
        rest.set()
        with pytest.raises(StoreFault, match=r"^The store was busy with other changes for too long, "):
            await second
        assert (await first, await looking.names(store)) == (1, ["a"])

    @pytest.mark.parametrize(
        ("part", "record", "seen"),
        [
            (rows.stored("b"), Record(), True),
            (Changes(head_statuses=[rows.head_status("old")]), Record(), True),
            (rows.removed("old"), Record(), True),
            (Changes(files=[rows.file("a.yaml")]), Record(repository=rows.repository()), True),
            (Changes(), Record(audit=(rows.audit("a"),), redacts=True), True),
            (Changes(), Record(suspension=SuspensionRow("telemetry", "why", "key:test", rows.AT, None)), True),
            (Changes(), Record(resume="telemetry"), True),
            (Changes(), Record(release_repository="telemetry"), True),
            (Changes(), Record(run=rows.run("R1"), repository=rows.repository()), False),
        ],
    )
    async def test_the_revision_grows_with_what_a_plan_sees(
        self, store: Store, part: Changes, record: Record, seen: bool
    ) -> None:
        await store.commit([rows.stored("old")], record=Record(repository=rows.repository()))
        assert await store.commit([part], record=record) == (2 if seen else 1)

    async def test_a_record_alone_is_written_whatever_the_revision(self, store: Store) -> None:
        await store.commit([rows.stored("a")], record=Record())
        record = Record(run=rows.run("R1"), repository=rows.repository(state="unreachable"))
        assert await store.commit((), record=record) == 1
        assert (await store.remembered("telemetry", held=0)).last_run == "R1"
        assert (await store.remembered("telemetry", held=0)).row == rows.repository(state="unreachable")

    async def test_parts_that_end_in_an_error_keep_nothing(self, store: Store) -> None:
        def parts() -> Iterator[Changes]:
            yield rows.stored("a")
            raise BrokenPipeError("the reader has gone")

        before = await looking.everything(store)
        with pytest.raises(BrokenPipeError):
            await store.commit(parts(), record=Record(run=rows.run("R1")))
        assert await looking.everything(store) == before
        assert await store.commit([rows.stored("a")], record=Record()) == 1

    async def test_parts_are_taken_one_at_a_time_off_the_event_loop_and_nobody_sees_half(self, store: Store) -> None:
        here, half, rest = threading.get_ident(), threading.Event(), threading.Event()
        threads = []

        def parts() -> Iterator[Changes]:
            yield rows.stored("a")
            threads.append(threading.get_ident())
            half.set()
            assert rest.wait(WAIT)
            yield rows.stored("b")

        before = await looking.everything(store)
        commit = asyncio.create_task(store.commit(parts(), record=Record(run=rows.run("R1"))))
        assert await asyncio.to_thread(half.wait, WAIT)
        assert await looking.everything(store) == before
        rest.set()
        async with asyncio.timeout(WAIT):
            await commit
        assert (await looking.names(store), here in threads) == (["a", "b"], False)

    async def test_closing_finishes_the_write_under_way(self, engine: Engine, store: Store) -> None:
        started, rest = threading.Event(), threading.Event()

        def parts() -> Iterator[Changes]:
            yield rows.stored("a")
            started.set()
            assert rest.wait(WAIT)
            yield rows.stored("b")

        commit = asyncio.create_task(store.commit(parts(), record=Record()))
        assert await asyncio.to_thread(started.wait, WAIT)
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0)
        assert not closing.done()
        rest.set()
        async with asyncio.timeout(WAIT):
            await closing
        again = engine.open()
        assert (await commit, await looking.names(again)) == (1, ["a", "b"])
        await again.close()

    @pytest.mark.parametrize("part", BREAKING)
    async def test_what_breaks_the_store_is_a_fault_and_nothing_is_kept(self, store: Store, part: Changes) -> None:
        await store.commit([rows.stored("a")], record=Record())
        seen = await looking.everything(store)
        with pytest.raises(StoreFault):
            await store.commit([rows.stored("c"), part], record=Record(run=rows.run("R1")))
        assert await looking.everything(store) == seen

    async def test_ids_are_unique_in_a_project_and_free_again_after_a_deletion(self, store: Store) -> None:
        await store.create_project("other", at=rows.AT)
        await store.commit([rows.stored("a"), rows.stored("a", project="other")], record=Record())
        heir = rows.stored("b")
        heir = replace(heir, heads=[heir.heads[0]._replace(resource_id="id-a")], audit=[])
        part = replace(heir, removed=rows.removed("a").removed)
        assert await store.commit([part], record=Record()) == 2
        assert (await looking.names(store), await looking.names(store, project="other")) == (["b"], ["a"])

    @pytest.mark.parametrize("trouble", ["full", "failing"])
    async def test_a_disk_that_takes_no_more_keeps_nothing_and_reads_go_on(
        self, engine: Engine, store: Store, trouble: str
    ) -> None:
        await store.commit([rows.stored("a")], record=Record(run=rows.run("R1")))
        before = await looking.everything(store)
        large = [rows.stored("b"), rows.stored("c", padding=LARGE)]
        with {"full": engine.full, "failing": engine.failing}[trouble](store):
            for _ in range(3):
                with pytest.raises(StoreFault, match=r"^The store could not be written \(.+\); nothing was changed: "):
                    await store.commit(iter(large), record=Record(run=rows.run("R2")))
                assert await looking.everything(store) == before
        assert await store.commit(iter(large), record=Record(run=rows.run("R2"))) == 2
        assert await looking.names(store) == ["a", "b", "c"]

    async def test_commits_are_counted_and_timed_and_so_are_those_that_stored_nothing(self, store: Store) -> None:
        before = store.figures().commits
        kept, moved = sum(before.seconds.counts), before.moved
        await store.commit([rows.stored("a")], record=Record())
        approval = ApprovalRow("telemetry", "another head", "user:ana", rows.AT)
        with pytest.raises(Moved):
            await store.commit((), record=Record(approval=approval))
        figures = store.figures()
        assert (sum(figures.commits.seconds.counts) - kept, figures.commits.moved - moved) == (1, 1)
        assert figures.commits.failed == 0
        assert figures.commits.seconds.total > 0
        assert figures.file is None or figures.file > 0
