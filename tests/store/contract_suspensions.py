"""Promises of a store about suspensions: one a repository, kept until it ends; and of what drifts meanwhile."""

import json
from dataclasses import replace

import pytest

from reconciler.store.contract import Store
from reconciler.store.records import Changes, Record
from reconciler.store.repository_records import SuspensionRow
from tests.store import rows
from tests.store.engines import Engine

LATER = "2026-11-21T08:12:00.000Z"


def suspension(
    repository: str = "telemetry", *, reason: str = "the edge drops logs", until: str | None = None
) -> Record:
    row = SuspensionRow(repository=repository, reason=reason, actor="key:test", since=rows.AT, until=until)
    return Record(suspension=row)


def drifted(name: str, number: int = 2) -> Changes:
    """A version that the API stores of what the repository owns."""
    head = rows.head(name, number, owner="telemetry", path=f"{name}.yaml", line=1)
    status = json.dumps(json.loads(head.status) | {"drift": {"repository": "telemetry"}}).encode()
    part = rows.stored(name, number=number)
    return replace(part, heads=[head._replace(status=status, drifted=1)], audit=[])


async def own(store: Store, *names: str) -> None:
    """Let the repository apply these."""
    parts = [
        Changes(
            origins=[rows.origin()],
            versions=[rows.version(name)],
            heads=[rows.head(name, owner="telemetry", path=f"{name}.yaml", line=1)],
            wanted=[rows.wanted(f"{name}.yaml", name)],
        )
        for name in names
    ]
    await store.commit(parts, record=Record(repository=rows.repository()))


class SuspensionPromises:
    """Suspending."""

    pytestmark = pytest.mark.anyio

    async def test_a_suspension_is_kept_until_it_ends(self, engine: Engine, store: Store) -> None:
        await store.commit((), record=suspension(until=LATER))
        await store.commit((), record=suspension("other"))
        again = engine.open()
        assert (await again.remembered("telemetry", held=0)).suspension == suspension(until=LATER).suspension
        await again.commit((), record=Record(resume="telemetry"))
        assert (await again.remembered("telemetry", held=0)).suspension is None
        assert (await again.remembered("other", held=0)).suspension == suspension("other").suspension
        await again.close()

    async def test_a_second_suspension_takes_the_place_of_the_first(self, store: Store) -> None:
        await store.commit((), record=suspension(until=LATER))
        second = suspension(reason="the edge still drops logs")
        await store.commit((), record=second)
        assert (await store.remembered("telemetry", held=0)).suspension == second.suspension

    async def test_what_suspends_or_resumes_moves_the_store_for_whoever_plans(self, store: Store) -> None:
        assert await store.commit((), record=suspension()) == 1
        assert await store.commit((), record=Record(resume="telemetry")) == 2

    @pytest.mark.parametrize(
        ("at", "expected"),
        [
            ("2026-11-21T08:11:59.999Z", {"until", "ever"}),
            (LATER, {"ever"}),
            ("2026-11-21T08:12:00.001Z", {"ever"}),
        ],
    )
    async def test_a_plan_sees_the_suspensions_that_last_beyond_its_instant(
        self, engine: Engine, store: Store, at: str, expected: set[str]
    ) -> None:
        await store.commit((), record=suspension("ever"))
        await store.commit((), record=suspension("until", until=LATER))
        view = engine.view()
        with view.snapshot():
            assert view.suspended(at) == expected
        view.close()

    async def test_what_was_changed_or_deleted_since_the_head_was_applied_is_drift(self, store: Store) -> None:
        await own(store, "a", "b", "c", "d")
        assert await store.drift("telemetry", project=rows.PROJECT) == 0
        await store.commit([drifted("a"), rows.removed("b")], record=Record())
        assert await store.drift("telemetry", project=rows.PROJECT) == 2
        await store.commit([rows.stored("b", number=2)], record=Record())  # made anew, by the API
        assert await store.drift("telemetry", project=rows.PROJECT) == 2
        assert await store.drift("other", project=rows.PROJECT) == 0

    async def test_what_is_as_the_head_wants_it_again_is_no_drift(self, store: Store) -> None:
        await own(store, "a")
        head = drifted("a").heads[0]
        again = replace(drifted("a"), heads=[head._replace(digest=rows.digest("a", 1))])
        await store.commit([again], record=Record())
        assert await store.drift("telemetry", project=rows.PROJECT) == 0

    async def test_what_was_never_stored_as_the_head_wants_it_is_drift_only_when_it_is_changed(
        self, store: Store
    ) -> None:
        await own(store, "a")
        refused = [rows.wanted("bad.yaml", name, position=at, unconverged="refused") for at, name in enumerate("ab")]
        files = [("telemetry", "a.yaml")]
        await store.commit([Changes(forgotten_files=files), Changes(wanted=refused)], record=Record())
        assert await store.drift("telemetry", project=rows.PROJECT) == 0
        await store.commit([drifted("a")], record=Record())
        assert await store.drift("telemetry", project=rows.PROJECT) == 1

    async def test_what_the_head_does_not_hold_and_is_owned_all_the_same_is_drift_when_it_is_changed(
        self, store: Store
    ) -> None:
        await own(store, "a")
        forgotten = Changes(forgotten_files=[("telemetry", "a.yaml")])
        await store.commit([forgotten], record=Record())
        assert await store.drift("telemetry", project=rows.PROJECT) == 0
        await store.commit([drifted("a")], record=Record())
        assert await store.drift("telemetry", project=rows.PROJECT) == 1

    async def test_a_plan_sees_what_the_head_wants_and_what_has_drifted(self, engine: Engine, store: Store) -> None:
        await own(store, "a", "b")
        await store.commit([drifted("a")], record=Record())
        view = engine.view()
        keys = [rows.key(name) for name in "abc"]
        with view.snapshot():
            wanted = {row.key: row.digest for row in view.wanted_of("telemetry", keys)}
            assert wanted == {rows.key(name): rows.digest(name, 1) for name in "ab"}
            stored = view.stored(rows.PROJECT, keys)
        view.close()
        assert {key.name: (one.owner, one.path, one.drifted) for key, one in stored.items()} == {
            "a": ("telemetry", "a.yaml", True),
            "b": ("telemetry", "b.yaml", False),
        }

    async def test_what_a_released_repository_leaves_has_not_drifted(self, engine: Engine, store: Store) -> None:
        await own(store, "a")
        await store.commit([drifted("a")], record=Record())
        await store.commit((), record=Record(release_repository="telemetry"))
        shown = json.loads(await store.get(rows.PROJECT, rows.key("a")) or b"")
        view = engine.view()
        with view.snapshot():
            stored = view.stored(rows.PROJECT, [rows.key("a")])[rows.key("a")]
        view.close()
        assert ("drift" in shown["status"], stored.owner, stored.drifted) == (False, None, False)
