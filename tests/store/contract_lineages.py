"""Promises of a store about lineage: it is filled in where a resource is still what it was when it was searched for."""

import pytest

from reconciler.model.values import Value
from reconciler.store.contract import Store
from reconciler.store.records import Changes, LineageRow, Record, SourcePlace, Unexplained
from tests.store import looking, rows
from tests.store.engines import Engine

CHANGED_BY: Value = {"author": "Ada", "commit": "d" * 40, "date": rows.AT}


def source(repository: str = "telemetry", *, known: bool = False) -> dict[str, Value]:
    told: dict[str, Value] = {"type": "git", "repository": repository, "commit": "c" * 40}
    return told | {"changedBy": CHANGED_BY} if known else told


def shown(*, known: bool = False, path: str = "a.yaml") -> dict[str, Value]:
    """Return what a reader gets of a source that has a place."""
    return source(known=known) | {"path": path, "line": 1}


def came(name: str, number: int = 1, *, told: dict[str, Value] | None = None, owner: str = "telemetry") -> Changes:
    """A version that a repository stored."""
    origin = rows.origin(source=told or source())
    head = rows.head(name, number, owner=owner, path="a.yaml", line=1)
    version = rows.version(name, number)._replace(origin=origin.id, path="a.yaml", line=1)
    return Changes(origins=[origin], versions=[version], heads=[head])


def adopted(name: str) -> Changes:
    """The repository takes over what is stored: its status alone says so."""
    origin = rows.origin(source=source())
    head = rows.head(name, owner="telemetry", path="a.yaml", line=1)
    return Changes(origins=[origin], heads=[head._replace(origin=origin.id, place=SourcePlace.OWN)])


def lineage(name: str, number: int = 1) -> Changes:
    """Return what a search finds of such a version."""
    after = rows.origin(source=source(known=True))
    row = LineageRow(
        project=rows.PROJECT,
        kind=rows.KIND,
        name=name,
        version=number,
        before=rows.origin(source=source()).id,
        origin=after.id,
        status_before=None,
        status=None,
    )
    return Changes(origins=[after], lineages=[row])


async def sources(store: Store, name: str) -> list[object]:
    """Return what the versions of a resource say of where they come from, the newest first."""
    return [shown["status"]["source"] for shown in await looking.history(store, rows.key(name))]


class LineagePromises:
    """Lineage."""

    pytestmark = pytest.mark.anyio

    async def test_lineage_is_filled_in_and_seen_by_readers(self, store: Store) -> None:
        await store.commit([came("a"), came("b")], record=Record())
        assert await store.commit([lineage("a")], record=Record()) == 2
        assert await sources(store, "a") == [shown(known=True)]
        assert await sources(store, "b") == [shown()]
        [a, b] = await looking.listed(store)
        assert [a["status"], b["status"]] == [
            {"latest": True, "source": shown(known=True)},
            {"latest": True, "source": shown()},
        ]

    async def test_lineage_of_the_older_version_alone_is_filled_in_no_more(self, store: Store) -> None:
        await store.commit([came("a")], record=Record())
        await store.commit([came("a", 2)], record=Record())
        assert await store.commit([lineage("a")], record=Record()) == 2
        assert await sources(store, "a") == [shown(), shown()]

    @pytest.mark.parametrize(
        "meanwhile",
        [
            pytest.param(adopted("a"), id="it was taken over"),
            pytest.param(rows.removed("a"), id="it is gone"),
            pytest.param(lineage("a"), id="it is known"),
        ],
    )
    async def test_what_changed_meanwhile_stays_and_the_revision_does_not_grow(
        self, store: Store, meanwhile: Changes
    ) -> None:
        await store.commit([came("a")], record=Record())
        await store.commit([meanwhile], record=Record())
        before = await looking.everything(store), await sources(store, "a")
        assert await store.commit([lineage("a")], record=Record()) == 2
        assert (await looking.everything(store), await sources(store, "a")) == before

    async def test_what_moved_meanwhile_is_told_of_where_it_stands_now(self, store: Store) -> None:
        await store.commit([came("a")], record=Record())
        moved = rows.head("a", owner="telemetry", path="b.yaml", line=1)._replace(place=SourcePlace.OWN)
        await store.commit([Changes(heads=[moved])], record=Record())
        await store.commit([lineage("a")], record=Record())
        [resource] = await looking.listed(store)
        assert resource["status"]["source"] == shown(known=True, path="b.yaml")
        await store.commit([came("a", 2)], record=Record())
        assert await sources(store, "a") == [shown(), shown(known=True)]

    async def test_the_source_of_an_adopted_version_stays(self, store: Store) -> None:
        """Its status alone is of the repository."""
        await store.commit([rows.stored("a")], record=Record())
        await store.commit([adopted("a")], record=Record())
        before, after = rows.origin(), rows.origin(source=source(known=True))
        row = lineage("a").lineages[0]._replace(before=before.id, origin=before.id)
        row = row._replace(status_before=rows.origin(source=source()).id, status=after.id)
        part = Changes(origins=[after], lineages=[row])
        assert await store.commit([part], record=Record()) == 3
        assert await looking.listed(store) == [
            rows.shown("a", 1) | {"status": {"latest": True, "source": shown(known=True)}}
        ]
        assert await store.commit([part], record=Record()) == 3
        await store.commit([rows.removed("a")], record=Record())
        assert await sources(store, "a") == [rows.source(1)]

    async def test_what_is_not_explained_is_found_in_order_of_path(self, engine: Engine, store: Store) -> None:
        await store.commit(
            [
                came("c"),
                came("a"),
                came("known", told=source(known=True)),
                came("others", told=source("other"), owner="other"),
                came("left", told=source("other")),
                rows.stored("made"),
            ],
            record=Record(),
        )
        view = engine.view()
        with view.snapshot():
            found = view.without_lineage("telemetry", rows.PROJECT, limit=10)
            assert view.without_lineage("telemetry", rows.PROJECT, limit=1) == found[:1]
            assert view.without_lineage("telemetry", "another", limit=10) == []
        view.close()
        told = rows.origin(source=source()).id
        assert found == [Unexplained(rows.key(name), 1, told, "a.yaml", None, told, "a.yaml") for name in "ac"]
