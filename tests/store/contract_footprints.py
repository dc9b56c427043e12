"""What a store promises of plans that others overtook: one whose footprint nothing met since is stored all the same."""

from dataclasses import Field, fields, replace
from typing import Any

import pytest

from reconciler.model import outcomes
from reconciler.model.names import Key
from reconciler.store.contract import (
    ApprovalRow,
    Changes,
    LineageRow,
    Moved,
    Record,
    RewrittenRow,
    Store,
    SuspensionRow,
)
from tests.store import rows
from tests.store.engines import Engine

PROJECT = rows.PROJECT
NAMES = ("a", "b", "c", "new")
OWNER = "telemetry"
MANY = 600  # resources in one change: it is not remembered what they are

PLAN = outcomes.OF_PLAN

IN_PROJECT = (
    {name: outcomes.footprint_of(PROJECT, [rows.key(name)], whole=PLAN) for name in NAMES}
    | {f"users of {name}": outcomes.footprint_of(PROJECT, [], targets=[rows.key(name)], whole=PLAN) for name in NAMES}
    | {f"id of {name}": outcomes.footprint_of(PROJECT, [], ids=[f"id-{name}"], whole=PLAN) for name in NAMES}
    | {"owned": outcomes.footprint_of(PROJECT, [], owners=[OWNER], whole=PLAN)}
    | {"remembered": outcomes.footprint_of(PROJECT, [], repositories=[OWNER], whole=PLAN)}
    | {"another remembered": outcomes.footprint_of(PROJECT, [], repositories=["another"], whole=PLAN)}
)
# Of a plan of another project.
ELSEWHERE = {"elsewhere": outcomes.footprint_of("other", [rows.key("a")], ids=["id-a"], whole=PLAN)}
FACTS = IN_PROJECT | ELSEWHERE
ALL, EVERYTHING = set(IN_PROJECT), set(FACTS)

owned = replace(rows.stored("b"), heads=(rows.head("b", owner=OWNER, path="b.yaml", line=1),))
drifted = replace(rows.stored("b", number=2), heads=(rows.head("b", 2, owner=OWNER, path="b.yaml", line=1),))

explained = LineageRow(
    PROJECT, rows.KIND, "b", 1, before=rows.origin(1).id, origin=rows.origin(2).id, status_before=None, status=None
)


approvable = rows.repository(approvable=1)


def of_repository(**changes: Any) -> Changes:
    """A part of a repository's commit that changes a resource, too."""
    return replace(rows.stored("a", number=2), **changes)


CHANGES: dict[str, tuple[Changes, set[str]]] = {
    "a new version": (rows.stored("a", number=2), {"a"}),
    "a new resource": (rows.stored("new"), {"new", "id of new"}),
    "a new resource that refers to others": (
        rows.referring("new", "a", "b"),
        {"new", "id of new", "users of a", "users of b"},
    ),
    "a resource that goes": (rows.removed("a"), {"a", "id of a"}),
    "a resource that goes and referred to another": (rows.removed("c"), {"c", "id of c", "users of a"}),
    "a resource that goes and was owned": (rows.removed("b"), {"b", "id of b", "owned"}),
    "a resource that never was": (rows.removed("new"), {"new"}),
    "a version that refers to the same": (rows.referring("c", "a", number=2), {"c"}),
    "a version that refers to another": (rows.referring("c", "b", number=2), {"c", "users of a", "users of b"}),
    "another status": (Changes(head_statuses=(rows.head_status("a", "nothing fits"),)), {"a"}),
    "another status of what is owned": (
        Changes(head_statuses=(rows.head_status("b", "nothing fits"),)),
        {"b", "owned"},
    ),
    "a version of what is owned": (drifted, {"b", "owned"}),
    "an owner": (Changes(heads=(rows.head("a", owner=OWNER, path="a.yaml", line=1),)), {"a", "owned"}),
    "a version that is rewritten": (
        Changes(rewritten=(RewrittenRow(PROJECT, rows.KIND, "a", 1, rows.body("a", 1), None),)),
        {"a"},
    ),
    "which commit changed what is owned": (
        Changes(origins=(rows.origin(2),), lineages=(explained,)),
        {"b", "owned"},
    ),
    "a file": (of_repository(files=(rows.file("a.yaml"),)), {"a", "remembered"}),
    "what a file holds": (of_repository(wanted=(rows.wanted("a.yaml", "a"),)), {"a", "remembered"}),
    "a file that is forgotten": (of_repository(forgotten_files=((OWNER, "a.yaml"),)), {"a", "remembered"}),
    "a run's statuses": (of_repository(statuses=(rows.run_status("run", 1),)), {"a"}),
    "what is held": (of_repository(held=rows.held("a").held), {"a", "remembered"}),
    "what was pruned": (of_repository(pruned=rows.pruned(1).pruned), {"a", "remembered"}),
    "a file of who knows which project": (Changes(files=(rows.file("a.yaml"),)), EVERYTHING),
    "very many resources": (rows.stored(*(f"many-{number}" for number in range(MANY))), ALL),
}

