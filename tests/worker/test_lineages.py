"""Lineage that is searched for in the background."""

import itertools
import json
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from reconciler.git.snapshots import Snapshot
from reconciler.model.values import Value
from reconciler.store import engines
from reconciler.store.records import Changes, Record, SourcePlace
from reconciler.store.sqlite import SqliteStore
from reconciler.worker import commits as commit_jobs
from reconciler.worker.messages import Context, LineageFound, LineageJob
from tests import worlds
from tests.repositories import Repository
from tests.store import looking, rows

pytestmark = pytest.mark.anyio

AUTHOR = "Ada Lovelace <ada@example.com>"
FIRST_DATE = "2023-11-14T22:14:20.000Z"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.init(tmp_path / "origin")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "store.db")
    await opened.create_project(rows.PROJECT, at=rows.AT)
    yield opened
    await opened.close()


def source(commit: str, repository: str = "telemetry") -> dict[str, Value]:
    return {"type": "git", "repository": repository, "commit": commit}


def shown(commit: str, path: str, repository: str = "telemetry") -> dict[str, Any]:
    """Return what a reader gets of a source that has a place."""
    return {**source(commit, repository), "path": path, "line": 1}


def came(
    name: str, told: dict[str, Value], path: str, *, now: dict[str, Value] | None = None, moved: str | None = None
) -> Changes:
    """A resource whose version is of one source, and its status perhaps of another, or of another place."""
    of_version, of_status = rows.origin(source=told), rows.origin(source=now or told)
    head = rows.head(name, owner="telemetry", path=moved or path, line=1)
    if now is not None:
        head = head._replace(origin=of_status.id)
    if moved is not None:
        head = head._replace(place=SourcePlace.OWN)
    version = rows.version(name)._replace(origin=of_version.id, path=path, line=1)
    return Changes(origins=[of_version, of_status], versions=[version], heads=[head])


def explain(store: SqliteStore, repository: Repository) -> tuple[LineageFound, list[Changes]]:
    """Return what a search answers, and the parts that it sends."""
    context = Context(str(store.path), rows.PROJECT, b"", frozenset(), rows.AT, 0, b"")
    job = LineageJob(context=context, repository="telemetry", mirror=str(repository.path / ".git"))
    sent: list[Changes] = []
    view = engines.open_view(str(store.path))
    found = commit_jobs.explain_lineage(job, view, emit=sent.append)
    view.close()
    return found, sent


def named(parts: list[Changes]) -> list[str]:
    """The resources that are explained."""
    return [row.name for part in parts for row in part.lineages]


def written(repository: Repository, *paths: str) -> dict[str, str]:
    """A commit for each path."""
    commits = {}
    for path in paths:
        repository.write(path, path)
        commits[path] = repository.commit()
    repository.pack()
    return commits


async def told(store: SqliteStore) -> dict[str, Any]:
    """Return what the statuses say of where each resource comes from."""
    return {one["metadata"]["name"]: one["status"]["source"] for one in await looking.listed(store)}


async def test_is_of_the_file_in_the_commit_that_was_read(store: SqliteStore, repository: Repository) -> None:
    commits = written(repository, "a.yaml", "b.yaml")
    head = repository.head()
    parts = [
        came("a", source(head), "a.yaml"),
        came("moved", source(head), "b.yaml", moved="elsewhere.yaml"),
        came("adopted", source(head, "other"), "gone.yaml", now=source(head), moved="a.yaml"),
        came("absent", source(head), "absent.yaml"),
    ]
    await store.commit(parts, record=Record())
    found, sent = explain(store, repository)
    assert found == LineageFound(explained=3)
    await store.commit(sent, record=Record())

    def changed_by(path: str, date: str) -> dict[str, Any]:
        return {"changedBy": {"author": AUTHOR, "commit": commits[path], "date": date}}

    of_a = changed_by("a.yaml", FIRST_DATE)
    of_b = changed_by("b.yaml", "2023-11-14T22:15:20.000Z")
    assert await told(store) == {
        "a": shown(head, "a.yaml") | of_a,
        "absent": shown(head, "absent.yaml"),
        "adopted": shown(head, "a.yaml") | of_a,
        "moved": shown(head, "elsewhere.yaml") | of_b,
    }
    versions = {one: (await looking.history(store, rows.key(one)))[0] for one in ("a", "moved", "adopted")}
    await store.commit([rows.removed("a", "moved", "adopted")], record=Record())
    history = {one: (await looking.history(store, rows.key(one)))[0]["status"]["source"] for one in versions}
    assert history == {
        "a": shown(head, "a.yaml") | of_a,
        "adopted": shown(head, "gone.yaml", "other"),
        "moved": shown(head, "b.yaml") | of_b,
    }
    assert explain(store, repository) == (LineageFound(explained=0), [])


