"""Promises of a store about what Collectors get: it is written where it still holds, and goes with the rest."""

import hashlib
import json
from dataclasses import replace

import pytest

from reconciler.model.names import Key
from reconciler.store.contract import Damaged, Store
from reconciler.store.records import Changes, KeyRow, Record, ReferenceRow, RenderingRow, Unrendered, VersionRow
from tests.store import rows
from tests.store.engines import Engine

KIND = "Configuration"
PROGRAM = "1.0"
BODY = b"a: 1\n"
HASH = hashlib.sha256(BODY).hexdigest()
SAID = json.dumps({"hash": HASH}, separators=(",", ":")).encode()
NEXT_BODY = b"a: 2\n"
NEXT = json.dumps({"hash": hashlib.sha256(NEXT_BODY).hexdigest()}, separators=(",", ":")).encode()
FAULT = json.dumps({"fault": {"reason": "x"}, "hash": HASH}, separators=(",", ":")).encode()
FAULT_OF_NEXT = json.dumps({"fault": {"reason": "x"}} | json.loads(NEXT), separators=(",", ":")).encode()


def using(name: str, *destinations: str, number: int = 1, incomplete: int = 0) -> Changes:
    """A part that stores a version of a Configuration that names these Destinations."""
    part = rows.stored(name, number=number)
    return replace(
        part,
        versions=[one._replace(kind=KIND) for one in part.versions],
        heads=[one._replace(kind=KIND, resource_id=f"c-{name}", incomplete=incomplete) for one in part.heads],
        audit=[],
        references=[ReferenceRow(rows.PROJECT, KIND, name, rows.KIND, one) for one in destinations],
    )


def unrendered(engine: Engine, program: str = PROGRAM) -> dict[str, Unrendered]:
    view = engine.view()
    with view.snapshot():
        found = view.unrendered(rows.PROJECT, program)
    view.close()
    return {one.configuration: one for one in found}


def rendered(
    one: Unrendered, said: bytes | None = SAID, body: bytes | None = BODY, *, before: bytes = rows.STATUS
) -> Changes:
    """Return the row that a job sends for a Configuration that was found unrendered."""
    told = json.loads(before)
    told.pop("rendering", None)
    status = json.dumps(told | ({} if said is None else {"rendering": json.loads(said)})).encode()
    row = RenderingRow(rows.PROJECT, one.configuration, PROGRAM, one.inputs, said, body, one.said, before, status)
    return Changes(renderings=[row])


async def status(store: Store, name: str) -> bytes:
    shown = json.loads(await store.get(rows.PROJECT, Key(KIND, name)) or b"")["status"]
    return json.dumps({key: value for key, value in shown.items() if key != "source"}).encode()


async def kept(engine: Engine, store: Store, *names: str) -> None:
    """Everything of these is rendered."""
    found = unrendered(engine)
    await store.commit([rendered(found[name]) for name in names], record=Record())
    assert unrendered(engine) == {}


