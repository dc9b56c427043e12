"""The contract of the store: the main process writes and reads through `Store`, the worker plans on `PlanningView`.

The rows that it takes and returns are in `reconciler.store.records`, `repository_records` and `replica_records`. The
store has no rules about resources: it stores every row that it gets. One suite of tests proves these promises on every
engine (`tests/store`):

- A commit is one transaction. After `commit` returns, all of it is on disk; after a crash, all of it or nothing is.
- A commit that takes longer than its `timeout` is rolled back and raises `StoreFault`.
- The revision grows by one with every commit that changes what a plan or a reader sees, and never otherwise: a run's
  record and statuses alone do not count.
- Reads see a whole commit or nothing of it. A list, a history or a run in pages is one revision from its first page to
  its last; no page is empty, or blocks the caller's thread for longer than about a millisecond.
- Pages that are left early are closed with `aclose`, which ends their read at once. The store may keep overwritten data
  while they are open, so the caller limits how long that is.
- After `erase_traces` reports success, the store's files no longer contain the overwritten values of versions. The
  store remembers after a crash that this is still to be done.
- A damaged version is never shown as if it were intact: `get` raises `Damaged`, and lists, histories and events show a
  placeholder; the others are not affected. A plan knows which of the resources that it compares are damaged.
- Every output has one order: lists by name in byte order, history and runs newest first.
- Every transaction that shows audit events adds a link to their chain (see `audit_chain`), in the order of commits.
- A store of a later version is refused with `NewerStore`; an earlier one is migrated, one numbered step at a time, each
  step in one transaction with its record.
- A write to a store that was removed or replaced raises `StoreFault`: it is never acknowledged.
- When the disk is full or read-only, a write raises `StoreFault`, nothing of it is kept, and reads continue.
"""

from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import timedelta
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from reconciler.model import errors
from reconciler.model.audit_chain import ChainAnchor, ChainHead
from reconciler.model.directory import Amendment, Directory
from reconciler.model.names import Key
from reconciler.model.outcomes import PruneWindow, StoredState
from reconciler.store import records, replica_records, repository_records

C = TypeVar("C", records.Committed, records.ResourceChange, Amendment)

Announced: TypeAlias = records.Committed | records.ResourceChange | Amendment


class StoreFault(errors.Transient):
    """The store could not read or write; nothing of the commit was kept, unless it is an `OutcomeUnknown`."""


class OutcomeUnknown(StoreFault):
    """The connection was lost while a commit was confirmed: all of it may be stored, or nothing."""


LOST_FACT = "The store has lost its fact `{name}`: restore a backup."
TOO_SLOW = "This changes too much to be stored in the time that a change has; commit or send it in parts."
BUSY = "The store was busy with other changes for too long, and nothing was changed; try again."


class Damaged(errors.Refused):
    """One stored resource is damaged; the others can be read."""


class NewerStore(errors.Refused):
    """The store was written by a later version of the product."""


class Moved(errors.Transient):
    """The held deletions are not those that the approval names; the caller must read them again."""


class StaleChange(StoreFault):
    """Another process changed the directory or the notifications since the caller read them; the caller must read them
    again and decide anew.
    """


class LeaseLost(errors.Transient):
    """Another replica follows the repository of a record by now; nothing of the commit was kept."""


class NameTaken(errors.Refused):
    """Another process took the name of this replica."""