NEW = {"new", "id of new"}
# What a record touches that is written together with a new resource: each of its fields is here.
RECORDS: dict[str, tuple[Record, set[str]]] = {
    "run": (Record(run=rows.run("run")), NEW),
    "repository": (Record(repository=rows.repository()), NEW | {"remembered"}),
    "forget_files_of": (Record(forget_files_of=OWNER), NEW | {"remembered"}),
    "release_repository": (Record(release_repository=OWNER), EVERYTHING),
    "forget_held_of": (Record(forget_held_of=OWNER), NEW | {"remembered"}),
    "forget_approval_of": (Record(forget_approval_of=OWNER), NEW | {"remembered"}),
    "suspension": (Record(suspension=SuspensionRow(OWNER, "why", "key:test", rows.AT, None)), EVERYTHING),
    "resume": (Record(resume=OWNER), EVERYTHING),
    "audit": (Record(audit=(rows.audit("a"),)), NEW),
    "address": (Record(address="192.0.2.1"), NEW),
    "redacts": (Record(redacts=True), ALL),
    "approval": (Record(approval=ApprovalRow(OWNER, "c" * 40, "key:test", rows.AT)), NEW | {"remembered"}),
}


async def begun(store: Store) -> int:
    """The revision of a store with three resources; the third refers to the first, and the second is owned."""
    await store.commit([rows.stored("a"), owned], record=Record(), planned_at=None)
    return await store.commit([rows.referring("c", "a")], record=Record(), planned_at=None)


async def met(store: Store, planned_at: int) -> set[str]:
    """The facts of which a plan, made at a revision, is void by now."""
    found = set()
    for name, footprint in FACTS.items():
        try:
            await store.commit((), record=Record(), planned_at=planned_at, footprint=footprint)
        except Moved:
            found.add(name)
    return found


