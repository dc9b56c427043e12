"""A store in which large changes were written ahead of their commit: what counts is kept, and nothing else."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.model import audit_chain
from reconciler.model.audit_chain import ChainHead, ChainRewrite, Content
from reconciler.store import audit, database
from reconciler.store.audit import BrokenChain, RedactedEvents
from reconciler.store.records import AuditRow, Record
from reconciler.store.sqlite import SqliteStore
from tests.store import rows
from tests.store.contract_audit import names

pytestmark = pytest.mark.anyio

BEFORE = 11  # migrations of the last version that wrote ahead
SHOWN, LEFT = 1_048_576, 2_097_152  # the numbers of a change that was shown, and of one that a process left
OLD = "2026-11-01T00:00:00.000Z"
COUNTING = {
    "version": "select * from version",
    "resource": "select * from resource",
    "reference": "select * from reference",
    "source_file": "select * from source_file",
    "wanted": "select * from wanted",
    "held": "select * from held",
    "approved": "select * from approved",
    "approval": "select * from approval",
    "prune_ledger": "select * from prune_ledger",
    "past_route": "select * from past_route",
    "origin": "select * from origin",
    "repository": "select * from repository",
    "run": "select id, project, repository, trigger, actor, commit_id, outcome, message, counts, rewound, started_at,"
    " finished_at, duration_ms from run",
    "run_status": "select * from run_status where run = 'R1'",
    "audit_link": "select * from audit_link",
    "audit_rewrite": "select * from audit_rewrite",
    "audit_anchor": "select * from audit_anchor",
    "fact": "select * from fact where key <> 'reserved'",
}
FILLED = f"""
insert into project values ('{rows.PROJECT}', '{rows.AT}');
update fact set value = {SHOWN + 1} where key = 'revision';
update fact set value = {LEFT} where key = 'reserved';
insert into staged values ({LEFT}, 4, 9, 'R-left', 0);
insert into version_row (id, project, kind, name, version, since, origin, path, line, secrets, body, checksum)
select n, '{rows.PROJECT}', '{rows.KIND}', name, version, since, {rows.origin().id}, 'a.yaml', 1, secrets,
       cast('body of ' || name as blob), 7
from (          select 1 as n, 'a' as name, 1 as version, 0 as since, x'05' as secrets
      union all select 2, 'a', 2, {SHOWN}, null
      union all select 3, 'b', 1, 0, null
      union all select 4, 'ended', 1, 0, null
      union all select 5, 'a', 3, {LEFT}, null
      union all select 6, 'new', 1, {LEFT}, null);
insert into resource_row
select '{rows.PROJECT}', '{rows.KIND}', name, since, until, version, n, id, x'01', 'telemetry', 'a.yaml', 1, 0, 1, 0,
       null, null, status
from (          select 'a' as name, 0 as since, {SHOWN} as until, 1 as version, 1 as n, 'id-a' as id, null as status
      union all select 'a', {SHOWN}, {LEFT}, 2, 2, 'id-a', null
      union all select 'a', {LEFT}, null, 3, 5, 'id-a', null
      union all select 'b', 0, {LEFT}, 1, 3, 'id-b', cast('{{"latest":true,"ready":false}}' as blob)
      union all select 'ended', 0, {SHOWN + 1}, 1, 4, 'id-e', null
      union all select 'new', {LEFT}, null, 1, 6, 'id-e', null);
insert into reference_row
select '{rows.PROJECT}', '{rows.KIND}', name, '{rows.KIND}', target, since, until
from (          select 'a' as name, 'b' as target, 0 as since, {SHOWN} as until
      union all select 'a', 'ended', {SHOWN}, {LEFT}
      union all select 'b', 'a', 0, null
      union all select 'new', 'a', {LEFT}, null);
insert into listing values ('telemetry', 'index', 3), ('telemetry', 'held', 4), ('other', 'index', {SHOWN});
insert into source_file_row
values (2, 'nobodys.yaml', 0, null, 'blob', null, null), (3, 'a.yaml', 0, {LEFT}, 'blob', null, null),
       (3, 'empty.yaml', 0, null, 'blob', 'empty', '[]'), (3, 'ended.yaml', 0, {SHOWN}, 'blob', null, null),
       (3, 'new.yaml', {LEFT}, null, 'blob', null, null), ({SHOWN}, 'whole.yaml', 0, null, 'blob', null, null),
       ({LEFT}, 'left.yaml', 0, null, 'blob', null, null);