class Store(Protocol):
    """Resources, history, runs, people, keys and the audit: see the promises above."""

    @property
    def address(self) -> str:
        """An opaque text by which `engines.open_view` opens the reads of a plan in another process."""

    def subscribe(self, kind: type[C], listener: Callable[[C], None]) -> None:
        """Call `listener` after every commit, `ResourceChange` or `Amendment`, whatever part of the process wrote it.

        It is called on the event loop, once the change is on the disk and before the write returns, in the order of
        changes. It must not raise, and takes microseconds. Changes of other replicas come milliseconds later
        (`reconciler.replicas.following`).
        """

    def announce(self, change: Announced) -> None:
        """Call the listeners for a change of another replica."""

    async def revision(self) -> int:
        """Return the number of commits with changes so far. Raises `StoreFault` where the store cannot be used any
        more.
        """

    async def hmac_key(self) -> bytes:
        """Return the store's key for digests of sensitive values: 32 random bytes, made with the store."""

    async def get(self, project: str, key: Key, *, version: int | None = None) -> bytes | None:
        """Return a resource as JSON with its `status`, or one version as in its history; None if there is none. Raises
        `Damaged`.
        """

    async def rendering(self, project: str, name: str, *, previous: bool = False) -> bytes | None:
        """Return what Collectors get of a Configuration; empty if nothing is in force, None until it is tried. Raises
        `Damaged` if it has not the hash that is said of it. `previous`: the other text that was in force before, empty
        if none is kept.
        """

    def list_pages(self, project: str, kind: str, *, after: str, limit: int) -> AsyncGenerator[list[bytes], None]:
        """Yield resources of a kind after a name ('' for all), in byte order of names, in pages of one revision."""

    def history_pages(self, project: str, key: Key) -> AsyncGenerator[list[bytes], None]:
        """Yield every version with its `status`, newest first, in pages; none if the resource never existed."""

    async def references(self, project: str, key: Key, *, limit: int) -> tuple[dict[Key, bool], list[Key]]:
        """Return what the present version of a resource refers to, each with True if it is stored, and what refers to
        the resource: at most `limit` of either, by kind and name, at one revision.
        """

    def locked(self, project: str, *, seconds: float | None = None) -> AbstractAsyncContextManager[None]:
        """Keep every other process from changing a project until the context ends, or until its first commit. Writers
        of this process keep each other out with a lock of their own (`reconcile.apply.ProjectLock`).

        Raises TimeoutError if the lock is not held after `seconds`, StoreFault.
        """

    async def commit(
        self,
        parts: Iterable[records.Changes],
        *,
        record: records.Record,
        project: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it ends a transaction on another thread
    ) -> int:
        """Write the record and the parts in one transaction; return the revision after it.

        The parts are taken one at a time, on the thread that writes. `project` is the one that the caller has `locked`:
        the commit and the lock end together. `timeout` is in seconds since the call. Raises `Moved` if other deletions
        are held than an approval names, `LeaseLost`, `StoreFault`, and anything that the iterator of parts raises.
        """

    @property
    def known_revision(self) -> int:
        """The newest revision that this process knows, without a read; it never decreases."""

    def figures(self) -> records.StoreFigures:
        """Return its figures, in microseconds."""

    async def examine(self) -> None:
        """Read every version in the background, and note the damaged ones for `damaged`. Raises `StoreFault`."""

    async def damaged(self) -> list[records.DamagedVersion]:
        """Return the present versions that were found damaged, sorted. The next version of a resource replaces one."""

    async def erase_traces(self) -> records.Traces:
        """Erase overwritten values of versions from the files, if there are any since the last time.

        The thread that writes may write the whole file again. Raises `StoreFault`; then it is still to be done.
        """

    def run_pages(self, run: str) -> AsyncGenerator[list[bytes], None]:
        """Yield a page with a finished run as JSON without statuses, then its statuses in order; none for no run."""

    async def run_changes(self, run: str, *, limit: int) -> list[records.ChangedVersions]:
        """Return at most `limit` resources that a run stored or deleted, in the order of its statuses. Those whose
        event is no longer in the audit are left out.
        """

    def runs_pages(
        self, *, repository: str | None, projects: frozenset[str] | None, limit: int
    ) -> AsyncGenerator[list[bytes], None]:
        """Yield finished runs as JSON without statuses, newest first, in pages. None means every repository, or every
        project.
        """

    async def waits_for_store(self, repository: str) -> bool:
        """Return True if the head has a document that is `waiting`, or the repository owns an incomplete resource, or
        one that could not be deleted because it is in use.
        """

    async def remembered(self, name: str, *, held: int) -> repository_records.Remembered:
        """Return everything known of a repository, at one revision, with at most `held` names of held resources."""

    async def drift(self, repository: str, *, project: str) -> int:
        """Count the resources that no longer are as the repository's applied head wants them: changed or
        deleted since. It may take as long as a list, and does not take the thread of the caller.
        """

    async def attention(self, project: str, *, named: int) -> records.Attention:
        """Return the resources of a project that need attention, at one revision, at most `named` names each. It may
        take as long as a list, and does not take the thread of the caller.
        """

    async def repositories(self) -> list[repository_records.RepositoryRow]:
        """Return the state of all repositories that are remembered, by name in byte order."""

    async def create_project(self, name: str, *, at: str) -> None:
        """Make sure that a project exists."""

    async def directory(self) -> Directory:
        """Return people, memberships, keys, invitations and projects, at one revision, with the `number` of the last
        amendment.
        """

    async def amend(self, amendment: Amendment, *, after: int, audit: records.AuditRow) -> None:
        """Write one change of the directory with its audit event, as the amendment that follows the number `after`; the
        revision stays. Raises StaleChange if another process amended the directory since, StoreFault.
        """

    async def tell(self, events: Sequence[records.AuditRow]) -> None:
        """Write audit events of facts that are not in the store, as one link. Raises StoreFault."""

    def event_pages(
        self, wanted: records.AuditWanted, *, limit: int, documents: bool
    ) -> AsyncGenerator[list[bytes], None]:
        """Yield at most `limit` audit events as JSON, newest first, in pages. With `documents` each has the versions of
        the resource before and after it, as in its history.

        Each page is read at its own moment, so a slow caller keeps nothing open. An event that exists from the first
        page to the last is in exactly one of them. Events that are added meanwhile are in none, and removed ones may be
        missing at the end. Finding a few events among many may take seconds, on another thread.
        """

    async def audit_ends(self) -> tuple[ChainAnchor, ChainHead]:
        """Return both ends of the audit's chain: the last link that was removed, with how many events were removed so
        far, and the last link.
        """

    async def forget_events(self, *, before: str) -> bool:
        """Remove some of the oldest links whose events are all from before an instant, as `clock.rfc3339`
        writes it; return True when more may be left. The hash of the last one stays. Raises StoreFault.
        """

    async def auth_type(self) -> str | None:
        """Return the `auth.type` of the last start; None when it was never recorded."""

    async def put_auth_type(self, auth_type: str) -> None:
        """Record the `auth.type` of this start. Raises StoreFault."""

    async def touch_keys(self, used: Mapping[str, str]) -> None:
        """Write when keys were used last: RFC 3339 by the keys' ids. Raises StoreFault."""

    async def close(self) -> None:
        """Finish the write under way and close the files."""


