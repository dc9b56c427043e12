"""One commit: a record and the parts of a change, written in one transaction with the next link of the audit.

What writes runs on the thread that writes. Only rows are written here: rules about resources are the planner's.

A commit may overwrite a secret that should not have been stored, and the engine may leave copies of it. The commit
records in the store that they are to be erased (`Store.erase_traces`), so it survives a crash.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from time import monotonic
from typing import Any

import msgspec

from reconciler.model import audit_chain
from reconciler.model.audit_chain import ChainAnchor, ChainHead, ChainRewrite, Content
from reconciler.model.outcomes import PRUNE_WINDOW_MILLISECONDS
from reconciler.store import damage, records
from reconciler.store.contract import BUSY, LeaseLost, Moved, StoreFault
from reconciler.store.statements import Connection


def read_anchor(connection: Connection) -> ChainAnchor | None:
    """Return the start of the chain; None if the store has lost it."""
    row = connection.first("audit_anchor")
    return None if row is None else ChainAnchor(ChainHead(row[0], row[1]), *row[2:])


def chain_head(connection: Connection) -> ChainHead:
    """Return the last link, or the anchor when there is none behind it. Raises errors of the engine."""
    number, value, *_ = connection.first("last_link") or connection.all("audit_anchor")[0]
    return ChainHead(number, value)


class NextLink:
    """Inside one transaction: write events and redactions, then `close`. All methods raise errors of the engine."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._before = chain_head(connection)
        self._number = self._before.number + 1
        self._content = Content()
        self._rewrites: list[ChainRewrite] = []

    def write(self, events: Sequence[records.AuditRow]) -> None:
        """Add events to the link and the audit."""
        rows = []
        for number, told in enumerate(events, self._connection.value("last_event") + 1 if events else 0):
            event = _storable(self._connection, told)
            salt = None if event.detail is None else os.urandom(audit_chain.SALT_BYTES)
            self._content.add(audit_chain.leaf(number, event, salt), at=event.at)
            rows.append((number, self._number, *event, salt))
        self._connection.each("insert_audit", rows)

    def redact(self, quote: records.QuoteRow) -> None:
        """Replace an event's text, and record both hashes. Do nothing if the event was removed meanwhile."""
        found = self._connection.first("event", quote.id)
        if found is None:
            return
        number, *values, salt = found
        event = records.AuditRow(*values)
        left = event._replace(detail=self._connection.storable(quote.text))
        self._connection.run("rewrite_detail", left.detail, number)
        before, after = audit_chain.leaf(number, event, salt), audit_chain.leaf(number, left, None)
        self._rewrites.append(ChainRewrite(number, before, after))

    def close(self, *, address: str | None = None) -> None:
        """Write the link, unless it is empty. `address` is the client's address of the request."""
        content, rewrites = self._content, sorted(self._rewrites)
        if not content.events and not rewrites:
            return
        for one in rewrites:
            content.rewrite(one)
        link = content.sealed(self._before, address=address)
        header = (content.events, content.first_at, content.last_at, address)
        self._connection.run("insert_link", *link, *header, content.digest())
        self._connection.each("insert_rewrite", ((one.event, link.number, one.before, one.after) for one in rewrites))


def _storable(connection: Connection, event: records.AuditRow) -> records.AuditRow:
    """Return an event as it will be read, since its hash covers that."""
    values: list[Any] = [connection.storable(one) if isinstance(one, str) else one for one in event]
    return records.AuditRow(*values)


def tell(connection: Connection, events: Sequence[records.AuditRow]) -> None:
    """Write events as one link, inside a transaction. Raises errors of the engine."""
    link = NextLink(connection)
    link.write(events)
    link.close()


MOST_KEYS = 200


