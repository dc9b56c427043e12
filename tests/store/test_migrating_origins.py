"""A store of the time when each version and each status had its source whole: every answer is the same afterwards."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from reconciler.model import values
from reconciler.model.values import Value
from reconciler.store import database, engines
from reconciler.store.records import Record
from reconciler.store.sqlite import SqliteStore
from tests.store import looking, rows

pytestmark = pytest.mark.anyio

WHOLE = 2  # the last step of that time
CHANGED_BY: Value = {"author": 'Ada ",\\"repository\\":" <ada@example.com>', "commit": "d" * 40, "date": rows.AT}
API: dict[str, Value] = {"type": "api", "actor": 'key:",\\"type\\":"', "date": rows.AT}


def git(path: str, line: int = 1, *, repository: str = "telemetry", known: bool = False) -> dict[str, Value]:
    """The source of what a repository stored."""
    told: dict[str, Value] = {
        "type": "git",
        "repository": repository,
        "branch": "main",
        "commit": "c" * 40,
        "author": "Zoë, \\ \"type\": 'x' %s 😀",
        "date": rows.AT,
        "path": path,
        "line": line,
    }
    return told | {"changedBy": CHANGED_BY} if known else told


NOWHERE = {name: told for name, told in git("a.yaml").items() if name not in {"path", "line"}}


class Old(NamedTuple):
    """A stored version as it was, and the head of it, if it is the present one: whose, where, and its status."""

    name: str
    number: int
    source: dict[str, Value]
    status: dict[str, Value] | None = None
    owner: str | None = None
    path: str | None = None
    line: int | None = None
    run: str | None = None


def present(source: dict[str, Value], **more: Value) -> dict[str, Value]:
    return {**more, "latest": True, "source": source}


WEIRD = 'a "quoted" \\ \t\x01 %s é😀\u2028.yaml'
STORED = [
    Old("fresh", 1, git("a.yaml"), present(git("a.yaml")), "telemetry", "a.yaml", 1, "R1"),
    Old("second", 1, git("a.yaml", 9), present(git("a.yaml", 9)), "telemetry", "a.yaml", 9, "R1"),
    Old("known", 1, git("b.yaml", known=True), present(git("b.yaml", known=True)), "telemetry", "b.yaml", 1, "R1"),
    Old("weird", 1, git(WEIRD, 7), present(git(WEIRD, 7)), "telemetry", WEIRD, 7, "R1"),
    Old("older", 1, API),
    Old(
        "older", 2, git("a.yaml"), present(git("a.yaml"), incomplete=["x"], ready=False), "telemetry", "a.yaml", 1, "R2"
    ),
    Old("gone", 1, git("gone.yaml"), run="R1"),
    Old("requested", 1, API, present(API)),
    Old("moved", 1, git("a.yaml", 3), present(git("z.yaml", 3)), "telemetry", "z.yaml", 3, "R1"),
    Old("down", 1, git("a.yaml", 3, known=True), present(git("a.yaml", 4, known=True)), "telemetry", "a.yaml", 4, "R1"),
    Old("adopted", 1, API, present(git("a.yaml", 5)), "telemetry", "a.yaml", 5),
    Old("again", 1, API, present(git("a.yaml", 6)), "telemetry", "a.yaml", 6),
    Old("handed", 1, git("a.yaml"), present(git("a.yaml", repository="other")), "other", "a.yaml", 1, "R1"),
    Old(
        "drifted",
        1,
        API,
        present(API, drift={"repository": "telemetry", "path": "a.yaml", "line": 8}),
        "telemetry",
        "a.yaml",
        8,
    ),
    Old("released", 1, git("a.yaml"), present(NOWHERE), run="R1"),
]


def insert(connection: sqlite3.Connection, old: Old) -> None:
    digest, identifier = rows.digest(old.name, old.number), f"id-{old.name}"
    key = (rows.PROJECT, rows.KIND, old.name, old.number, identifier, digest)
    request = "a request" if old.run is None else None
    body, source = rows.sound_body(old.name, old.number), values.canonical_json(old.source)
    version = (*key, body, b"{}" if old.name == "weird" else None, source, "key:test", old.run, request, rows.AT)
    connection.execute(f"insert into version values (null, {', '.join('?' * len(version))})", version)  # noqa: S608
    if old.status is not None:
        status = values.canonical_json(old.status)
        drifted = int("drift" in old.status)
        head = (*key, old.owner, old.path, old.line, 0, int("incomplete" in old.status), status, drifted)
        connection.execute(f"insert into resource values ({', '.join('?' * len(head))})", head)  # noqa: S608


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store as that version of the product left it."""
    made = tmp_path / "store.db"
    with closing(database.open_writer(made)) as connection:
        database.migrate(connection, steps=database.migrations()[:WHOLE])
        connection.execute("insert into project values (?, ?)", (rows.PROJECT, rows.AT))
        for old in STORED:
            insert(connection, old)
        connection.execute(
            "insert into audit values (null, 'at', 'p', 'who', 'did', 'k', 'n', 1, 2, 'R1', null, 'why')"
        )
    return made