class Operations(Protocol):
    """Sessions and notifications.

    Each method raises `StoreFault` when it cannot read or write, and when too many writes wait. A write is on the disk
    when it returns, unless its docstring says otherwise.
    """

    async def flow_key(self) -> bytes:
        """Return the key of sealed sign-ins (`reconciler.auth.oidc.flows`): 32 random bytes, made once."""

    async def sessions(self, digests: Collection[bytes] | None = None) -> list[records.SessionRow]:
        """Return every session, or those with these digests, the oldest first."""

    async def put_session(self, row: records.SessionRow, *, without: Collection[bytes] = ()) -> None:
        """Add a session and remove those with the digests `without`, in one transaction."""

    async def remove_sessions(self, digests: Collection[bytes]) -> None:
        """Remove the sessions with these digests."""

    async def touch_sessions(self, seen: Mapping[bytes, str]) -> None:
        """Note when sessions were seen last, by digest."""

    async def notifications(self) -> records.NotificationRows:
        """Return every notification in the order of ids, the statuses that people gave them by notification and person,
        and the number of the last change, at one moment.
        """

    async def note(self, noted: records.Noted, *, after: int) -> int:
        """Store one change of the notifications in one transaction, as the one that follows the number `after`; return
        its own number. Raises StaleChange if another process changed them since.
        """

    async def close(self) -> None:
        """Finish the writes that wait, and close."""


class Notice(NamedTuple):
    """A change that a replica tells the others, in the transaction of the change. `body` is in `store.notices`."""

    number: int
    writer: str  # the process: another one after a restart
    kind: str
    body: bytes