def noting(coming: Iterable[records.Changes], keys: dict[records.KeyRow, None]) -> Iterator[records.Changes]:
    """Yield the parts, and add their resources to `keys`, as `records.Committed` has them."""
    for part in coming:
        rendered = (records.KeyRow(row.project, "Configuration", row.configuration) for row in part.renderings)
        rows: tuple[Any, ...] = part.heads, part.head_statuses, part.rewritten, part.removed, part.lineages, rendered
        for row in chain(*rows):
            keys[records.KeyRow(row.project, row.kind, row.name if len(keys) < MOST_KEYS else "")] = None
        yield part


def commit(
    connection: Connection,
    coming: Iterable[records.Changes],
    *,
    record: records.Record,
    deadline: float = math.inf,
    then: Callable[[Connection, int], None] = lambda _connection, _revision: None,
) -> int:
    """Write the record, then the parts, which are taken one at a time. Return the revision afterwards. `then` is called
    with it at the end of the transaction.

    At `deadline`, an instant of `time.monotonic`, everything is rolled back. Raises `Moved`, `StoreFault`, and anything
    that taking a part raises.
    """
    if monotonic() >= deadline:
        raise StoreFault(BUSY)
    with connection.faults("written"), connection.writing(deadline):
        revision = int(connection.value("revision"))
        after = _write(connection, coming, record=record, revision=revision)
        then(connection, after)
        return after


def _write(connection: Connection, coming: Iterable[records.Changes], *, record: records.Record, revision: int) -> int:
    """Write the records and the parts; return the revision afterwards."""
    link = NextLink(connection)
    every = (record, *record.beside)
    for one in every:
        _write_record(connection, one, link)
    is_seen = any(_is_seen(one) for one in every)
    rewrites = record.redacts
    for part in coming:
        is_seen = _write_part(connection, part, link) or is_seen
        rewrites = rewrites or bool(part.rewritten)
    link.close(address=record.address)
    if rewrites:
        connection.run("put_traces", revision + 1)
    if not is_seen:
        return revision
    connection.run("put_revision", revision + 1)
    return revision + 1


def _is_seen(record: records.Record) -> bool:
    """Return True if a record changes what a plan or a reader of resources sees."""
    seen = (record.forget_files_of, record.release_repository, record.approval, record.suspension, record.resume)
    return record.redacts or any(one is not None for one in seen)


def _write_record(connection: Connection, record: records.Record, link: NextLink) -> None:
    if record.lease is not None and connection.first("lease_of_record", *record.lease) is None:
        raise LeaseLost(f"Another replica follows the repository {record.lease.repository} by now.")
    released = record.release_repository
    for name in filter(None, (record.forget_files_of, released)):
        connection.run("forget_files", name)
        connection.run("forget_all_wanted", name)
    # The parts contain the deletions that are held from now on; an approval releases the stored ones.
    for name in filter(None, (record.forget_held_of, released)):
        connection.run("forget_held", name)
    if released is not None:
        _release(connection, released)
        connection.run("forget_ledger", released)
        connection.run("remove_repository", released)
    approval = record.approval
    if approval is not None and not connection.value("can_approve", approval.repository, approval.commit):
        raise Moved("What is held changed while it was approved.")
    for name in filter(None, (record.forget_approval_of, released, approval and approval.repository)):
        connection.run("forget_approval", name)
        connection.run("forget_approved", name)
    if approval is not None:
        connection.run("put_approval", *approval)
        connection.run("approve_held", approval.repository)
    if record.resume is not None:
        connection.run("forget_suspension", record.resume)
    if record.suspension is not None:
        connection.run("put_suspension", *record.suspension)
    link.write(record.audit)
    if record.run is not None:
        connection.run("insert_run", *record.run)
    if record.repository is not None:
        connection.run("put_repository", *record.repository)


def _release(connection: Connection, repository: str) -> None:
    """Give the resources of a repository to the API; it knows no drift."""
    rewritten = []
    for status, *key in connection.all("drifting_statuses", repository):
        shown = msgspec.json.decode(status, type=dict[str, msgspec.Raw])
        shown.pop("drift", None)
        rewritten.append((msgspec.json.encode(shown), *key))
    connection.each("put_status", rewritten)
    connection.run("release_resources", repository)