class RenderingPromises:
    """Renderings."""

    pytestmark = pytest.mark.anyio

    async def test_a_rendering_is_kept_with_the_status_that_says_so(self, engine: Engine, store: Store) -> None:
        await store.commit([rows.stored("d"), using("c", "d")], record=Record())
        assert await store.rendering(rows.PROJECT, "c") is None
        found = unrendered(engine)
        assert {name: (one.is_said, one.said) for name, one in found.items()} == {"c": (0, None)}
        assert await store.commit([rendered(found["c"])], record=Record()) == 2
        assert await store.rendering(rows.PROJECT, "c") == BODY
        assert json.loads(await status(store, "c")) == {"latest": True, "rendering": {"hash": HASH}}
        assert unrendered(engine) == {}
        assert unrendered(engine, "2.0").keys() == {"c"}
        assert await store.rendering("other", "c") is None

    async def test_one_is_due_when_anything_that_it_uses_changes(self, engine: Engine, store: Store) -> None:
        deep = rows.referring("d", "type")
        await store.commit([rows.stored("type"), deep, rows.stored("apart"), using("c", "d")], record=Record())
        await kept(engine, store, "c")
        await store.commit([rows.stored("apart", number=2)], record=Record())
        assert unrendered(engine) == {}
        await store.commit([rows.stored("type", number=2)], record=Record())
        assert unrendered(engine).keys() == {"c"}
        await kept(engine, store, "c")
        await store.commit([rows.removed("type")], record=Record())
        assert unrendered(engine).keys() == {"c"}
        await kept(engine, store, "c")
        incomplete = using("c", "d").heads[0]._replace(incomplete=1)
        await store.commit([Changes(heads=[incomplete])], record=Record())
        assert unrendered(engine).keys() == {"c"}

    async def test_one_stays_in_force_until_nothing_is_said_of_it(self, engine: Engine, store: Store) -> None:
        await store.commit([using("c")], record=Record())
        await kept(engine, store, "c")
        await store.commit([using("c", number=2)], record=Record())
        await store.commit([rendered(unrendered(engine)["c"], FAULT, None)], record=Record())
        assert await store.rendering(rows.PROJECT, "c") == BODY
        await store.commit([using("c", number=3)], record=Record())
        await store.commit([rendered(unrendered(engine)["c"], None, None)], record=Record())
        assert await store.rendering(rows.PROJECT, "c") == b""
        assert unrendered(engine) == {}

    async def test_the_one_before_another_text_is_kept(self, engine: Engine, store: Store) -> None:
        async def previous() -> bytes | None:
            return await store.rendering(rows.PROJECT, "c", previous=True)

        assert await previous() is None
        await store.commit([using("c")], record=Record())
        await kept(engine, store, "c")
        assert await previous() == b""
        steps = [
            (SAID, BODY, b""),  # the same text
            (NEXT, NEXT_BODY, BODY),
            (NEXT, NEXT_BODY, BODY),
            (FAULT_OF_NEXT, None, BODY),  # the last one stays in force
            (SAID, BODY, NEXT_BODY),  # and back
            (None, None, b""),  # nothing is in force, so nothing is before it
            (SAID, BODY, b""),
        ]
        for number, (said, body, expected) in enumerate(steps, 2):
            await store.commit([using("c", number=number)], record=Record())
            await store.commit([rendered(unrendered(engine)["c"], said, body)], record=Record())
            assert (number, await previous()) == (number, expected)
        assert await store.rendering("other", "c", previous=True) is None

    async def test_the_one_before_goes_with_the_one_in_force(self, engine: Engine, store: Store) -> None:
        await store.commit([using("a"), using("b"), rows.stored("d")], record=Record())
        await kept(engine, store, "a", "b")
        await store.commit([using("a", number=2), using("b", number=2)], record=Record())
        found = unrendered(engine)
        await store.commit([rendered(found[name], NEXT, NEXT_BODY) for name in found], record=Record())
        assert [await store.rendering(rows.PROJECT, name, previous=True) for name in "ab"] == [BODY, BODY]
        await store.commit([Changes(removed=[KeyRow(rows.PROJECT, KIND, "a")])], record=Record())
        assert [await store.rendering(rows.PROJECT, name, previous=True) for name in "ab"] == [None, BODY]
        row = VersionRow(rows.PROJECT, rows.KIND, "d", 1, rows.body("d", 1, "(redacted)"), None)
        await store.commit([Changes(rewritten=[row])], record=Record())
        assert await store.rendering(rows.PROJECT, "b", previous=True) is None
        await store.commit([rendered(unrendered(engine)["b"], NEXT, NEXT_BODY)], record=Record())
        assert await store.rendering(rows.PROJECT, "b", previous=True) == b""

    async def test_nothing_is_written_of_what_changed_meanwhile(self, engine: Engine, store: Store) -> None:
        await store.commit([rows.stored("d"), using("c", "d"), using("gone")], record=Record())
        found = unrendered(engine)
        gone = Changes(removed=[KeyRow(rows.PROJECT, KIND, "gone")])
        revision = await store.commit([rows.stored("d", number=2), gone], record=Record())
        after = await store.commit([rendered(found["c"]), rendered(found["gone"])], record=Record())
        assert (after, await store.rendering(rows.PROJECT, "c")) == (revision, None)
        assert await store.rendering(rows.PROJECT, "gone") is None
        assert unrendered(engine).keys() == {"c"}

    async def test_a_status_that_changed_meanwhile_is_told_again(self, engine: Engine, store: Store) -> None:
        await store.commit([using("c")], record=Record())
        found = unrendered(engine)
        other = using("c").heads[0]._replace(status=b'{"latest":true,"ready":true}')
        await store.commit([Changes(heads=[other])], record=Record())
        await store.commit([rendered(found["c"])], record=Record())
        assert await store.rendering(rows.PROJECT, "c") == BODY
        [one] = unrendered(engine).values()
        assert (one.is_said, one.said) == (1, SAID)
        await store.commit([rendered(one, body=None, before=other.status)], record=Record())
        assert unrendered(engine) == {}
        assert await store.rendering(rows.PROJECT, "c") == BODY

    async def test_it_goes_with_its_configuration_and_when_versions_are_rewritten(
        self, engine: Engine, store: Store
    ) -> None:
        await store.commit([using("a"), using("b"), rows.stored("d")], record=Record())
        await kept(engine, store, "a", "b")
        await store.commit([Changes(removed=[KeyRow(rows.PROJECT, KIND, "a")])], record=Record())
        assert await store.rendering(rows.PROJECT, "a") is None
        assert await store.rendering(rows.PROJECT, "b") == BODY
        row = VersionRow(rows.PROJECT, rows.KIND, "d", 1, rows.body("d", 1, "(redacted)"), None)
        await store.commit([Changes(rewritten=[row])], record=Record())
        assert await store.rendering(rows.PROJECT, "b") is None
        assert unrendered(engine).keys() == {"b"}

    async def test_nothing_is_in_force_that_a_rewriting_took_away_meanwhile(self, engine: Engine, store: Store) -> None:
        await store.commit([using("a"), rows.stored("d")], record=Record())
        await kept(engine, store, "a")
        await store.commit([using("a", number=2)], record=Record())
        late = rendered(unrendered(engine)["a"], FAULT, None)
        row = VersionRow(rows.PROJECT, rows.KIND, "d", 1, rows.body("d", 1, "(redacted)"), None)
        await store.commit([Changes(rewritten=[row])], record=Record())
        await store.commit([late], record=Record())
        assert await store.rendering(rows.PROJECT, "a") is None
        assert unrendered(engine).keys() == {"a"}
        await kept(engine, store, "a")
        assert await store.rendering(rows.PROJECT, "a") == BODY

    async def test_one_that_is_damaged_is_told(self, engine: Engine) -> None:
        store = engine.open()
        await store.create_project(rows.PROJECT, at=rows.AT)
        await store.commit([using("a")], record=Record())
        await kept(engine, store, "a")
        await store.close()
        engine.corrupt(BODY)
        store = engine.open()
        with pytest.raises(Damaged, match="what Collectors get of the Configuration a is damaged in the store"):
            await store.rendering(rows.PROJECT, "a")
        await store.close()

    async def test_a_damaged_one_before_is_told_and_the_one_in_force_is_served(self, engine: Engine) -> None:
        store = engine.open()
        await store.create_project(rows.PROJECT, at=rows.AT)
        await store.commit([using("a")], record=Record())
        await kept(engine, store, "a")
        await store.commit([using("a", number=2)], record=Record())
        await store.commit([rendered(unrendered(engine)["a"], NEXT, NEXT_BODY)], record=Record())
        await store.close()
        engine.corrupt(BODY)
        store = engine.open()
        with pytest.raises(Damaged, match="Configuration a is damaged in the store"):
            await store.rendering(rows.PROJECT, "a", previous=True)
        assert await store.rendering(rows.PROJECT, "a") == NEXT_BODY
        await store.close()
