"""Origins, kept once for many versions: where they come from. And what a stored version takes of the disk."""

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pygit2
import pytest

from benchmarks import corpus
from reconciler.model.values import Value
from reconciler.planner.changes import origin_row
from reconciler.store import audit
from reconciler.store.contract import Store, StoreFault
from reconciler.store.records import AuditRow, AuditWanted, Changes, OriginRow, Record, SourcePlace
from reconciler.store.sqlite import SqliteStore
from tests import worlds
from tests.store import looking
from tests.store import rows as store_rows

pytestmark = pytest.mark.anyio

MUST = 2_000  # bytes of the file for each stored version, of documents of 600 bytes
FILES = 1_000
HEADER = b"commit refs/heads/main\ncommitter Bench <bench@localhost> 1700000000 +0000\ndata 1\n.\n"
GIT: dict[str, Value] = {
    "type": "git",
    "repository": "telemetry",
    "branch": "main",
    "commit": "c" * 40,
    "date": store_rows.AT,
}


def origin(source: dict[str, Value] = GIT, **other: str | None) -> OriginRow:
    told: dict[str, str | None] = {"run": "R1", "request": None, **other}
    return origin_row(
        source,
        actor=other.get("actor") or "git:telemetry",
        created_at=store_rows.AT,
        run=told["run"],
        request=told["request"],
    )


def came(name: str, *, of: OriginRow, path: str | None = "a.yaml") -> Changes:
    """A version that came from somewhere."""
    line = None if path is None else 3
    version = store_rows.version(name)._replace(origin=of.id, path=path, line=line)
    return Changes(origins=[of], versions=[version], heads=[store_rows.head(name, path=path, line=line)])


async def source(store: Store, name: str) -> object:
    return json.loads(await store.get(store_rows.PROJECT, store_rows.key(name)) or b"")["status"]["source"]


def test_the_same_origin_has_the_same_id_and_any_other_has_another() -> None:
    others = [
        origin({**GIT, "date": "x"}),
        origin({**GIT, "type": "x"}),
        origin(run=None),
        origin(run=None, request="R1"),
        origin(actor="git:other"),
        origin(),
    ]
    assert len({row.id for row in others}) == len(others)
    assert origin(dict(reversed(GIT.items()))) == others[-1]
    assert all(0 <= row.id < 2**63 for row in others)


async def test_many_versions_share_one_origin_and_each_shows_its_place(store: Store, tmp_path: Path) -> None:
    parts = [came("a", of=origin()), came("b", of=origin(), path="b.yaml"), came("c", of=origin(), path=None)]
    await store.commit(parts, record=Record())
    await store.commit([came("d", of=origin())], record=Record())
    assert [await source(store, name) for name in "abcd"] == [
        GIT | {"path": "a.yaml", "line": 3},
        GIT | {"path": "b.yaml", "line": 3},
        GIT,
        GIT | {"path": "a.yaml", "line": 3},
    ]
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        assert connection.execute("select count(*) from origin").fetchone() == (1,)


