"""Whatever is written ahead or dropped, the store reads as if the same changes had been committed the ordinary way."""

import asyncio
import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.store import database, writing_ahead
from reconciler.store.contract import Changes, Moved, Record, RewrittenRow, SuspensionRow
from reconciler.store.planning_view import PlanningView
from reconciler.store.sqlite import SqliteStore
from tests.store import looking, rows

NAMES = ("a", "b", "c")
BETWEEN = ("x", "y")  # of small commits while another change is written ahead
PATHS = ("1.yaml", "2.yaml", "dir/3.yaml")
OWNER, OTHER = "telemetry", "other"
# Every view, without what counts the rows and not what they say. Statuses are seen with their run.
DUMPS = (
    "select project, kind, name, version, origin, path, line, secrets, body from version order by 1, 2, 3, 4",
    "select project, kind, name, version, resource_id, digest, owner, path, line, protected, incomplete, drifted,"
    " origin, place, status from resource order by 1, 2, 3",
    "select * from reference order by 1, 2, 3, 4, 5",
    "select * from source_file order by 1, 2",
    "select * from wanted order by 1, 2, 3",
    "select * from held order by 1, 2, 3, 4",
    "select at, project, actor, action, kind, name, version_before, version_after from audit order by 1, 4, 6, 8",
    "select s.* from run_status s join run r on r.id = s.run order by 1, 2",
    "select repository, at, owned, deleted from prune_ledger order by 1, 2",
)
LEFT_BEHIND = (
    "select (select count(*) from version_row) - (select count(*) from version)",
    "select (select count(*) from resource_row) - (select count(*) from resource)",
    "select (select count(*) from reference_row) - (select count(*) from reference)",
    "select (select count(*) from source_file_row) - (select count(*) from source_file)",
    "select (select count(*) from wanted_row) - (select count(*) from wanted)",
    "select (select count(*) from held_row) - (select count(*) from held)",
    "select (select count(*) from audit_row) - (select count(*) from audit)",
    "select count(*) from run_status where run not in (select id from run)",
    "select count(*) from staged",
)

Step: TypeAlias = tuple[str, tuple[str, ...], tuple[str, ...]]

names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True).map(tuple)
paths = st.lists(st.sampled_from(PATHS), min_size=1, max_size=3, unique=True).map(tuple)
steps = st.lists(
    st.tuples(
        st.sampled_from(
            ("store", "store", "remove", "move", "restate", "rewrite", "read", "forget", "hold", "prune", "tell")
        ),
        names,
        paths,
    ),
    min_size=1,
    max_size=6,
)
commits = st.lists(
    st.tuples(
        st.sampled_from(("ordinary", "ahead", "between", "another", "dropped", "overtaken")), st.booleans(), steps
    ),
    min_size=1,
    max_size=5,
)


EVERYTHING = Record(suspension=SuspensionRow(OTHER, "why", "key:test", rows.AT, None))  # what it touches


@dataclass
class Model:
    """What the next change may build upon."""

    versions: dict[str, int] = field(default_factory=dict)
    present: set[str] = field(default_factory=set)

    def copy(self) -> "Model":
        return Model(dict(self.versions), set(self.present))

    def part(self, step: Step, *, run: str, ordinal: int, whole: bool) -> Changes:
        """One step as a part; whatever cannot be is left out."""
        what, names, paths = step
        there = [name for name in names if name in self.present]
        if what == "store":
            return self._stored(names)
        if what == "remove":
            self.present -= set(there)
            return rows.removed(*there)
        if what == "move":
            moved = (rows.head(name, self.versions[name], owner=OWNER, path=paths[0], line=1) for name in there)
            return Changes(heads=tuple(moved))
        if what == "restate":
            return Changes(head_statuses=tuple(rows.head_status(name, *paths) for name in there))
        if what == "rewrite":
            return Changes(rewritten=tuple(self._rewritten(name) for name in there))
        return of_repository(step, run=run, ordinal=ordinal, whole=whole)

    def _stored(self, names: tuple[str, ...]) -> Changes:
        parts = []
        for name in names:
            number = self.versions[name] = self.versions.get(name, 0) + 1
            self.present.add(name)
            targets = NAMES[: number % 3]
            parts.append(rows.referring(name, *targets, number=number))
        return replace(
            parts[0],
            origins=tuple(row for part in parts for row in part.origins),
            versions=tuple(row for part in parts for row in part.versions),
            references=tuple(row for part in parts for row in part.references),
            heads=tuple(row for part in parts for row in part.heads),
            changed=tuple(row for part in parts for row in part.changed),
            audit=tuple(row for part in parts for row in part.audit),
        )

    def _rewritten(self, name: str) -> RewrittenRow:
        number = self.versions[name]
        return RewrittenRow(rows.PROJECT, rows.KIND, name, number, rows.body(name, number, "masked"), None)


