"""Promises of a store about a status that is replaced without a version."""

import json
from dataclasses import replace

import msgspec
import pytest

from reconciler.store.contract import Store
from reconciler.store.records import Changes, Record
from tests.store import looking, rows
from tests.store.engines import Engine


class StatusPromises:
    """Statuses of heads."""

    pytestmark = pytest.mark.anyio

    async def test_a_status_is_replaced_and_nothing_else(self, engine: Engine, store: Store) -> None:
        old = replace(rows.stored("a"), heads=[rows.head("a", owner="telemetry", path="a.yaml", line=3)])
        await store.commit([old, rows.stored("b")], record=Record())
        view = engine.view()
        key = rows.key("a")
        with view.snapshot():
            before = view.stored(rows.PROJECT, [key])[key]
        row = rows.head_status("a", "a line", "another")
        await store.commit([Changes(head_statuses=[row])], record=Record())
        with view.snapshot():
            after = view.stored(rows.PROJECT, [key])[key]
            document = view.documents(rows.PROJECT, [key])[key]
        view.close()
        assert after == msgspec.structs.replace(before, incomplete=True)
        assert (document.status, document.incomplete) == (row.status, 1)
        shown = json.loads(await store.get(rows.PROJECT, key) or b"")
        assert shown == rows.shown("a", 1) | {"status": json.loads(row.status) | {"source": rows.source(1)}}
        assert await looking.listed(store) == [shown, rows.shown("b", 1)]
        assert await looking.versions(store, "a") == [1]

    async def test_what_is_complete_again_is_not_incomplete(self, engine: Engine, store: Store) -> None:
        await store.commit([rows.stored("a")], record=Record())
        found = []
        for row in (rows.head_status("a", "a line"), rows.head_status("a")):
            await store.commit([Changes(head_statuses=[row])], record=Record())
            view = engine.view()
            with view.snapshot():
                found.append(view.stored(rows.PROJECT, [rows.key("a")])[rows.key("a")].incomplete)
            view.close()
        assert found == [True, False]

    async def test_of_another_project_or_of_what_is_gone_nothing_is_written(self, store: Store) -> None:
        await store.commit([rows.stored("a")], record=Record())
        row = rows.head_status("a", "a line", project="other")
        await store.commit([Changes(head_statuses=[row, rows.head_status("b", "x")])], record=Record())
        assert await looking.listed(store) == [rows.shown("a", 1)]