def _write_part(connection: Connection, part: records.Changes, link: NextLink) -> bool:
    """Write one part. Return True if it changes what a plan or a reader of resources sees."""
    # The rows of a file that was read again are replaced.
    connection.each("forget_wanted", part.forgotten_files)
    connection.each("forget_file", part.forgotten_files)
    _write_resources(connection, part)
    _write_quotes(connection, part.quotes, link)
    link.write(part.audit)
    connection.each("put_file", part.files)
    connection.each("put_wanted", part.wanted)
    connection.each("put_held", part.held)
    older = [(row.repository, row.at - PRUNE_WINDOW_MILLISECONDS) for row in part.pruned]
    connection.each("forget_pruned", older)
    connection.each("insert_pruned", part.pruned)
    connection.each("insert_run_status", part.statuses)
    resources = (part.versions, part.heads, part.head_statuses, part.rewritten, part.removed)
    is_seen = any((*resources, part.forgotten_files, part.files, part.wanted))
    is_seen = _write_renderings(connection, part) or is_seen
    return _write_lineages(connection, part) or is_seen


def _write_resources(connection: Connection, part: records.Changes) -> None:
    connection.each("remove_head", part.removed)
    connection.each("forget_rendering", part.removed)
    replaced = ((row.project, row.kind, row.name) for row in part.versions)
    connection.each("forget_references", chain(part.removed, replaced))
    connection.each("insert_origin", part.origins)
    # The row id of each version, by project, kind, name and version.
    first = connection.value("last_version") + 1
    numbers = {row[:4]: number for number, row in enumerate(part.versions, first)}
    checked = ((*row, damage.checksum_of(row.body, row.secrets)) for row in part.versions)
    connection.each("insert_version", ((number, *row) for number, row in enumerate(checked, first)))
    connection.each("insert_reference", part.references)
    connection.each("put_head", ((*row, numbers.get(row[:4])) for row in part.heads))
    connection.each("put_head_status", ((*row[3:], *row[:3]) for row in part.head_statuses))
    connection.each("forget_past_route", (row[:2] for row in part.past_routes if row.past is None))
    connection.each("put_past_route", (row for row in part.past_routes if row.past is not None))
    rewritten = ((row.body, row.secrets, damage.checksum_of(row.body, row.secrets), *row[:4]) for row in part.rewritten)
    connection.each("rewrite_version", rewritten)
    # One that is in force may hold what is masked or redacted here.
    connection.each("forget_renderings", {(row.project,) for row in part.rewritten})


def _write_renderings(connection: Connection, part: records.Changes) -> bool:
    """Tell if any of them changes a status."""
    is_seen = False
    for row in part.renderings:
        if connection.run("put_rendering", *row[:7]):
            changed = connection.run("put_rendering_status", row.status, row.status_before, *row[:2])
            is_seen = is_seen or bool(changed)
    return is_seen


def _write_lineages(connection: Connection, part: records.Changes) -> bool:
    """Write lineages. Return True if one was stored: a resource that changed meanwhile stays as it is."""
    filled_in = False
    for row in part.lineages:
        if connection.run("explain_head", row.status, *row[:4], row.status_before):
            told = connection.run("explain_version", row.origin, *row[:4], row.before)
            filled_in = filled_in or bool(told) or row.status != row.status_before
    return filled_in


_STATUS_REWRITES = {"reason": "rewrite_reason", "notes": "rewrite_notes"}


def _write_quotes(connection: Connection, quotes: Iterable[records.QuoteRow], link: NextLink) -> None:
    for quote in quotes:
        if quote.of == "detail":
            link.redact(quote)
        elif quote.of == "message":
            connection.run("rewrite_message", quote.text, quote.id)
        else:
            connection.run(_STATUS_REWRITES[quote.of], quote.text, quote.id, quote.ordinal)
