"""Promises of a store about its audit: every transaction adds a link, seen whole and in the order of the commits."""

import json
from typing import Any

import pytest

from reconciler.model.audit_chain import ZERO, ChainHead
from reconciler.store.contract import Store, StoreFault
from reconciler.store.records import AuditPlace, AuditWanted, Record
from tests.store import rows
from tests.store.engines import Engine

ALL = AuditWanted()
LATER = "2026-12-21T06:12:00.000Z"


async def events(
    store: Store, wanted: AuditWanted = ALL, *, limit: int = 1000, documents: bool = False
) -> list[dict[str, Any]]:
    pages = store.event_pages(wanted, limit=limit, documents=documents)
    return [json.loads(one) for page in [page async for page in pages] for one in page]


async def names(store: Store, wanted: AuditWanted = ALL, *, limit: int = 1000) -> list[str]:
    return [one["name"] for one in await events(store, wanted, limit=limit)]


def place(event: dict[str, Any]) -> AuditPlace:
    link, number = event["id"].split("-")
    return AuditPlace(int(link), int(number))


class AuditPromises:
    """The audit."""

    pytestmark = pytest.mark.anyio

    async def test_each_transaction_with_events_adds_a_link_and_no_other_does(self, store: Store) -> None:
        assert (await store.audit_ends())[1] == ChainHead(0, ZERO)
        await store.commit([rows.stored("a", "b")], record=Record())
        first = (await store.audit_ends())[1]
        await store.commit((), record=Record(run=rows.run("R1")))
        assert (first.number, (await store.audit_ends())[1]) == (1, first)
        await store.tell([rows.audit("c")])
        second = (await store.audit_ends())[1]
        assert (second.number, len(second.hash), second.hash != first.hash) == (2, 32, True)
        assert [one["id"] for one in await events(store)] == ["2-3", "1-2", "1-1"]

    async def test_the_events_of_a_commit_are_one_link_in_the_order_of_its_parts(self, store: Store) -> None:
        await store.tell([rows.audit("before")])
        record = Record(address="192.0.2.1", audit=(rows.audit("record"),))
        await store.commit([rows.stored("a"), rows.stored("b")], record=record)
        found = await events(store)
        assert [(one["name"], one["id"], one.get("address")) for one in found] == [
            ("b", "2-4", "192.0.2.1"),
            ("a", "2-3", "192.0.2.1"),
            ("record", "2-2", "192.0.2.1"),
            ("before", "1-1", None),
        ]
        for number, one in enumerate(found):
            assert await names(store, ALL._replace(after=place(one))) == [each["name"] for each in found[number + 1 :]]
            assert await names(store, ALL._replace(name=one["name"])) == [one["name"]]

    async def test_what_fails_is_in_no_link(self, engine: Engine, store: Store) -> None:
        with pytest.raises(StoreFault):
            await store.commit([rows.stored("a"), rows.stored("a")], record=Record())
        with engine.failing(store), pytest.raises(StoreFault):
            await store.tell([rows.audit("b")])
        assert (await names(store), (await store.audit_ends())[1]) == ([], ChainHead(0, ZERO))
        await store.tell([rows.audit("c")])
        assert (await names(store), (await store.audit_ends())[1].number) == (["c"], 1)

    async def test_a_page_ends_at_its_limit_and_shows_the_versions_when_asked(self, store: Store) -> None:
        await store.commit([rows.stored("a")], record=Record())
        await store.commit([rows.stored("a", number=2)], record=Record())
        await store.tell([rows.audit("gone", 7)])
        assert await names(store, limit=2) == ["gone", "a"]
        gone, second, first = await events(store, documents=True)
        assert (gone.get("before"), gone.get("after")) == (None, None)
        assert (second["before"], second["after"]) == (rows.shown("a", 1, latest=False), rows.shown("a", 2))
        assert (first.get("before"), first["after"]) == (None, rows.shown("a", 1, latest=False))

    async def test_a_key_is_found_by_its_id_and_by_what_it_is_called(self, store: Store) -> None:
        key = rows.audit("01KEY")._replace(kind="Key")
        for detail in ('{"name": "collector"}', '["name"]', "no JSON", None):
            await store.tell([key._replace(detail=detail)])
        await store.tell([rows.audit("collector")])
        of_keys = ALL._replace(kind="Key")
        assert await names(store, of_keys._replace(name="collector")) == ["01KEY"]
        assert await names(store, of_keys._replace(name="01KEY")) == ["01KEY"] * 4
        assert [one["kind"] for one in await events(store, ALL._replace(name="collector"))] == [rows.KIND]

    async def test_the_oldest_go_whole_and_in_order_and_their_numbers_are_not_used_again(self, store: Store) -> None:
        await store.commit([rows.stored("a", "b")], record=Record())
        await store.tell([rows.audit("later")._replace(at=LATER)])
        await store.tell([rows.audit("behind")])
        head = (await store.audit_ends())[1]
        steps = 0
        while await store.forget_events(before=LATER):
            steps += 1
            assert await names(store) == ["behind", "later"]
        assert (steps, (await store.audit_ends())[1]) == (1, head)
        while await store.forget_events(before="2027"):
            pass
        assert (await names(store), (await store.audit_ends())[1]) == ([], head)
        await store.tell([rows.audit("new")])
        assert [one["id"] for one in await events(store)] == ["4-5"]
        assert (await store.get(rows.PROJECT, rows.key("a"))) is not None
        assert [page async for page in store.history_pages(rows.PROJECT, rows.key("a"))] != []

    async def test_what_is_looked_for_is_left_when_nobody_wants_it_any_more(self, store: Store) -> None:
        await store.tell([rows.audit(f"n{number}") for number in range(1_250)])
        pages = store.event_pages(ALL, limit=10_000, documents=False)
        assert len(await anext(pages)) == 1_000
        await pages.aclose()
        assert len(await names(store, limit=10_000)) == 1_250

    async def test_between_two_pages_events_come_and_go_and_those_that_stay_are_told_once(self, store: Store) -> None:
        await store.tell([rows.audit("oldest")])
        for part in range(4):
            await store.tell([rows.audit(f"n{part}-{number}")._replace(at=LATER) for number in range(500)])
        pages = store.event_pages(ALL, limit=10_000, documents=False)
        told = [json.loads(one)["name"] for one in await anext(pages)]
        await store.tell([rows.audit("new")._replace(at=LATER)])
        while await store.forget_events(before=LATER):
            pass
        told += [json.loads(one)["name"] async for page in pages for one in page]
        assert told == (await names(store, limit=10_000))[1:]
        assert (len(told), told[-1]) == (2_000, "n0-0")

    async def test_a_name_that_very_many_have_is_paged_as_any_other(self, store: Store) -> None:
        await store.tell([rows.audit("other" if number in (7, 9_000) else "many") for number in range(10_100)])
        many = ALL._replace(name="many")
        found = await events(store, many, limit=100_000)
        assert len({one["id"] for one in found}) == len(found) == 10_098
        assert await events(store, many._replace(after=place(found[4_000])), limit=3) == found[4_001:4_004]
        assert [one["id"] for one in await events(store, ALL._replace(name="other"))] == ["1-9001", "1-8"]
