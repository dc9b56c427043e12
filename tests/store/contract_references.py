"""Promises of a store about references: those of each resource's present version, and no others."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from reconciler.model.names import Key
from reconciler.store.contract import BATCH, Store
from reconciler.store.records import Changes, KeyRow, Record, ReferenceRow
from tests.store import rows
from tests.store.engines import Engine


async def commit(store: Store, *parts: Changes) -> None:
    await store.commit(parts, record=Record())


def users(engine: Engine, *names: str, project: str = rows.PROJECT) -> dict[str, list[str]]:
    """The names of the resources that refer to each of these."""
    view = engine.view()
    with view.snapshot():
        found = view.referrers(project, map(rows.key, names))
    view.close()
    return {target.name: sorted(user.name for user in referring) for target, referring in found.items()}


class ReferencePromises:
    """References."""

    pytestmark = pytest.mark.anyio

    async def test_whatever_refers_to_a_resource_is_found(self, engine: Engine, store: Store) -> None:
        await commit(store, rows.referring("a", "x", "y"), rows.referring("b", "x", "missing"), rows.referring("c"))
        assert users(engine, "x", "y", "missing", "a") == {"x": ["a", "b"], "y": ["a"], "missing": ["b"]}
        assert users(engine) == {}

    async def test_a_resource_shows_what_it_refers_to_and_what_refers_to_it(self, store: Store) -> None:
        assert await store.references(rows.PROJECT, rows.key("a"), limit=9) == ({}, [])
        await store.create_project("other", at=rows.AT)
        await commit(store, rows.referring("b", "c", "x", "d"), rows.referring("a", "b"), rows.referring("z", "b"))
        await commit(
            store, rows.stored("c"), rows.referring("b", "y", project="other"), rows.stored("x", project="other")
        )
        uses = {rows.key("c"): True, rows.key("d"): False, rows.key("x"): False}
        found = await store.references(rows.PROJECT, rows.key("b"), limit=9)
        assert found == (uses, [rows.key("a"), rows.key("z")])
        assert list(found[0]) == list(uses)
        assert await store.references(rows.PROJECT, rows.key("b"), limit=1) == ({rows.key("c"): True}, [rows.key("a")])
        await commit(store, rows.referring("b", "d", number=2), rows.removed("a"))
        found = await store.references(rows.PROJECT, rows.key("b"), limit=9)
        assert found == ({rows.key("d"): False}, [rows.key("z")])
        assert await store.references(rows.PROJECT, Key("Source", "b"), limit=9) == ({}, [])
        assert await store.references("other", rows.key("b"), limit=9) == ({rows.key("y"): False}, [])

    async def test_kinds_and_projects_are_told_apart(self, engine: Engine, store: Store) -> None:
        await store.create_project("other", at=rows.AT)
        part = rows.stored("a")
        of_kind = ReferenceRow(rows.PROJECT, rows.KIND, "a", "Source", "x")
        await commit(store, replace(part, references=[of_kind]), rows.referring("a", "y", project="other"))
        assert (users(engine, "x", "y"), users(engine, "x", "y", project="other")) == ({}, {"y": ["a"]})
        view = engine.view()
        with view.snapshot():
            assert view.referrers(rows.PROJECT, [Key("Source", "x")]) == {Key("Source", "x"): {rows.key("a")}}
        view.close()

    async def test_a_new_version_refers_to_what_it_says_and_no_more(self, engine: Engine, store: Store) -> None:
        await commit(store, rows.referring("a", "x", "y"), rows.referring("b", "x"))
        await commit(store, rows.referring("a", "y", "z", number=2))
        assert users(engine, "x", "y", "z") == {"x": ["b"], "y": ["a"], "z": ["a"]}
        await commit(store, rows.stored("a", number=3))
        assert users(engine, "x", "y", "z") == {"x": ["b"]}

    async def test_what_is_removed_refers_to_nothing(self, engine: Engine, store: Store) -> None:
        await commit(store, rows.referring("a", "x"), rows.referring("b", "x"))
        await commit(store, rows.removed("a"), rows.removed("x"))
        assert users(engine, "x") == {"x": ["b"]}
        await commit(store, rows.stored("a", number=2))
        assert users(engine, "x") == {"x": ["b"]}

    async def test_a_resource_that_goes_and_one_that_comes_in_one_part(self, engine: Engine, store: Store) -> None:
        await commit(store, rows.referring("a", "x"))
        gone = [KeyRow(rows.PROJECT, rows.KIND, "a")]
        await commit(store, replace(rows.referring("b", "x"), removed=gone))
        assert users(engine, "x") == {"x": ["b"]}

    async def test_a_head_or_a_status_alone_leaves_references_as_they_are(self, engine: Engine, store: Store) -> None:
        await commit(store, rows.referring("a", "x"))
        moved = Changes(heads=[rows.head("a", owner="telemetry")], head_statuses=[rows.head_status("a", "it")])
        await commit(store, moved)
        assert users(engine, "x") == {"x": ["a"]}

    async def test_a_refused_commit_leaves_references_as_they_are(self, engine: Engine, store: Store) -> None:
        await commit(store, rows.referring("a", "x"))

        def parts() -> Iterator[Changes]:
            yield rows.referring("a", "y", number=2)
            raise BrokenPipeError("the reader has gone")

        with pytest.raises(BrokenPipeError):
            await store.commit(parts(), record=Record())
        assert users(engine, "x", "y") == {"x": ["a"]}

    async def test_a_view_sees_those_of_its_revision(self, engine: Engine, store: Store) -> None:
        await commit(store, rows.referring("a", "x"))
        view = engine.view()
        x = rows.key("x")
        with view.snapshot():
            assert view.referrers(rows.PROJECT, [x]) == {x: {rows.key("a")}}
            await commit(store, rows.removed("a"))
            assert view.referrers(rows.PROJECT, [x]) == {x: {rows.key("a")}}
        with view.snapshot():
            assert view.referrers(rows.PROJECT, [x]) == {}
        view.close()

    async def test_more_targets_than_one_statement_takes_are_all_found(self, engine: Engine, store: Store) -> None:
        targets = [f"{number:05}" for number in range(2 * BATCH + 1)]
        await commit(store, rows.referring("a", *targets))
        assert users(engine, *targets) == {target: ["a"] for target in targets}