async def test_a_commit_that_the_mirror_has_lost_hinders_no_other(store: SqliteStore, repository: Repository) -> None:
    commits = written(repository, "a.yaml")
    parts = [came("a", source("1" * 40), "a.yaml"), came("b", source(commits["a.yaml"]), "a.yaml")]
    await store.commit(parts, record=Record())
    found, sent = explain(store, repository)
    assert (found.explained, named(sent)) == (1, ["b"])


async def test_many_are_explained_some_at_a_time(
    store: SqliteStore, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_jobs, "MOST_EXPLAINED", 2)
    commits = written(repository, "a.yaml")
    parts = [came(name, source(commits["a.yaml"]), "a.yaml") for name in "abc"]
    await store.commit(parts, record=Record())
    answers = []
    for _ in range(3):
        found, sent = explain(store, repository)
        answers.append((found, named(sent)))
        await store.commit(sent, record=Record())
    assert answers == [(LineageFound(2), ["a", "b"]), (LineageFound(1), ["c"]), (LineageFound(0), [])]


async def test_a_search_ends_after_a_time(
    store: SqliteStore, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = written(repository, "a.yaml", "b.yaml")
    await store.commit([came("a", source(commits["b.yaml"]), "a.yaml")], record=Record())
    monkeypatch.setattr(commit_jobs, "BACKGROUND_SECONDS", 0.0)
    assert explain(store, repository) == (LineageFound(explained=0), [])


async def test_what_was_found_in_that_time_is_told_and_the_next_search_finds_the_rest(
    store: SqliteStore, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = written(repository, "a.yaml", "b.yaml")["b.yaml"]
    parts = [came("a", source(head), "a.yaml"), came("b", source(head), "b.yaml")]
    await store.commit(parts, record=Record())
    # Before the walk, and before the step that finds the newer file, there is time.
    instants = itertools.chain([0.0, 0.0, 0.0], itertools.repeat(commit_jobs.BACKGROUND_SECONDS))
    monkeypatch.setattr(time, "monotonic", lambda: next(instants))
    found, sent = explain(store, repository)
    monkeypatch.undo()
    assert (found, named(sent)) == (LineageFound(explained=1), ["b"])
    await store.commit(sent, record=Record())
    found, sent = explain(store, repository)
    assert (found, named(sent)) == (LineageFound(explained=1), ["a"])


@pytest.mark.parametrize(("is_first", "limit"), [(True, "FIRST_SECONDS"), (False, "RUN_SECONDS")])
def test_a_run_searches_for_a_moment_only(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, is_first: bool, limit: str
) -> None:
    commits = written(repository, "a.yaml", "b.yaml")
    with Snapshot.open(repository.path / ".git", commits["b.yaml"]) as snapshot:
        monkeypatch.setattr(commit_jobs, limit, 60.0)
        assert commit_jobs.lineage_of_run(snapshot, ["a.yaml"], is_first=is_first) == {
            "a.yaml": {"author": AUTHOR, "commit": commits["a.yaml"], "date": FIRST_DATE}
        }
        monkeypatch.setattr(commit_jobs, limit, 0.0)
        assert commit_jobs.lineage_of_run(snapshot, ["a.yaml"], is_first=is_first) == {}


def test_a_plan_is_made_again_when_the_store_moves_while_its_run_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = {"apiVersion": "service/v1", "kind": "Fleet", "metadata": {"name": "edge"}, "spec": {}}
    search = commit_jobs.lineage_of_run

    def slow(snapshot: Snapshot, paths: Iterable[str], *, is_first: bool) -> dict[str, Value]:
        found = search(snapshot, paths, is_first=is_first)
        assert world.apply([resource]).statuses == ["created"]
        return found

    with worlds.world({"a": worlds.Following()}) as world:
        world.push("a", {"edge.json": json.dumps(resource)})
        monkeypatch.setattr(commit_jobs, "lineage_of_run", slow)
        ran = world.look("a")
        assert ran is not None
        assert ran.planned.counts == {"unchanged": 1}
        [stored] = world.stored()
        assert (stored["version"], stored["owner"]) == (1, "a")
        assert json.loads(stored["head"] + stored["tail"])["changedBy"]["commit"]