def of_repository(step: Step, *, run: str, ordinal: int, whole: bool) -> Changes:
    """What a step says of a repository or its run."""
    what, names, paths = step
    if what == "read":
        wanted = (rows.wanted(path, name, position=at) for path in paths for at, name in enumerate(names))
        files = tuple(rows.file(path, vacant="empty" if len(names) > 2 else None) for path in paths)
        return Changes(files=files, wanted=tuple(wanted), whole_index=whole)
    if what == "forget":
        return Changes(forgotten_files=tuple((OWNER, path) for path in paths), whole_index=whole)
    if what == "hold":
        return rows.held(*names)
    if what == "prune":
        return rows.pruned(ordinal)
    return Changes(statuses=(rows.run_status(run, ordinal),))


def dump(path: Path) -> list[object]:
    """All that is read of a store."""
    with contextlib.closing(database.open_reader(path)) as reader:
        seen: list[object] = [reader.execute(sql).fetchall() for sql in DUMPS]
    view = PlanningView.open(path)
    keys = [rows.key(name) for name in (*NAMES, *BETWEEN)]
    ids = [f"id-{key.name}" for key in keys]
    with view.snapshot():
        seen += [
            view.stored(rows.PROJECT, keys),
            view.last_versions(rows.PROJECT, keys),
            view.bodies(rows.PROJECT, keys),
        ]
        seen += [
            view.referrers(rows.PROJECT, keys),
            view.taken_ids(rows.PROJECT, ids),
            view.identities(rows.PROJECT, keys),
        ]
        seen += [view.owned(OWNER, rows.PROJECT), view.owned_count(OWNER, rows.PROJECT)]
        seen += [view.owned_unwanted(OWNER, rows.PROJECT), view.standing_at(OWNER, rows.PROJECT, [*PATHS, "dir"])]
        seen += [view.index(OWNER), view.wanted_count(OWNER), view.wanted_in(OWNER, PATHS), view.blobs(OWNER, PATHS)]
        seen += [view.paths_wanting(OWNER, keys), view.places_of(OWNER, keys), view.unconverged(OWNER)]
        seen += [view.wanted_digests(OWNER, keys), view.wanted_at(OWNER, [*PATHS, "dir"]), view.vacant_files(OWNER)]
        seen += [view.stays(OWNER), view.pruned_since(OWNER, -1), list(view.versions_of(rows.PROJECT, keys[0]))]
    view.close()
    return seen


async def shown(store: SqliteStore) -> list[object]:
    """The same, and what the API reads."""
    everything = await looking.everything(store)
    everything.pop("revision")
    singles = [await store.get(rows.PROJECT, rows.key(name)) for name in (*NAMES, *BETWEEN)]
    waits, drift = await store.waits_for_store(OWNER), await store.drift(OWNER, project=rows.PROJECT)
    return [everything, singles, waits, drift, await store.held(OWNER, limit=9), *dump(store.path)]