insert into wanted_row
values (2, 'nobodys.yaml', 0, 0, null, 'K', 'n', x'01', null), (3, 'a.yaml', 0, 0, {LEFT}, 'K', 'a', x'01', null),
       (3, 'a.yaml', 1, {SHOWN}, null, 'K', 'w', null, 'waiting'), (3, 'b.yaml', 0, 0, {SHOWN}, 'K', 'b', x'01', null),
       ({LEFT}, 'left.yaml', 0, 0, null, 'K', 'l', x'01', null);
insert into held_row values (1, 'held', 'K', 'nobodys'), (4, 'held', 'K', 'h'), (4, 'in-use', 'K', 'u'),
                            ({LEFT}, 'held', 'K', 'left');
insert into approval values ('telemetry', 'commit', 'user:ana', '{rows.AT}');
insert into approved values ('telemetry', 'K', 'h');
insert into prune_ledger values (1, 'telemetry', 5, 10, 1);
insert into past_route values ('{rows.PROJECT}', 'web', 1, x'7b7d');
"""  # noqa: S608 - values of this module


class ChainOf11:
    """Events with their links, as that version wrote them."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._head = ChainHead(0, audit_chain.ZERO)
        self._hashed: dict[int, bytes] = {}

    def event(self, number: int, *, since: int = 0, at: str = rows.AT, detail: str | None = None) -> AuditRow:
        """Write one that nobody sees yet."""
        event = AuditRow(at, rows.PROJECT, "user:ana", "did", rows.KIND, f"n{number}", None, 1, None, "q", detail, None)
        self._connection.execute(
            "insert into audit_row (id, at, project, actor, action, kind, name, version_before, version_after, run, "
            "request, detail, address, since, salt) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (number, *event, since, None if detail is None else b"salt"),
        )
        self._hashed[number] = audit_chain.leaf(number, event, None if detail is None else b"salt")
        return event

    def link(self, *spans: tuple[int, int, int], at: str = rows.AT, rewrites: Iterable[ChainRewrite] = ()) -> None:
        """The next link, of spans of events: the first, the last, and since when they count."""
        content = Content()
        for first, last, since in spans:
            sql = "select id from audit_row where id between ? and ? and since = ? order by id"
            for (number,) in self._connection.execute(sql, (first, last, since)).fetchall():
                content.add(self._hashed[number], at=at)
        for one in rewrites:
            content.rewrite(one)
        self._head = content.sealed(self._head, address="192.0.2.1")
        self._connection.execute(
            "insert into audit_link (number, hash, events, first_at, last_at, address, content, checked) "
            "values (?, ?, ?, ?, ?, ?, ?, 1)",
            (*self._head, content.events, content.first_at, content.last_at, "192.0.2.1", content.digest()),
        )
        self._connection.executemany(
            "insert into audit_span values (?, ?, ?, ?)", [(self._head.number, *span) for span in spans]
        )

    def redacted(self, number: int, event: AuditRow) -> ChainRewrite:
        """Take the text out of an event."""
        left = audit_chain.leaf(number, event._replace(detail="gone"), None)
        one = ChainRewrite(number, self._hashed[number], left)
        self._connection.execute("update audit_row set detail = 'gone', salt = null where id = ?", (number,))
        self._connection.execute(
            "insert into audit_rewrite values (?, ?, ?, ?)", (one.event, self._head.number + 1, one.before, one.after)
        )
        return one


