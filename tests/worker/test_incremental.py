"""Whatever happens to the files, reading what changed ends where reading everything does."""

import asyncio
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.git.snapshots import Snapshot
from reconciler.store import engines
from reconciler.store.records import Changes, Record
from reconciler.store.repository_records import RepositoryRow
from reconciler.store.sqlite import SqliteStore
from reconciler.worker import commits
from reconciler.worker.messages import CommitPlanned, Context
from reconciler.worker.trees import Allowance
from tests.commit_jobs import commit_job, finished
from tests.daemons import destination
from tests.repositories import Repository

AT = "2026-01-02T03:04:05.000Z"
# The machine in tests/properties tries the same on a whole world of repositories, in every default run as well.
FEW, MANY = 8, 40
PROJECT, REPOSITORY = "default", "telemetry"

FILES = ["a.yaml", "b.yaml", "d/a.yaml", "d/e/c.yml"]
DOCUMENTS = [
    *(destination(name, text) for name in ("one", "two", "three") for text in ("", "edited")),
    destination("one").replace("type:", "typ:"),  # invalid, and known
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: one}\n",
    destination("two", labels={"service/prune": "disabled"}),
]
BROKEN = [
    "a: b: c\n",
    destination("one").replace("Destination", "Destinaton"),
    destination("").replace("name: ,", ""),
    "",
]
IGNORE_FILES = {"d/.serviceignore": [None, "a.yaml\n", "x\n" * 2_000]}

files = st.sampled_from(FILES)
contents = st.one_of(
    st.none(),
    st.lists(st.sampled_from(DOCUMENTS), min_size=1, max_size=3).map("---\n".join),
    st.sampled_from(BROKEN),
)
edits = st.builds(
    lambda documents, rules: {**documents, **rules},
    st.dictionaries(files, contents, min_size=1, max_size=3),
    st.one_of(st.just({}), st.fixed_dictionaries({path: st.sampled_from(of) for path, of in IGNORE_FILES.items()})),
)


class Reading:
    """Plans commits of a repository as the worker does, and stores what it plans."""

    def __init__(self, folder: Path, store: SqliteStore) -> None:
        self.source = Repository.init(folder / "source")
        self.store = store
        self.view = engines.open_view(str(store.path))
        self.row: RepositoryRow | None = None
        self.number = 0

    def plan(self, commit: str, *, full: bool) -> tuple[CommitPlanned, list[Changes]]:
        self.number += 1
        context = Context(
            store=str(self.store.path),
            project=PROJECT,
            hmac_key=b"k" * 32,
            api_versions=frozenset({"service/v1"}),
            at=AT,
            milliseconds=self.number,
            seed=self.number.to_bytes(16, "big"),
        )
        job = commit_job(
            context=context,
            name=REPOSITORY,
            mirror=str(self.source.path / ".git"),
            commit=commit,
            run=f"R{self.number}",
            full=full,
            prune_max_percent=100,
            prune_min_count=0,
        )
        parts: list[Changes] = []
        with Snapshot.open(Path(job.mirror), job.commit) as snapshot:
            allowance = Allowance()
            steps = commits.plan_commit(job, snapshot, self.view, emit=parts.append, allowance=allowance)
            planned = finished(steps)
        return planned, parts

    async def follow(self, commit: str) -> CommitPlanned:
        planned, parts = self.plan(commit, full=self.row is None)
        state = planned.hold or "ready"
        self.row = RepositoryRow(
            REPOSITORY, PROJECT, "fingerprint", commit, planned.tree, commit, state, planned.message, AT
        )
        record = Record(repository=self.row, forget_files_of=REPOSITORY if planned.full else None)
        await self.store.commit(parts, record=record)
        return planned

    def index(self) -> tuple[list[Any], list[Any]]:
        with closing(sqlite3.connect(self.store.path)) as connection:
            files = connection.execute("select * from source_file order by repository, path").fetchall()
            wanted = connection.execute("select * from wanted order by repository, path, position").fetchall()
        return files, wanted


@contextmanager
def reading(folder: Path) -> Iterator[Reading]:
    found = Reading(folder, SqliteStore(folder / "store.db"))
    try:
        yield found
    finally:
        found.view.close()


def write(source: Repository, edit: dict[str, str | None]) -> str:
    for path, content in edit.items():
        if content is None:
            source.remove(path)
            (source.path / path).unlink(missing_ok=True)
        else:
            source.write(path, content)
    commit = source.commit()
    source.git("repack", "--quiet", "-d")  # a snapshot reads packs, since a mirror holds nothing else
    return commit


async def check(edits: list[dict[str, str | None]]) -> None:
    with tempfile.TemporaryDirectory() as folder, reading(Path(folder)) as followed:
        await followed.store.create_project(PROJECT, at=AT)
        try:
            for edit in edits:
                commit = write(followed.source, edit)
                stored = await followed.follow(commit)
                planned, parts = followed.plan(commit, full=True)
                changed = [(part.versions, part.heads, part.removed) for part in parts]
                assert changed == [([], [], [])] * len(parts), "everything read again finds something to change"
                assert set(planned.counts) <= {"unchanged", "invalid"}
                assert (stored.hold is None, planned.hold is None) != (True, False)
                files = sorted(tuple(row) for part in parts for row in part.files)
                wanted = sorted(tuple(row) for part in parts for row in part.wanted)
                assert followed.index() == (files, wanted)
        finally:
            await followed.store.close()


@pytest.mark.parametrize("examples", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_reading_what_changed_ends_where_reading_everything_does(examples: int) -> None:
    @settings(max_examples=examples, deadline=None, database=None)
    @given(st.lists(edits, min_size=2, max_size=6))
    def holds(edits: list[dict[str, str | None]]) -> None:
        asyncio.run(check(edits))

    holds()