class Heard(NamedTuple):
    """An answer of the database: all notices since the last one, up to `revision`, that were written before the instant
    `asked_at` of the monotonic clock, and maybe more. `missed`: some are not kept any more, so that everything must be
    read again.
    """

    notices: Sequence[Notice]
    revision: int
    asked_at: float
    missed: bool = False


class Notices(Protocol):
    """The changes of all replicas in one order, that of their transactions, and numbered without gaps. They are kept
    for an hour.
    """

    @property
    def writer(self) -> str:
        """The name of this process in its notices."""

    @property
    def is_lost(self) -> bool:
        """Return True if the last question was not answered: reads and writes of the store fail at once."""

    def follow(self) -> AsyncGenerator[Heard, None]:
        """Yield each answer, for ever: soon after a notice, and at least each second. It begins where the store was
        opened, connects again after a fault, and goes on after the last notice.
        """

    def ask(self) -> None:
        """Ask the database soon, at most some times a second."""

    async def tell(self, kind: str, body: msgspec.Struct) -> None:
        """Write a notice that belongs to no other change. Raises StoreFault."""


class Leases(Protocol):
    """Which replicas live, and which repository each of them follows.

    All instants are the database's, so the clocks of replicas need not agree. A lease ends LEASE_SECONDS after it was
    taken or renewed. Then another replica may take it, and it gets a greater number, which every commit of a run
    checks (`Record.lease`): a commit and a take-over of the same repository wait for each other.
    """

    async def beat(self, replica: replica_records.ReplicaRow) -> replica_records.Beat:
        """Say that a replica lives, renew its leases, and return what is known of all, at one moment. Each method is
        one short transaction. Raises StoreFault, and NameTaken if another living process has the replica's name.
        """

    async def take(self, holder: str, groups: Sequence[Sequence[str]]) -> list[replica_records.Lease]:
        """Take the leases of each group, all of them or none, and return those taken. A group is left out if another
        replica has one of its leases, or is still storing a run under it. What the holder has gets a new number.
        """

    async def release(self, holder: str, repositories: Collection[str]) -> None:
        """End leases of this holder, so that another replica may take them at once."""

    async def leave(self, replica: replica_records.ReplicaRow) -> None:
        """End all leases of a replica that stops, and forget it."""

    async def ages(self) -> Mapping[str, timedelta]:
        """Return the time since the last beat of each replica that has not left, living or not, by name."""

    async def forget(self, age: timedelta) -> None:
        """Forget the replicas whose last beat is older than this."""

    async def close(self) -> None:
        """End the connection."""


class Replication(NamedTuple):
    """The parts of a store that several replicas share."""

    notices: Notices
    leases: Leases


BATCH = 1_000  # keys that one read asks for at a time