def chained(connection: sqlite3.Connection) -> None:
    """Six links: an ordinary one that is gone, and its events not yet; an ordinary one; a change that was written ahead
    while a third wrote; one of events alone that was written ahead; a redaction. And an event of the change that is
    left.
    """
    made = ChainOf11(connection)
    made.event(1, at=OLD)
    made.link((1, 1, 0), at=OLD)
    made.event(2)
    made.event(3, since=SHOWN)
    made.link((2, 2, 0))
    made.event(4, since=-SHOWN - 1)
    quoting = made.event(5, detail="it was hunter2")
    made.link((5, 5, 0))
    made.event(6, since=SHOWN)
    made.event(7)
    made.link((3, 6, SHOWN), (7, 7, 0))
    made.event(8, since=-SHOWN - 1)
    made.link((4, 8, -SHOWN - 1))
    made.event(9)
    made.link((9, 9, 0), rewrites=[made.redacted(5, quoting)])
    made.event(10, since=LEFT)
    [(hashed, content)] = connection.execute("select hash, content from audit_link where number = 1").fetchall()
    proof = audit_chain.proof(audit_chain.ZERO, audit_chain.ChainHeader(1, 1, OLD, OLD, "192.0.2.1"), content)
    moved = "update audit_anchor set number = 1, hash = ?, events = 1, last_event = 1, proof = ?"
    connection.execute(moved, (hashed, proof))
    connection.execute("delete from audit_link where number = 1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of that version. One process ended while it wrote a change ahead, and others before that."""
    made = tmp_path / "store.db"
    with closing(database.open_writer(made)) as connection:
        database.migrate(connection, steps=database.migrations()[:BEFORE])
        connection.execute("insert into origin values (?, ?, ?, ?, ?, ?, ?)", rows.origin())
        connection.execute("pragma foreign_keys = off").fetchone()  # of the first project, which comes later
        connection.executescript(FILLED)
        connection.execute("pragma foreign_keys = on").fetchone()
        chained(connection)
        run = "insert into run values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        connection.execute(run, rows.run("R1")[:13])  # without what later versions add
        repository = "insert into repository values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        connection.execute(repository, rows.repository())
        status = "insert into run_status (run, ordinal, kind, name, status) values (?, 0, 'K', 'n', 'created')"
        connection.executemany(status, [("R1",), ("R-left",)])
        assert connection.execute("pragma foreign_key_check").fetchall() == []
    return made


def counting(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(path)) as connection:
        return {name: sorted(connection.execute(sql).fetchall(), key=repr) for name, sql in COUNTING.items()}


async def test_what_counted_is_kept_and_nothing_else(path: Path) -> None:
    before = counting(path)
    assert all(before.values())
    assert [row[2] for row in before["resource"]] == ["a", "b"]
    await SqliteStore(path).close()
    assert counting(path) == before
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select run from run_status").fetchall() == [("R1",)]
        found = connection.execute("select type, name from sqlite_schema where type in ('table', 'view')").fetchall()
        assert connection.execute("select * from project").fetchall() == [(rows.PROJECT, rows.AT)]
        assert connection.execute("pragma foreign_key_check").fetchall() == []
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    gone = {"listing", "staged", "audit_span"}
    assert [one for one in found if one[0] == "view" or one[1].endswith("_row") or one[1] in gone] == []


async def test_the_chain_of_the_audit_fits_and_is_read_in_its_order(path: Path) -> None:
    store = SqliteStore(path)
    assert await names(store) == ["n9", "n8", "n4", "n7", "n6", "n3", "n5", "n2"]
    found = audit.verify(path)
    assert (found.anchor.head.number, found.links, found.events) == (1, 5, 8)
    assert found.redacted == [RedactedEvents(1, "link 6")]
    assert (found.anchor.last_at, found.head) == (OLD, (await store.audit_ends())[1])
    await store.tell([rows.audit("next")])
    assert (await names(store))[:2] == ["next", "n9"]
    while await store.forget_events(before="2027"):
        pass
    await store.tell([rows.audit("last")])
    await store.close()
    found = audit.verify(path)
    assert (found.anchor.head.number, found.anchor.events, found.links, found.events) == (7, 10, 1, 1)


@pytest.mark.parametrize(
    ("tampered", "sentence"),
    [
        (
            "insert into audit_row (since, project, action, kind, name, at, actor) select 0, '', '', '', '', '', ''",
            "The",
        ),
        ("delete from audit_span where link = 4 and since = 0", "Link 4"),
        ("update audit_span set since = 0, last = 5 where link = 5", "Link 5"),
        ("update audit_row set actor = 'user:eve' where id = 6", "Link 4"),
    ],
)
async def test_what_was_tampered_with_before_is_found_afterwards(path: Path, tampered: str, sentence: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(tampered)
    await SqliteStore(path).close()
    with pytest.raises(BrokenChain, match=f"^{sentence} "):
        audit.verify(path)


async def test_the_store_takes_changes_on(path: Path) -> None:
    store = SqliteStore(path)
    parts = [rows.stored("a", number=3), rows.stored("new"), rows.removed("b")]
    assert await store.commit(parts, record=Record(forget_files_of="telemetry")) == SHOWN + 2
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select name, version from resource").fetchall() == [("a", 3), ("new", 1)]
        files = connection.execute("select repository, path from source_file").fetchall()
    assert files == [("other", "whole.yaml")]
    await store.close()
