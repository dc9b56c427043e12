"""What a store promises of plans that others overtook: one whose footprint nothing met since is stored all the same."""

from dataclasses import replace

import pytest

from reconciler.planning import footprints
from reconciler.resources.keys import Key
from reconciler.store.contract import Changes, Moved, Record, RewrittenRow, Store, SuspensionRow
from tests.store import rows
from tests.store.engines import Engine

PROJECT = rows.PROJECT
NAMES = ("a", "b", "c", "new")
OWNER = "telemetry"
MANY = 600  # resources in one change: it is not remembered what they are

FACTS = (
    {name: footprints.of(PROJECT, [rows.key(name)]) for name in NAMES}
    | {f"users of {name}": footprints.of(PROJECT, [], targets=[rows.key(name)]) for name in NAMES}
    | {f"id of {name}": footprints.of(PROJECT, [], ids=[f"id-{name}"]) for name in NAMES}
    | {"owned": footprints.of(PROJECT, [], owners=[OWNER])}
)
EVERYTHING = set(FACTS)

owned = replace(rows.stored("b"), heads=(rows.head("b", owner=OWNER, path="b.yaml", line=1),))
drifted = replace(rows.stored("b", number=2), heads=(rows.head("b", 2, owner=OWNER, path="b.yaml", line=1),))

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
        EVERYTHING,
    ),
    "a file": (Changes(files=(rows.file("a.yaml"),)), EVERYTHING),
    "what a file holds": (Changes(wanted=(rows.wanted("a.yaml", "a"),)), EVERYTHING),
    "a file that is forgotten": (Changes(forgotten_files=((OWNER, "a.yaml"),)), EVERYTHING),
    "a run's statuses": (replace(rows.stored("new"), statuses=(rows.run_status("run", 1),)), EVERYTHING),
    "what is held": (replace(rows.stored("new"), held=rows.held("a").held), EVERYTHING),
    "very many resources": (rows.stored(*(f"many-{number}" for number in range(MANY))), EVERYTHING),
}

RECORDS: dict[str, Record] = {
    "a run": Record(run=rows.run("run")),
    "a repository": Record(repository=rows.repository()),
    "a repository that is released": Record(release_repository=OWNER),
    "a suspension": Record(suspension=SuspensionRow(OWNER, "why", "key:test", rows.AT, None)),
    "a redaction": Record(redacts=True),
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

    @pytest.mark.parametrize("record", RECORDS)
    async def test_a_change_that_is_no_requests_makes_every_plan_void(self, store: Store, record: str) -> None:
        revision = await begun(store)
        await store.commit([rows.stored("new")], record=RECORDS[record], planned_at=revision)
        assert await met(store, revision) == EVERYTHING

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
        assert await met(store, revision) == set()
        theirs = footprints.of("other", [Key(rows.KIND, "a")])
        with pytest.raises(Moved):
            await store.commit((), record=Record(), planned_at=revision, footprint=theirs)

    async def test_a_plan_that_outlived_a_change_is_stored_behind_it(self, store: Store) -> None:
        revision = await begun(store)
        await store.commit([rows.stored("a", number=2)], record=Record(), planned_at=revision)
        after = await store.commit([rows.stored("new")], record=Record(), planned_at=revision, footprint=FACTS["new"])
        assert after == await store.revision() == revision + 2
        assert await store.get(PROJECT, rows.key("a")) is not None
        assert await store.get(PROJECT, rows.key("new")) is not None
