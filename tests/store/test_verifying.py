"""Verifying the chain: what fits is counted, and the first link that does not is named, whatever was done."""

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.model import audit_chain
from reconciler.model.audit_chain import ZERO, ChainHead
from reconciler.model.errors import Refused
from reconciler.store import audit, database
from reconciler.store.audit import BrokenChain, RedactedEvents
from reconciler.store.contract import StoreFault
from reconciler.store.records import AuditRow, AuditWanted, Changes, Record
from reconciler.store.sqlite import SqliteStore
from tests.store import chains, rows
from tests.store.chains import tamper
from tests.store.contract_redactions import files_holding

pytestmark = pytest.mark.anyio

LATER = "2026-12-21T06:12:00.000Z"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    store = tmp_path / "store.db"
    asyncio.run(chains.made(store))
    return store


def broken(path: Path, *, known: ChainHead | None = None) -> str:
    with pytest.raises(BrokenChain) as raised:
        audit.verify(path, known=known)
    return raised.value.message


async def forget(store: SqliteStore, before: str) -> int:
    """Remove what is over, to the end; in how many steps."""
    steps = 0
    while await store.forget_events(before=before):
        steps += 1
    return steps


def count(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"select count(*) from {table}").fetchone()[0])  # noqa: S608 - a name of ours


def test_a_chain_that_fits_is_counted(path: Path) -> None:
    found = audit.verify(path)
    assert (found.anchor.head, found.links, found.events, found.unchecked) == (ChainHead(0, ZERO), 5, 10, 0)
    assert (found.head.number, found.first_at, found.last_at) == (5, rows.AT, rows.AT)
    assert found.redacted == [RedactedEvents(1, "event 5-10")]
    assert audit.verify(path, known=found.head) == found