async def swept(store: SqliteStore) -> None:
    """Take away what does not count; then nothing is left of it."""
    await asyncio.get_running_loop().run_in_executor(
        store._thread, lambda: list(writing_ahead.sweep_everything(store._writer))
    )
    with contextlib.closing(database.open_reader(store.path)) as reader:
        left = [reader.execute(sql).fetchone()[0] for sql in LEFT_BEHIND]
    assert left == [0] * len(left)


def small(number: int, model: dict[str, int]) -> Changes:
    """A commit that touches nothing of what the others do."""
    name = BETWEEN[number % 2]
    model[name] = model.get(name, 0) + 1
    return rows.stored(name, number=model[name])


def of_another(number: int, model: dict[str, int]) -> Changes:
    """A commit of another repository, with resources of its own."""
    part = small(number, model)
    [version] = part.versions
    path = f"{version.name}.yaml"
    wanted = rows.wanted(path, version.name, repository=OTHER, unconverged="waiting")
    return replace(part, files=(rows.file(path, repository=OTHER),), wanted=(wanted,))


async def compare(folder: Path, changes: list[tuple[str, bool, list[Step]]]) -> None:
    ordinary, staging = (SqliteStore(folder / f"{name}.db") for name in ("ordinary", "staging"))
    both = (ordinary, staging)
    for store in both:
        await store.create_project(rows.PROJECT, at=rows.AT)
    model, others = Model(), dict[str, int]()
    for number, (how, whole, told) in enumerate(changes):
        run = f"R{number}"
        planned = model.copy()
        parts = [planned.part(one, run=run, ordinal=at, whole=whole) for at, one in enumerate(told)]
        is_indexed = any(part.whole_index for part in parts)
        record = Record(
            run=rows.run(run),
            repository=rows.repository(),
            forget_files_of=OWNER if is_indexed else None,
            forget_held_of=OWNER if whole else None,
        )
        commits_between = {"between": small, "another": of_another, "overtaken": small}
        between = [commits_between[how](number, others)] if how in commits_between else []
        beside = EVERYTHING if how == "overtaken" else Record(repository=rows.repository(OTHER))
        for part in between:
            await ordinary.commit([part], record=beside, planned_at=None)
        if how not in ("dropped", "overtaken"):
            await ordinary.commit(parts, record=record, planned_at=None)
            model = planned
        await write(staging, how, parts, between, record=record, beside=beside)
        assert await shown(staging) == await shown(ordinary)
        if whole:
            await swept(staging)
    for store in both:
        await swept(store)
    assert await shown(staging) == await shown(ordinary)
    for store in both:
        await store.close()


async def write(
    store: SqliteStore, how: str, parts: list[Changes], between: list[Changes], *, record: Record, beside: Record
) -> None:
    if how == "ordinary":
        await store.commit(parts, record=record, planned_at=None)
        return
    ahead = store.ahead()
    assert ahead is not None
    half = len(parts) // 2
    await ahead.write(parts[:half])
    for part in between:
        await store.commit([part], record=beside, planned_at=None)
    if how == "dropped":
        await ahead.write(parts[half:])
        await ahead.drop()
    else:
        last = len(parts) - 1
        await ahead.write(parts[half:last])
        outcome = pytest.raises(Moved) if how == "overtaken" else contextlib.nullcontext()
        with outcome:
            await store.commit(parts[max(half, last) :], record=record, planned_at=None, ahead=ahead)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@settings(max_examples=8)
@given(commits)
def test_writing_ahead_makes_the_same_state(changes: list[tuple[str, bool, list[Step]]]) -> None:
    with folder() as place:
        asyncio.run(compare(place, changes))


@pytest.mark.slow
@settings(max_examples=200)
@given(commits)
def test_writing_ahead_makes_the_same_state_of_many(changes: list[tuple[str, bool, list[Step]]]) -> None:
    with folder() as place:
        asyncio.run(compare(place, changes))
