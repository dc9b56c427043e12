"""Promises of a store about those who follow it: each hears of every change that is stored, and of no other."""

import pytest

from reconciler.model.directory import Amendment, Member
from reconciler.model.principals import Role
from reconciler.store.contract import Store, StoreFault
from reconciler.store.records import Committed, KeyRow, Record, ResourceChange
from tests.auth import directories
from tests.store import rows
from tests.store.contract_access import AUDITED, EVENT
from tests.store.engines import Engine


def _all_of(kind: str) -> KeyRow:
    return KeyRow(rows.PROJECT, kind, "")


ADDED = Amendment(AUDITED, users=(directories.user("new"),))


class SubscriptionPromises:
    """Hearing of commits and amendments."""

    pytestmark = pytest.mark.anyio

    async def test_each_change_is_heard_once_before_the_write_returns_and_in_order(self, store: Store) -> None:
        heard: list[object] = []
        changes = [ResourceChange("telemetry", project=rows.PROJECT), ResourceChange(None, changed_endpoints=["siem"])]
        store.subscribe(ResourceChange, heard.append)
        store.subscribe(Amendment, heard.append)
        await store.commit([rows.stored("a")], record=Record(change=changes[0]))
        assert heard == changes[:1]
        await store.amend(ADDED, after=0, audit=EVENT)
        await store.commit((), record=Record(run=rows.run("R1")))
        await store.commit([rows.stored("b")], record=Record(change=changes[1]))
        assert heard == [changes[0], ADDED, changes[1]]

    async def test_a_listener_hears_of_its_kind_alone_and_finds_the_change_stored(self, store: Store) -> None:
        heard: list[Amendment] = []
        store.subscribe(Amendment, heard.append)
        await store.commit([rows.stored("a")], record=Record(change=ResourceChange(None)))
        await store.amend(ADDED, after=0, audit=EVENT)
        assert (heard, "new" in (await store.directory()).users) == ([ADDED], True)

    async def test_each_commit_is_told_with_its_resources_and_the_revision_after_it(self, store: Store) -> None:
        heard: list[Committed] = []
        store.subscribe(Committed, heard.append)
        before = await store.revision()
        both, run = Record(beside=(Record(run=rows.run("R1")),)), Record(run=rows.run("R2"))
        await store.commit([rows.stored("a"), rows.stored("b")], record=both)
        await store.commit([rows.removed("a")], record=Record())
        await store.commit((), record=run)
        assert [[key.name for key in one.keys] for one in heard] == [["a", "b"], ["a"], []]
        assert [one.revision - before for one in heard] == [1, 2, 2]
        assert [[named.name for named in one.runs] for one in heard] == [["R1"], [], ["R2"]]

    async def test_of_many_resources_the_kind_is_told(self, store: Store) -> None:
        heard: list[Committed] = []
        store.subscribe(Committed, heard.append)
        await store.commit([rows.stored(*(f"r{number}" for number in range(1_000)))], record=Record())
        names = [f"r{number}" for number in range(200)]
        assert [*heard[0].keys] == [*(KeyRow(rows.PROJECT, rows.KIND, name) for name in names), _all_of(rows.KIND)]

    async def test_what_is_not_stored_is_not_heard_of(self, engine: Engine, store: Store) -> None:
        heard: list[object] = []
        store.subscribe(ResourceChange, heard.append)
        store.subscribe(Amendment, heard.append)
        large = rows.stored("a", padding="x" * 1_000_000)
        with engine.full(store), pytest.raises(StoreFault):
            await store.commit([large], record=Record(change=ResourceChange(None)))
        await store.amend(ADDED, after=0, audit=EVENT)
        with pytest.raises(StoreFault):
            await store.amend(
                Amendment(AUDITED, members=(Member("nowhere", "id-new", Role.USER),)), after=1, audit=EVENT
            )
        assert heard == [ADDED]