def test_a_file_that_is_damaged_is_told_as_that(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    with pytest.raises(StoreFault) as raised:
        audit.verify(path)
    assert raised.value.message == (
        "The store could not be read (database disk image is malformed): its file is damaged, or is something else; "
        "restore a backup (docs/recovery.md)."
    )


async def test_it_is_verified_while_the_service_has_the_file_open_and_writes(path: Path) -> None:
    store = SqliteStore(path)

    def parts() -> Iterator[Changes]:
        yield rows.stored("f", "g")
        assert audit.verify(path).events == 10
        yield rows.stored("h")

    await store.commit(parts(), record=Record())
    assert audit.verify(path).events == 13
    await store.close()
    assert audit.verify(path).links == 6


async def test_an_empty_store_fits(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    assert (await store.audit_ends())[1] == ChainHead(0, ZERO)
    await store.close()
    found = audit.verify(tmp_path / "store.db", known=ChainHead(0, ZERO))
    assert (found.links, found.events, found.head) == (0, 0, ChainHead(0, ZERO))


def _event(path: Path, number: int) -> tuple[AuditRow, bytes | None]:
    with closing(database.open_reader(path)) as connection:
        [(_, *shown, salt)] = connection.all("event", number)
    return AuditRow(*shown), salt


TAMPERED = {
    "an actor": ("update audit set actor = 'user:eve' where name = 'kept'", "Link 4 of"),
    "an address": ("update audit set address = '192.0.2.9' where name = 'kept'", "Link 4 of"),
    "the address of a request": ("update audit_link set address = '192.0.2.9' where number = 1", "Link 1 of"),
    "a detail": ("update audit set detail = 'another' where name = 'kept'", "Link 4 of"),
    "a salt": ("update audit set salt = x'00' where name = 'kept'", "Link 4 of"),
    "a version": ("update audit set version_after = 7 where name = 'c'", "Link 3 of"),
    "an instant": ("update audit_link set last_at = '2030-01-01T00:00:00.000Z' where number = 2", "Link 2 of"),
    "a removed event": ("delete from audit where name = 'a' and action = 'created'", "Link 1 of"),
    "an event of another link": ("update audit set link = 2 where name = 'd'", "Link 2 of"),
    "a hidden event": ("update audit set link = 0 where name = 'd'", "Link 3 of"),
    "a removed event of a large change": ("delete from audit where name = 'd'", "Link 3 of"),
    "the only event of a link": ("delete from audit where name = 'between'", "Link 2 of"),
    "an added event": (
        "insert into audit (link, project, action, kind, name, at, actor) select 0, '', '', '', '', '', ''",
        "The event 11 belongs to no link",
    ),
    "an added event of a link to come": (
        "insert into audit (link, project, action, kind, name, at, actor) select 6, '', '', '', '', '', ''",
        "Link 6 is missing, and its events are there",
    ),
    "an added event before all others": (
        "insert into audit (id, link, project, action, kind, name, at, actor) select -1, -1, '', '', '', '', 1, 2",
        "The event -1 belongs to no link",
    ),
    "two events in another order": (
        "update audit set name = case name when 'a' then 'b' else 'a' end where name in ('a', 'b')",
        "Link 1 of",
    ),
    "two links in another order": (
        "update audit set link = 7 - link where link in (3, 4)",
        "Link 3 of",
    ),
    "a removed link": ("delete from audit_link where number = 3", "Link 3 is missing"),
    "a removed first link": ("delete from audit_link where number = 1", "Link 1 is missing"),
    "a removed last link": ("delete from audit_link where number = 5", "Link 5 is missing, and its events are there"),
    "a link that is not to be checked": ("update audit_link set checked = 0 where number = 2", "Link 2 of"),
    "a first link that is not to be checked": ("update audit_link set checked = 0 where number = 1", "Link 1 of"),
    "an anchor": ("update audit_anchor set hash = x'01'", "Link 1 of"),
    "a removed anchor": ("delete from audit_anchor", "The audit has lost its anchor"),
    "a text after its redaction": (
        "update audit set detail = 'nothing' where name = 'quoting'",
        "The event 4-9 was changed after it was redacted.",
    ),
    "what a link holds": ("update audit_link set content = x'01' where number = 2", "Link 2 of"),
    "a forgotten redaction": ("delete from audit_rewrite", "Link 4 of"),
    "a redaction that was not": (
        "insert into audit_rewrite select 1, 5, before, after from audit_rewrite",
        "The event 1-1 was changed",
    ),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_what_was_tampered_with_is_found(path: Path, what: str) -> None:
    statement, sentence = TAMPERED[what]
    tamper(path, statement)
    assert broken(path).startswith(sentence)


def test_a_redaction_that_no_link_holds_excuses_nothing(path: Path) -> None:
    """The hashes before and after are right, and so is the chain: but nobody redacted that event."""
    event, salt = _event(path, 8)
    changed = event._replace(actor="user:eve")
    before, after = audit_chain.leaf(8, event, salt).hex(), audit_chain.leaf(8, changed, salt).hex()
    tamper(
        path,
        "update audit set actor = 'user:eve' where id = 8",
        f"insert into audit_rewrite values (8, 99, x'{before}', x'{after}')",  # noqa: S608 - of our making
    )
    assert broken(path) == "A redaction is told of that no link holds."


def test_cutting_the_end_is_found_by_a_head_that_was_kept(path: Path) -> None:
    kept = audit.verify(path).head
    tamper(
        path,
        "delete from audit where id = 10",
        "delete from audit_link where number = 5",
        "delete from audit_rewrite",
        "delete from audit where name in ('kept', 'quoting')",
        "delete from audit_link where number = 4",
    )
    assert audit.verify(path).links == 3
    assert broken(path, known=kept) == (
        "The audit ends at link 3, before the given link 5: events were cut off, or an older copy was put in the "
        "store's place."
    )


async def test_an_older_copy_is_found_by_a_head_that_was_kept(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    store = SqliteStore(path)
    await store.tell([chains.told("more")])
    kept = (await store.audit_ends())[1]
    await store.close()
    assert audit.verify(path, known=kept).head == kept
    assert broken(copy, known=kept).startswith("The audit ends at link 5, before the given link 6: ")
    # Whoever goes on with it gets another chain, whatever its length.
    store = SqliteStore(copy)
    await store.tell([chains.told("another")])
    await store.close()
    assert broken(copy, known=kept) == "Link 6 has another hash than the given one: the audit was written anew."


async def test_what_is_redacted_twice_fits_and_its_secret_is_gone(path: Path) -> None:
    store = SqliteStore(path)
    await chains.redact(store, by="redacted again")
    await store.erase_traces()
    await store.close()
    found = audit.verify(path)
    assert (found.redacted, found.rewrites) == ([RedactedEvents(1, "event 5-10"), RedactedEvents(1, "event 6-11")], 2)
    assert files_holding(path.parent, chains.SECRET) == []
    with closing(sqlite3.connect(path)) as connection:
        told = connection.execute("select detail, salt from audit where name = 'quoting'").fetchall()
    assert told == [("it was (redacted again)", None)]


async def test_what_is_over_goes_from_the_beginning_and_the_rest_fits(path: Path) -> None:
    store = SqliteStore(path)
    head = (await store.audit_ends())[1]
    await store.tell([chains.told("recent", at=LATER)])
    await store.tell([chains.told("late for its time")])
    assert await forget(store, LATER) == 1
    await store.close()
    found = audit.verify(path, known=head)
    assert (found.anchor.head, found.anchor.events, found.links, found.events) == (head, 10, 2, 2)
    assert (count(path, "audit"), count(path, "audit_rewrite")) == (2, 0)
    assert broken(path, known=ChainHead(3, ZERO)).startswith("The given link 3 is older than the anchor, link 5, ")
    assert broken(path, known=ChainHead(5, ZERO)).startswith("The anchor, link 5, has another hash than the given one")


async def test_it_fits_after_every_step_of_removing(path: Path) -> None:
    store = SqliteStore(path)
    for number in range(45):
        await store.tell([chains.told(f"many-{number}")])
    before = audit.verify(path)
    links = []
    while await store.forget_events(before=LATER):
        found = audit.verify(path, known=before.head)
        links.append((found.anchor.head.number, found.events, count(path, "audit")))
    assert links == [(20, 30, 30), (40, 10, 10), (50, 0, 0)]
    await store.tell([chains.told("new")])
    await store.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select id from audit").fetchall() == [(56,)]
    assert audit.verify(path, known=before.head).links == 1


async def test_what_went_before_its_time_is_told_whoever_moved_the_anchor(path: Path) -> None:
    store = SqliteStore(path)
    await store.tell([chains.told("recent", at=LATER)])
    await forget(store, LATER)
    await store.close()
    assert audit.verify(path, since=LATER).anchor.last_at == rows.AT
    with pytest.raises(BrokenChain, match=f"^Removed early: the events up to link 5, of {rows.AT}, are gone, and "):
        audit.verify(path, since=rows.AT)


async def test_links_from_before_their_content_was_kept_prove_their_time_as_they_go(path: Path) -> None:
    tamper(path, "update audit_link set content = null")
    store = SqliteStore(path)
    await store.tell([chains.told("recent", at=LATER)])
    await forget(store, LATER)
    await store.close()
    assert audit.verify(path, since=LATER).anchor.last_at == rows.AT


MOVED = {
    "without a proof": "null",
    "with a proof of another time": "cast(replace(cast(proof as text), '2026', '2025') as blob)",
    "with anything": "x'00'",
}


@pytest.mark.parametrize("how", MOVED)
async def test_an_anchor_that_does_not_prove_its_time_is_told(path: Path, how: str) -> None:
    """The first links are taken away as the service does it, and the anchor says what somebody wants."""
    tamper(
        path,
        "update audit_anchor set number = 2, hash = (select hash from audit_link where number = 2), events = 3",
        "delete from audit where link <= 2",
        "delete from audit_link where number <= 2",
        f"update audit_anchor set proof = {MOVED[how]}",  # noqa: S608 - of this module
    )
    assert broken(path) == (
        "The anchor, link 2, does not show when its events were: something else than the service put it there, and "
        "removed what was before it."
    )


async def test_an_empty_chain_behind_an_anchor_of_zeros_is_told(path: Path) -> None:
    tamper(
        path,
        *(f"delete from {table}" for table in ("audit", "audit_link", "audit_rewrite")),  # noqa: S608
        "update audit_anchor set number = 5, events = 10",
    )
    assert broken(path).startswith("The anchor, link 5, does not show when its events were")


async def test_a_page_that_is_taken_slowly_keeps_no_read_open(path: Path) -> None:
    """So all that is written meanwhile can be taken out of the store's log."""
    store = SqliteStore(path)
    await store.tell([chains.told(f"many-{number}") for number in range(1_200)])
    pages = store.event_pages(AuditWanted(), limit=10_000, documents=False)
    assert len(await anext(pages)) == 1_000
    await store.tell([chains.told("new")])
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma wal_checkpoint(truncate)").fetchone() == (0, 0, 0)
    assert len(await anext(pages)) == 210
    await pages.aclose()
    await store.close()


async def test_a_change_that_fails_leaves_no_event(path: Path) -> None:
    store = SqliteStore(path)
    with pytest.raises(StoreFault):
        await store.commit([rows.stored("f", "g"), rows.stored("a")], record=Record())
    await store.close()
    assert audit.verify(path).links == 5


@pytest.mark.parametrize(
    "text", ["", "1", "1:", f"x:{'0' * 64}", f"1:{'0' * 63}", f"{'1' * 19}:{'0' * 64}", "1:" + "g" * 64]
)
def test_a_head_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="A head is its number"):
        audit.head(text)


def test_a_head_is_read_as_the_log_has_it() -> None:
    head = ChainHead(17, bytes(range(32)))
    assert audit.head(f" {str(head).upper()}\n") == head