class PlanningView(Protocol):
    """The reads of a plan. Inside `snapshot()` they see one revision of the store.

    Synchronous, and used by one thread: the worker's. Each read raises `StoreFault`.
    """

    def snapshot(self) -> AbstractContextManager[int]:
        """Hold one revision until the context ends; yield its number."""

    def stored(self, project: str, keys: Iterable[Key]) -> dict[Key, StoredState]:
        """Return the stored resources among these keys. `damaged` is about the body, since digests do not show it."""

    def last_versions(self, project: str, keys: Iterable[Key]) -> dict[Key, int]:
        """Return the newest version that each of these keys ever had; keys that never existed are left out."""

    def bodies(self, project: str, keys: Iterable[Key]) -> dict[Key, bytes]:
        """Return the stored resources among these keys as a reader gets them, with `status`."""

    def documents(self, project: str, keys: Iterable[Key]) -> dict[Key, records.StoredDocument]:
        """Return the stored resources among these keys, with bodies and secrets."""

    def configurations(self, project: str) -> Iterator[tuple[Key, records.StoredDocument]]:
        """Yield every stored Configuration of a project, sorted by name, a row at a time."""

    def referrers(self, project: str, targets: Iterable[Key]) -> dict[Key, set[Key]]:
        """Return the stored resources that refer to each of these keys; keys without references are left out."""

    def versions_naming(self, project: str, kinds: Sequence[str], types: Iterable[str]) -> Iterator[records.VersionRow]:
        """Yield every stored version of these kinds that names one of these types, even of deleted resources.

        It may also yield others: types of another kind may have the same name, and for many types it yields all
        versions. It reads every version of the project, a row at a time.
        """

    def versions(self, project: str, key: Key, *, number: int | None = None) -> Iterator[records.VersionRow]:
        """Yield every stored version under this key, even of a deleted resource, or the one with this number; newest
        first, a row at a time.
        """

    def unrendered(self, project: str, program: str) -> list[records.Unrendered]:
        """Return the Configurations that this version of the program is to render, or to say something else of, sorted
        by name.
        """

    def past_routes(self, project: str) -> dict[str, bytes]:
        """Return the last routes of Configurations that no longer deliver (`PastRouteRow`), by name."""

    def quotes(self, project: str, texts: Sequence[str]) -> Iterator[records.QuoteRow]:
        """Iterate over the sentences of runs and audit events of a project that hold one of these texts."""

    def taken_ids(self, project: str, ids: Sequence[str]) -> dict[str, Key]:
        """Return the stored resources of the project that have one of these ids, by the id."""

    def owned(self, repository: str, project: str, *, unwanted: bool = False) -> list[StoredState]:
        """Return every resource that a repository owns, or those that are not in its applied head."""

    def owned_count(self, repository: str, project: str) -> int:
        """Count the resources that a repository owns."""

    def standing_at(self, repository: str, project: str, paths: Sequence[str]) -> list[tuple[str, Key]]:
        """Return (path, key) of the repository's stored resources in these files, or below folders of these names."""

    def without_lineage(self, repository: str, project: str, *, limit: int) -> list[records.Unexplained]:
        """Return resources of a repository for which the commit that changed their file is unknown, by path."""

    def origins(self, ids: Iterable[int]) -> dict[int, records.OriginRow]:
        """Return the origins with these ids."""

    def vacant_files(self, repository: str) -> list[tuple[str, str]]:
        """Return (path, reason) of every file of the applied head without documents although its name is one of a
        document, by path.
        """

    def given(self, repository: str) -> list[tuple[str, Key]]:
        """Return (path, key) of former resources of vacant or unreadable files that are not stored from there."""

    def wanted_at(self, repository: str, paths: Sequence[str]) -> list[tuple[str, Key]]:
        """Return (path, key) of the applied head's resources in these files, or below folders of these names."""

    def index(self, repository: str) -> tuple[list[repository_records.FileRow], list[repository_records.WantedRow]]:
        """Return the whole index of the applied head, by path."""

    def wanted_count(self, repository: str) -> int:
        """Count the resource documents in the applied head."""

    def wanted_in(self, repository: str, paths: Sequence[str]) -> list[repository_records.WantedRow]:
        """Return the resource documents of these files in the applied head."""

    def wanted_of(self, repository: str, keys: Iterable[Key]) -> list[repository_records.WantedRow]:
        """Return the documents of the applied head that have one of these keys."""

    def unmet(self, project: str, keys: Iterable[Key], *, without: Collection[str]) -> set[Key]:
        """Return those of these keys that are not stored although the applied head of a repository of the project has
        them. The repositories `without` do not count.
        """

    def blobs(self, repository: str, paths: Sequence[str]) -> dict[str, str]:
        """Return the blobs of these files in the applied head."""

    def unconverged(self, repository: str) -> list[str]:
        """Return the files of the applied head with a document that is not stored as it is there, or whose stored
        resource does not fit its type, by path.
        """

    def pruned_since(self, repository: str, at: int) -> PruneWindow:
        """Return the sums of a repository's prunes after an instant, in milliseconds of Unix time."""

    def stays(self, repository: str) -> set[repository_records.HeldRow]:
        """Return the resources that are not in the applied head and nevertheless not deleted."""

    def approval(self, repository: str) -> tuple[str, frozenset[Key]] | None:
        """Return the commit at which an admin approved deletions that are not done yet, and their keys."""

    def suspended(self, at: str) -> frozenset[str]:
        """Return the repositories that are suspended at an instant. Suspensions by a setting are not in the store."""

    def repository(self, name: str) -> repository_records.RepositoryRow | None:
        """Return the state of a repository after its last run."""

    def close(self) -> None:
        """End its connection."""