def answers(path: Path) -> dict[str, Any]:
    """The view of a reader of the store as it was: a body, and behind it the status, or an older version's source."""
    with closing(sqlite3.connect(path)) as connection:
        shown = "select v.name, v.body, v.source, r.status from version v left join resource r using (name, version)"
        found = connection.execute(f"{shown} order by v.name, v.version desc").fetchall()
        audit = [(*row, None) for row in connection.execute("select * from audit")]  # no address was known
    history: dict[str, list[bytes]] = {}
    for name, body, source, status in found:
        told = status or b'{"source":%b}' % source
        history.setdefault(name, []).append(b'%b,"status":%b}' % (body[:-1], told))
    gets = {name: history[name][0] for name, _, _, status in found if status is not None}
    return {"history": history, "get": gets, "list": list(gets.values()), "audit": audit}


async def seen(store: SqliteStore) -> dict[str, Any]:
    """The same of the store as it is."""
    keys = [rows.key(name) for name in sorted({old.name for old in STORED})]
    gets = {key.name: await store.get(rows.PROJECT, key) for key in keys}
    with closing(database.open_reader(store.path)) as connection:
        audit = connection.execute(
            "select id, at, project, actor, action, kind, name, version_before, version_after, run, request, detail, "
            "address from audit"
        ).fetchall()
    return {
        "history": {
            key.name: [one async for page in store.history_pages(rows.PROJECT, key) for one in page] for key in keys
        },
        "get": {name: shown for name, shown in gets.items() if shown is not None},
        "list": [one async for page in store.list_pages(rows.PROJECT, rows.KIND, after="", limit=100) for one in page],
        "audit": audit,
    }


async def test_every_answer_is_byte_for_byte_what_it_was(path: Path) -> None:
    before = answers(path)
    assert len(before["get"]) == len(STORED) - 2
    store = SqliteStore(path)
    assert await seen(store) == before
    await store.close()


async def test_what_is_said_of_many_is_kept_once_and_a_status_says_nothing_twice(path: Path) -> None:
    await SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as connection:
        shown = connection.execute("select name, origin is not null, place from resource order by name").fetchall()
        told = connection.execute("select distinct cast(status as text) from resource order by 1").fetchall()
        kept = connection.execute("select count(*) from origin").fetchone()
        secrets = connection.execute("select name from version where secrets = cast('{}' as blob)").fetchall()
        assert connection.execute("pragma foreign_key_check").fetchall() == []
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    other = {
        "adopted": (1, 1),
        "again": (1, 1),
        "handed": (1, None),
        "moved": (0, 1),
        "down": (0, 1),
        "released": (0, 0),
    }
    assert shown == sorted((old.name, *other.get(old.name, (0, None))) for old in STORED if old.status is not None)
    assert told == [
        ('{"drift":{"line":8,"path":"a.yaml","repository":"telemetry"},"latest":true}',),
        ('{"incomplete":["x"],"latest":true,"ready":false}',),
        ('{"latest":true}',),
    ]
    # Of run R1 with and without the commit that changed a file, of R2, of the request; and what two statuses say.
    assert (kept, secrets) == ((6,), [("weird",)])


async def test_what_is_not_explained_is_still_found_and_what_is_stored_goes_on(path: Path) -> None:
    store = SqliteStore(path)
    view = engines.open_view(str(path))
    with view.snapshot():
        found = view.without_lineage("telemetry", rows.PROJECT, limit=100)
        documents = view.documents(rows.PROJECT, [rows.key("older"), rows.key("gone")])
    view.close()
    assert [one.key.name for one in found] == ["weird", "adopted", "again", "fresh", "older", "second", "moved"]
    assert [document.resource_id for document in documents.values()] == ["id-older"]
    await store.commit([rows.stored("fresh", number=2), rows.stored("new")], record=Record())
    [newest, oldest] = await looking.history(store, rows.key("fresh"))
    assert (newest, oldest["status"]) == (rows.shown("fresh", 2), {"source": git("a.yaml")})
    assert await looking.history(store, rows.key("new")) == [rows.shown("new", 1)]
    await store.close()