class FootprintPromises:
    """Footprints."""

    pytestmark = pytest.mark.anyio

    @pytest.mark.parametrize("change", CHANGES)
    async def test_a_change_makes_a_plan_void_that_looked_at_what_it_touches(self, store: Store, change: str) -> None:
        revision = await begun(store)
        part, touched = CHANGES[change]
        await store.commit([part], record=Record(), planned_at=revision)
        assert await met(store, revision) == touched

    @pytest.mark.parametrize("field", fields(Record), ids=lambda field: field.name)
    async def test_a_record_makes_a_plan_void_that_looked_at_what_it_touches(
        self, store: Store, field: Field[Any]
    ) -> None:
        await store.commit((), record=Record(repository=approvable), planned_at=None)
        revision = await begun(store)
        record, touched = RECORDS[field.name]
        await store.commit([rows.stored("new")], record=record, planned_at=revision)
        assert await met(store, revision) == touched

    async def test_a_record_alone_of_who_knows_which_project_makes_every_plan_void(self, store: Store) -> None:
        revision = await begun(store)
        await store.commit((), record=Record(redacts=True), planned_at=None)
        assert await met(store, revision) == EVERYTHING

    async def test_a_change_of_two_projects_makes_every_plan_void(self, store: Store) -> None:
        await store.create_project("other", at=rows.AT)
        revision = await begun(store)
        await store.commit([rows.stored("new"), rows.stored("b", project="other")], record=Record(), planned_at=None)
        assert await met(store, revision) == EVERYTHING

    async def test_a_plan_that_may_have_looked_at_anything_in_a_project_outlives_changes_of_others(
        self, store: Store
    ) -> None:
        await store.create_project("other", at=rows.AT)
        revision = await begun(store)
        await store.commit([rows.stored("a", project="other")], record=Record(), planned_at=None)
        after = await store.commit(
            [rows.stored("new")], record=Record(), planned_at=revision, footprint=outcomes.footprint_of_all(PROJECT)
        )
        with pytest.raises(Moved):
            await store.commit((), record=Record(), planned_at=after - 1, footprint=outcomes.footprint_of_all(PROJECT))

    async def test_a_plan_outlives_any_number_of_changes_of_which_none_meets_it(self, store: Store) -> None:
        revision = await begun(store)
        for number in range(2, 12):
            await store.commit([rows.stored("a", number=number)], record=Record(), planned_at=None)
        assert await met(store, revision) == {"a"}
        later = await store.commit([rows.stored("b", number=2)], record=Record(), planned_at=None)
        assert await met(store, revision) == {"a", "b", "owned"}
        assert await met(store, later - 1) == {"b", "owned"}
        assert await met(store, later) == set()

    async def test_all_parts_of_a_change_count(self, store: Store) -> None:
        revision = await begun(store)
        parts = [rows.stored("new"), rows.removed("c"), Changes(audit=(rows.audit("a"),))]
        await store.commit(parts, record=Record(), planned_at=revision)
        assert await met(store, revision) == {"new", "id of new", "c", "id of c", "users of a"}

    async def test_a_plan_that_may_have_looked_at_anything_is_void_after_every_change(self, store: Store) -> None:
        revision = await begun(store)
        await store.commit([rows.stored("new")], record=Record(), planned_at=revision)
        with pytest.raises(Moved):
            await store.commit([rows.stored("a", number=2)], record=Record(), planned_at=revision)

    async def test_a_change_that_is_not_stored_touches_nothing(self, store: Store) -> None:
        revision = await begun(store)
        with pytest.raises(Moved):
            await store.commit([rows.stored("a", number=2)], record=Record(), planned_at=revision - 1)
        await store.commit([rows.stored("new")], record=Record(), planned_at=revision)
        assert await met(store, revision) == {"new", "id of new"}

    async def test_what_another_process_stores_makes_every_plan_void(self, engine: Engine, store: Store) -> None:
        revision = await begun(store)
        other = engine.open()
        await other.commit([rows.stored("new")], record=Record(), planned_at=revision)
        await other.close()
        assert await met(store, revision) == EVERYTHING

    async def test_another_project_has_facts_of_its_own(self, store: Store) -> None:
        await store.create_project("other", at=rows.AT)
        revision = await begun(store)
        await store.commit([rows.stored("a", project="other")], record=Record(), planned_at=revision)
        assert await met(store, revision) == {"elsewhere"}
        theirs = outcomes.footprint_of("other", [Key(rows.KIND, "a")])
        with pytest.raises(Moved):
            await store.commit((), record=Record(), planned_at=revision, footprint=theirs)

    async def test_a_plan_that_outlived_a_change_is_stored_behind_it(self, store: Store) -> None:
        revision = await begun(store)
        await store.commit([rows.stored("a", number=2)], record=Record(), planned_at=revision)
        after = await store.commit([rows.stored("new")], record=Record(), planned_at=revision, footprint=FACTS["new"])
        assert after == await store.revision() == revision + 2
        assert await store.get(PROJECT, rows.key("a")) is not None
        assert await store.get(PROJECT, rows.key("new")) is not None