@pytest.mark.parametrize(
    ("other", "place", "expected"),
    [
        (None, None, GIT | {"path": "a.yaml", "line": 3}),
        (None, SourcePlace.OWN, GIT | {"path": "b.yaml", "line": 7}),
        (None, SourcePlace.NONE, GIT),
        ("next", None, GIT | {"branch": "next", "path": "a.yaml", "line": 3}),
        ("next", SourcePlace.OWN, GIT | {"branch": "next", "path": "b.yaml", "line": 7}),
        ("next", SourcePlace.NONE, GIT | {"branch": "next"}),
    ],
)
async def test_a_status_shows_the_source_of_its_version_but_for_what_differs(
    store: Store, other: str | None, place: SourcePlace | None, expected: object
) -> None:
    await store.commit([came("a", of=origin())], record=Record())
    row = None if other is None else origin({**GIT, "branch": other})
    head = store_rows.head("a", path="b.yaml", line=7)._replace(origin=None if row is None else row.id, place=place)
    part = Changes(origins=[] if row is None else [row], heads=[head])
    await store.commit([part], record=Record())
    [listed] = await looking.listed(store)
    [version] = await looking.history(store, store_rows.key("a"))
    assert await source(store, "a") == listed["status"]["source"] == version["status"]["source"] == expected
    await store.commit([store_rows.removed("a")], record=Record())
    [version] = await looking.history(store, store_rows.key("a"))
    assert version["status"] == {"source": GIT | {"path": "a.yaml", "line": 3}}


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(came("b", of=origin()._replace(tail=b"}")), id="another of the same id"),
        pytest.param(Changes(versions=came("b", of=origin(run="R2")).versions), id="a version of an unknown one"),
    ],
)
async def test_what_would_show_a_wrong_source_is_a_fault_and_nothing_is_kept(store: Store, part: Changes) -> None:
    await store.commit([came("a", of=origin())], record=Record())
    seen = await looking.everything(store)
    with pytest.raises(StoreFault):
        await store.commit([came("c", of=origin(run="R3")), part], record=Record())
    assert await looking.everything(store) == seen


async def test_the_audit_tells_of_a_change_who_made_it_and_when(store: Store, tmp_path: Path) -> None:
    made = ("created", store_rows.KIND, "a", None, 1, "R1")
    change = AuditRow(store_rows.AT, store_rows.PROJECT, "git:telemetry", *made)
    part = Changes(origins=[origin()], audit=[change, store_rows.audit("b")])
    await store.commit([part], record=Record())
    pages = store.event_pages(AuditWanted(), limit=10, documents=False)
    other, told = [json.loads(one) async for page in pages for one in page]
    assert (told["at"], told["actor"], told["name"], told["run"]) == (store_rows.AT, "git:telemetry", "a", "R1")
    assert (other["at"], other["actor"], other["name"], other["request"]) == (
        store_rows.AT,
        "key:test",
        "b",
        "a request",
    )
    assert audit.verify(tmp_path / "store.db").events == 2


@pytest.fixture
def world(tmp_path: Path) -> Iterator[worlds.World]:
    with worlds.world({"a": worlds.Following()}) as opened:
        opened.mirrors["a"].path = tmp_path / "corpus.git"
        corpus.empty(opened.mirrors["a"].path)
        yield opened


def push(world: worlds.World, *, kept: str) -> None:
    """A head that holds the benchmarks' corpus, every document changed by a word."""
    seeded = random.Random(1)  # noqa: S311 - a reproducible corpus, no secret
    texts = {corpus.path(number): corpus.document(number, seeded) for number in range(FILES)}
    assert 400 * FILES < sum(map(len, texts.values())) < 800 * FILES
    files = b"".join(corpus.written(path, text.replace("kept for", kept)) for path, text in texts.items())
    mirror = world.mirrors["a"].path
    parent = b"from refs/heads/main^0\n" if "a" in world.heads else b""
    corpus.imported(mirror, HEADER + parent + files)
    world.heads["a"] = str(pygit2.Repository(str(mirror)).references["refs/heads/main"].target)
    world.due.add("a")


def size(path: Path) -> int:
    """The bytes of the store's file, its log emptied into it."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma wal_checkpoint(truncate)").fetchone()[0] == 0
    return path.stat().st_size


async def test_a_stored_version_takes_less_than_two_kilobytes(world: worlds.World) -> None:
    empty = size(Path(world.address))
    push(world, kept="kept for")
    ran = world.plan("a", full=True)
    store = SqliteStore(Path(world.address))
    await store.commit(ran.parts, record=Record(run=store_rows.run("R1"), forget_files_of="a"))
    await store.close()
    assert (size(Path(world.address)) - empty) / FILES < MUST
    push(world, kept="held for")
    world.settle()
    assert world.all("select count(*) as versions from version") == [{"versions": 2 * FILES}]
    assert (size(Path(world.address)) - empty) / (2 * FILES) < 0.85 * MUST
