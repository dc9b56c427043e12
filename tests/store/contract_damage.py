"""Promises of a store about a version that the disk changed: it is never taken for what was stored."""

import json
from dataclasses import replace

import pytest

from reconciler.store.contract import Damaged
from reconciler.store.records import Changes, DamagedVersion, Record
from tests.store import looking, rows
from tests.store.engines import Engine

SECRETS = b'{"/spec/padding":"hush-hush"}'
MARKER = "marker-of-one-body"
FLIPS = {
    "in a text": 1,
    "that breaks the JSON": MARKER.encode()[len(MARKER) // 2] ^ ord('"'),
    "that is no UTF-8": 0x80,
}


class DamagePromises:
    """Reading what is damaged, and what is beside it."""

    pytestmark = pytest.mark.anyio

    @pytest.mark.parametrize("how", sorted(FLIPS))
    async def test_one_that_is_damaged_is_told_and_the_rest_of_a_list_is_as_it_was(
        self, engine: Engine, how: str
    ) -> None:
        await stored(engine, rows.stored("a"), marked(), rows.stored("c"))
        engine.corrupt(MARKER.encode(), by=FLIPS[how])
        store = engine.open()
        with pytest.raises(Damaged, match="the Destination b is damaged in the store"):
            await store.get(rows.PROJECT, rows.key("b"))
        shown = await looking.listed(store)
        assert [shown[0], shown[2]] == [rows.shown("a", 1), rows.shown("c", 1)]
        assert shown[1] == {
            "kind": rows.KIND,
            "metadata": {"name": "b", "version": 1},
            "status": {"error": shown[1]["status"]["error"], "latest": True},
        }
        assert await looking.history(store, rows.key("b")) == [shown[1]]
        assert await store.damaged() == [DamagedVersion(rows.PROJECT, rows.KIND, "b", 1)]
        await store.close()

    async def test_a_plan_knows_which_of_what_it_compares_is_damaged_and_reads_nothing_of_it(
        self, engine: Engine
    ) -> None:
        await stored(engine, with_secrets("a"), marked())
        engine.corrupt(b"hush-hush")
        view = engine.view()
        with view.snapshot():
            compared = view.stored(rows.PROJECT, [rows.key("a"), rows.key("b")])
            documents = view.documents(rows.PROJECT, [rows.key("a"), rows.key("b")])
        view.close()
        assert {key.name: one.damaged for key, one in compared.items()} == {"a": True, "b": False}
        held = {key.name: (one.body, one.secrets) for key, one in documents.items()}
        assert held == {"a": (b"", None), "b": (rows.body("b", 1, MARKER), None)}

    async def test_a_look_through_the_store_finds_what_nobody_reads(self, engine: Engine) -> None:
        await stored(engine, with_secrets("a"), marked())
        engine.corrupt(b"hush-hush")
        store = engine.open()
        assert await store.damaged() == []
        await store.examine()
        found = [DamagedVersion(rows.PROJECT, rows.KIND, "a", 1)]
        assert [await store.damaged(), await store.damaged()] == [found, found]
        await store.commit([rows.stored("a", number=2)], record=Record())
        assert await store.damaged() == []
        assert json.loads(await store.get(rows.PROJECT, rows.key("a")) or b"") == rows.shown("a", 2)
        await store.close()


def with_secrets(name: str) -> Changes:
    """A resource whose padding is a secret."""
    part = rows.stored(name)
    masked = part.versions[0]._replace(body=rows.body(name, 1, "(sensitive)"), secrets=SECRETS)
    return replace(part, versions=[masked])


def marked(name: str = "b") -> Changes:
    part = rows.stored(name)
    return replace(part, versions=[part.versions[0]._replace(body=rows.body(name, 1, MARKER))])


async def stored(engine: Engine, *parts: Changes) -> None:
    """Make a store of these, and close it."""
    store = engine.open()
    await store.create_project(rows.PROJECT, at=rows.AT)
    await store.commit(parts, record=Record())
    await store.close()
