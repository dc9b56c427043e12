"""What a store promises of lineage: it is filled in where a resource is still what it was when it was searched for."""

import json
from typing import Any

import pytest

from reconciler.store.contract import Changes, LineageRow, Record, Store
from reconciler.store.planning_view import Unexplained
from tests.store import looking, rows
from tests.store.engines import Engine

CHANGED_BY = {"author": "Ada", "commit": "d" * 40, "date": rows.AT}


def source(repository: str = "telemetry", *, path: str = "a.yaml", known: bool = False) -> dict[str, Any]:
    told = {"type": "git", "repository": repository, "commit": "c" * 40, "path": path}
    return told | {"changedBy": CHANGED_BY} if known else told


def encoded(value: object) -> bytes:
    return json.dumps(value).encode()


def came(name: str, number: int = 1, *, told: dict[str, Any] | None = None, owner: str = "telemetry") -> Changes:
    """A version that a repository stored."""
    told = told or source()
    head = rows.head(name, number, owner=owner, path="a.yaml", line=1)
    version = rows.version(name, number)._replace(source=encoded(told))
    status = encoded({"latest": True, "source": told})
    return Changes(versions=(version,), heads=(head._replace(status=status),))


def lineage(name: str, number: int = 1) -> LineageRow:
    """What a search finds of such a version."""
    before, after = source(), source(known=True)
    return LineageRow(
        project=rows.PROJECT,
        kind=rows.KIND,
        name=name,
        version=number,
        source_before=encoded(before),
        source=encoded(after),
        status_before=encoded({"latest": True, "source": before}),
        status=encoded({"latest": True, "source": after}),
    )


async def sources(store: Store, name: str) -> list[object]:
    """What the versions of a resource say of where they come from, the newest first."""
    return [shown["status"]["source"] for shown in await looking.history(store, rows.key(name))]


class LineagePromises:
    """Lineage."""

    pytestmark = pytest.mark.anyio

    async def test_lineage_is_filled_in_and_seen_by_readers(self, store: Store) -> None:
        await store.commit([came("a"), came("b")], record=Record(), planned_at=0)
        assert await store.commit([Changes(lineages=(lineage("a"),))], record=Record(), planned_at=None) == 2
        assert await sources(store, "a") == [source(known=True)]
        assert await sources(store, "b") == [source()]
        [a, b] = await looking.listed(store)
        assert [a["status"], b["status"]] == [
            {"latest": True, "source": source(known=True)},
            {"latest": True, "source": source()},
        ]

    async def test_lineage_of_the_older_version_alone_is_filled_in_no_more(self, store: Store) -> None:
        await store.commit([came("a")], record=Record(), planned_at=0)
        await store.commit([came("a", 2)], record=Record(), planned_at=1)
        assert await store.commit([Changes(lineages=(lineage("a"),))], record=Record(), planned_at=None) == 2
        assert await sources(store, "a") == [source(), source()]

    @pytest.mark.parametrize(
        "meanwhile",
        [
            pytest.param(Changes(heads=came("a", told=source(path="b.yaml")).heads), id="it moved"),
            pytest.param(rows.removed("a"), id="it is gone"),
            pytest.param(Changes(lineages=(lineage("a"),)), id="it is known"),
        ],
    )
    async def test_what_changed_meanwhile_stays_and_the_revision_does_not_grow(
        self, store: Store, meanwhile: Changes
    ) -> None:
        await store.commit([came("a")], record=Record(), planned_at=0)
        await store.commit([meanwhile], record=Record(), planned_at=1)
        before = await looking.everything(store), await sources(store, "a")
        assert await store.commit([Changes(lineages=(lineage("a"),))], record=Record(), planned_at=None) == 2
        assert (await looking.everything(store), await sources(store, "a")) == before

    async def test_the_source_of_an_adopted_version_stays(self, store: Store) -> None:
        """Its status alone is of the repository."""
        await store.commit([rows.stored("a")], record=Record(), planned_at=0)
        await store.commit([Changes(heads=came("a").heads)], record=Record(), planned_at=1)
        row = lineage("a")._replace(source_before=rows.source(1), source=rows.source(1))
        await store.commit([Changes(lineages=(row,))], record=Record(), planned_at=None)
        assert await looking.listed(store) == [
            rows.shown("a", 1) | {"status": {"latest": True, "source": source(known=True)}}
        ]

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
            planned_at=0,
        )
        view = engine.view()
        with view.snapshot():
            found = view.without_lineage("telemetry", rows.PROJECT, limit=10)
            assert view.without_lineage("telemetry", rows.PROJECT, limit=1) == found[:1]
            assert view.without_lineage("telemetry", "another", limit=10) == []
        view.close()
        told, status = encoded(source()), encoded({"latest": True, "source": source()})
        assert found == [Unexplained(rows.key(name), 1, told, status) for name in "ac"]
