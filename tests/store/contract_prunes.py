"""Promises of a store about pruning: its ledger, what is held, and what an admin let go."""

import pytest

from reconciler.model.names import Key
from reconciler.model.outcomes import PRUNE_WINDOW_MILLISECONDS, PruneWindow
from reconciler.store.contract import Moved, Store
from reconciler.store.records import Changes, Record
from reconciler.store.repository_records import Held, Remembered
from tests.store import rows
from tests.store.engines import Engine

NOW = 1_800_000_000_000  # milliseconds of Unix time
DAY = PRUNE_WINDOW_MILLISECONDS
HEAD = "c" * 40


async def commit(store: Store, *parts: Changes, record: Record | None = None) -> int:
    return await store.commit(parts, record=record or Record())


async def hold(store: Store, *names: str, repository: str = "telemetry", approvable: int = 1) -> None:
    """Let a plan of the head hold these."""
    row = rows.repository(repository, state="prune-held", approvable=approvable)
    record = Record(repository=row, forget_held_of=repository)
    await commit(store, rows.held(*names, repository=repository), record=record)


def seen(engine: Engine, repository: str = "telemetry") -> tuple[set[str], tuple[str, frozenset[Key]] | None]:
    """Return what stays, and what was let go, as a plan sees it."""
    view = engine.view()
    with view.snapshot():
        found = {f"{row.why} {row.name}" for row in view.stays(repository)}, view.approval(repository)
    view.close()
    return found


class PrunePromises:
    """Pruning."""

    pytestmark = pytest.mark.anyio

    @pytest.mark.parametrize(
        ("since", "expected"),
        [
            (NOW - DAY - 1, PruneWindow(owned=90, deleted=6)),
            (NOW - DAY, PruneWindow(owned=80, deleted=5)),  # what is a whole window ago does not count
            (NOW - 10, PruneWindow(owned=80, deleted=2)),
            (NOW, PruneWindow()),
        ],
    )
    async def test_the_ledger_tells_the_most_that_was_owned_and_how_many_went_since(
        self, engine: Engine, store: Store, since: int, expected: PruneWindow
    ) -> None:
        for row in [(NOW - DAY, 90, 1), (NOW - 10, 70, 3), (NOW - 5, 80, 0), (NOW - 1, 60, 2)]:
            at, owned, deleted = row
            await commit(store, rows.pruned(at, owned=owned, deleted=deleted))
        await commit(store, rows.pruned(NOW - 1, owned=1_000, deleted=1_000, repository="other"))
        view = engine.view()
        with view.snapshot():
            assert view.pruned_since("telemetry", since) == expected
        view.close()

    async def test_the_ledger_forgets_what_no_window_covers_any_more_when_it_is_written(
        self, engine: Engine, store: Store
    ) -> None:
        for at, repository in [(NOW - DAY, "telemetry"), (NOW - DAY, "other"), (NOW - DAY + 1, "telemetry")]:
            await commit(store, rows.pruned(at, repository=repository))
        await commit(store, rows.pruned(NOW))
        view = engine.view()
        with view.snapshot():
            assert [view.pruned_since(name, 0).deleted for name in ("telemetry", "other")] == [2, 1]
        view.close()

    async def test_what_is_held_is_replaced_as_a_whole_and_shown_in_order(self, engine: Engine, store: Store) -> None:
        await hold(store, "b", "a", "c")
        await commit(store, rows.held("d", why="in-use"), rows.held("e", why="protected"))
        await hold(store, "z", repository="other")
        assert (await store.remembered("telemetry", held=2)).held == Held(3, [rows.key("a"), rows.key("b")])
        assert seen(engine)[0] == {"held a", "held b", "held c", "in-use d", "protected e"}
        await hold(store, "c", "x")
        assert (await store.remembered("telemetry", held=9)).held == Held(2, [rows.key("c"), rows.key("x")])
        assert (await store.remembered("none", held=9)).held == Held(0, [])
        assert (await store.remembered("other", held=9)).held == Held(1, [rows.key("z")])

    async def test_what_is_in_use_waits_for_the_store(self, store: Store) -> None:
        await commit(store, rows.held("a"), rows.held("b", why="protected"))
        assert not await store.waits_for_store("telemetry")
        await commit(store, rows.held("c", why="in-use"))
        assert await store.waits_for_store("telemetry")

    async def test_an_approval_lets_go_what_is_held_at_that_moment(self, engine: Engine, store: Store) -> None:
        await hold(store, "a", "b")
        await commit(store, rows.held("u", why="in-use"), rows.held("p", why="protected"))
        before = await store.revision()
        assert await commit(store, record=Record(approval=rows.approval())) == before + 1
        both = frozenset({rows.key("a"), rows.key("b")})
        await hold(store, "a", "b", "c")
        assert seen(engine)[1] == (HEAD, both)
        await commit(store, record=Record(approval=rows.approval()))
        assert seen(engine)[1] == (HEAD, both | {rows.key("c")})
        await hold(store, "a")
        await commit(store, record=Record(approval=rows.approval()))
        assert seen(engine)[1] == (HEAD, frozenset({rows.key("a")}))
        assert seen(engine, "other")[1] is None

    @pytest.mark.parametrize(
        ("commit_id", "approvable", "repository"),
        [("d" * 40, 1, "telemetry"), (HEAD, 0, "telemetry"), (HEAD, None, "telemetry"), (HEAD, 1, "none")],
    )
    async def test_what_is_not_held_there_any_more_is_not_approved(
        self, engine: Engine, store: Store, commit_id: str, approvable: int | None, repository: str
    ) -> None:
        row = rows.repository(state="prune-held", approvable=approvable)
        await commit(store, rows.held("a"), record=Record(repository=row))
        approval = rows.approval(repository=repository, commit=commit_id)
        with pytest.raises(Moved):
            await commit(store, record=Record(approval=approval))
        assert (seen(engine), seen(engine, "none")) == (({"held a"}, None), (set(), None))

    async def test_an_approval_ends_when_nothing_is_held(self, engine: Engine, store: Store) -> None:
        for name in ("telemetry", "other"):
            await hold(store, "a", repository=name)
            await commit(store, record=Record(approval=rows.approval(repository=name)))
        await commit(store, record=Record(forget_approval_of="telemetry", forget_held_of="telemetry"))
        assert seen(engine) == (set(), None)
        assert seen(engine, "other") == ({"held a"}, (HEAD, frozenset({rows.key("a")})))

    async def test_a_repository_that_is_released_leaves_nothing_of_this(self, engine: Engine, store: Store) -> None:
        for name in ("telemetry", "other"):
            await hold(store, "a", repository=name)
            await commit(
                store, rows.pruned(NOW, repository=name), record=Record(approval=rows.approval(repository=name))
            )
        await commit(store, record=Record(release_repository="telemetry"))
        assert seen(engine) == (set(), None)
        assert seen(engine, "other") == ({"held a"}, (HEAD, frozenset({rows.key("a")})))
        view = engine.view()
        with view.snapshot():
            assert [view.pruned_since(name, 0) for name in ("telemetry", "other")] == [
                PruneWindow(),
                PruneWindow(10, 1),
            ]
        view.close()

    async def test_all_that_is_remembered_of_a_repository_comes_at_once(self, store: Store) -> None:
        assert await store.remembered("telemetry", held=2) == Remembered(None, None, None, Held(0, []))
        await hold(store, "c", "a", "b")
        row = rows.repository("telemetry", state="prune-held", approvable=1)
        first = [Key("Destination", "a"), Key("Destination", "b")]
        assert await store.remembered("telemetry", held=2) == Remembered(row, None, None, Held(3, first))
