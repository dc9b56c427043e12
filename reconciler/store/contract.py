"""The contract of the store, and the rows that it takes and returns."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import NamedTuple, Protocol

from reconciler.model import errors
from reconciler.model.directory import Amendment, Directory
from reconciler.model.histogram import Histogram
from reconciler.model.names import Key
from reconciler.model.outcomes import EVERYTHING
from reconciler.store.audit_chain import ChainAnchor, ChainHead

# What a store counts of itself, for whoever looks at the service from outside.

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


@dataclass(slots=True)
class CommitFigures:
    """Those since it was opened: how long each took in seconds, its wait for its turn included, how many were refused
    because the store had moved, and how many failed.
    """

    seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    moved: int = 0
    failed: int = 0


class StoreFigures(NamedTuple):
    """One moment. `file` and `log` are bytes on the disk, None when they cannot be asked for."""

    commits: CommitFigures
    file: int | None
    log: int | None


# What the store promises, whatever engine keeps it. Its rules about resources: none; it keeps what it is given.
#
# The promises, which one suite of tests proves:
#
# - A commit is one transaction. After `commit` returns, all of it is on disk; after a crash, all of it or none is
#   there.
# - `commit` compares the revision that the change was planned against with the present one, inside the transaction, and
#   raises `Moved` without writing when they differ, unless every commit since is known to have touched nothing of the
#   plan's footprint (see `outcomes.footprint_of`). Known are some of the last changes by this process. Of one that is
#   large, was written ahead or redacts, it is the project, all of which is touched; one that suspends, resumes or
#   releases a repository, or is of another process, touches everything. Nothing here assumes that only one process
#   writes.
# - The revision grows with every commit that changes what a plan or a reader sees, and never otherwise: a run's record
#   and statuses alone do not. It grows by one, and by a distance when the change was written ahead.
# - Nobody sees what is written ahead before the commit that shows it, and then all of it: no reader, no plan, and no
#   other process. What was dropped, or left by a process that died, is never seen. A commit between that writes the
#   same resource or id wins, and so does one that touches everything or rewrites versions, or a user who opens the
#   store: the change that was written ahead is void, and its commit raises `Moved`.
# - Reads see a whole commit or nothing of it. What comes in pages (a list, a history, a run) is one revision from its
#   first page to its last; no page is empty, or takes the thread of the caller for longer than about a millisecond.
# - Pages that are left early are closed with `aclose`, which ends their read at once. As long as they are open, the
#   store may keep whatever is written over, so that whoever hands them out limits how long that can be.
# - What a commit that rewrites versions wrote over is in none of the store's files any more once `erase_traces` said
#   so. That it is still to be said survives a crash.
# - A version that is not what was stored is never shown as if it were: `get` raises `Damaged`, and in lists, histories
#   and events something else stands for it, by which the others are not touched. A plan that compares it is told.
# - Every output has one order: lists by name in byte order, history and runs newest first.
# - Every transaction that shows audit events adds a link to their chain (see `audit_chain`), in the order of the
#   commits.
# - A store of a later version is refused with `NewerStore`; an earlier one is migrated, one numbered step at a time,
#   each step in one transaction with its record.
# - A write to a store that was removed or replaced meanwhile raises `StoreFault`: it is never acknowledged.
# - When the disk is full or read-only, a write raises `StoreFault`, nothing of it is kept, and reads go on.


class StoreFault(errors.Transient):
    """The store could not read or write; nothing of the commit was kept."""


class Damaged(errors.Refused):
    """One resource cannot be read as what was stored; all else can."""


class NewerStore(errors.Refused):
    """The store was written by a later version of the product."""


class Moved(errors.Transient):
    """The store changed since the change was planned; plan again."""


class OriginRow(NamedTuple):
    """What is the same for all versions that one change stores of one source: kept once, however many those are.

    `id` is made of all the rest (`rows.origin_row`), so that whoever makes the same has the same. `head` and `tail` are
    the source as canonical JSON, between which the `line` and `path` go that each version has of its own.
    """

    id: int
    head: bytes
    tail: bytes
    actor: str
    run: str | None
    request: str | None
    created_at: str


class DamagedVersion(NamedTuple):
    """A stored version that is not what was stored."""

    project: str
    kind: str
    name: str
    version: int


class VersionRow(NamedTuple):
    """One version of one resource. `body` is what a reader gets, less `status`.

    Its source is that of `origin`, which the same part holds, with `path` and `line` when it came from a file.
    """

    project: str
    kind: str
    name: str
    version: int
    body: bytes
    secrets: bytes | None
    origin: int
    path: str | None
    line: int | None

    def __repr__(self) -> str:
        """Without the secrets."""
        return f"VersionRow({self.project}, {self.kind} {self.name}, {self.version}, {self.body!r})"


class SourcePlace(IntEnum):
    """Which place the source in a resource's status has, where it is not the version's."""

    NONE = 0
    OWN = 1  # where the resource stands now


class HeadRow(NamedTuple):
    """The present state of a resource: which version, whose, where it stands; its `status` as JSON without `source`.

    `resource_id` is unique in the project. The status shows the version's source: with another `origin` or another
    `place` where they are not None.
    """

    project: str
    kind: str
    name: str
    version: int
    resource_id: str
    digest: bytes
    owner: str | None
    path: str | None
    line: int | None
    protected: int
    incomplete: int
    status: bytes
    drifted: int = 0  # 1: the API stored it while its owner was suspended
    origin: int | None = None
    place: SourcePlace | None = None


class HeadStatusRow(NamedTuple):
    """A new `status`, without `source`, of a resource whose version, owner and place stay.

    `digest` is there when what equality is decided on is computed in another way than before.
    """

    project: str
    kind: str
    name: str
    incomplete: int
    status: bytes
    digest: bytes | None = None


class PastRouteRow(NamedTuple):
    """What is remembered of a Configuration that delivered and does not, as JSON (`routing.stale.Past`); None: nothing
    any more. It comes with the row that says so in the Configuration's status, or removes that.
    """

    project: str
    configuration: str
    is_in_force: int
    past: bytes | None


class RewrittenRow(NamedTuple):
    """A stored version, the present one or an older one, with less to see than before: what became a secret is masked,
    or what should not have been there is redacted.

    Its number, its id, its source and when it was stored stay. A present version that was damaged is restored by one.
    """

    project: str
    kind: str
    name: str
    version: int
    body: bytes
    secrets: bytes | None

    def __repr__(self) -> str:
        """Without the secrets."""
        return f"RewrittenRow({self.project}, {self.kind} {self.name}, {self.version}, {self.body!r})"


class QuoteRow(NamedTuple):
    """A sentence that quotes a stored version, or something that was not stored for it, and what is in its place.

    `of` says what it is: `reason` or `notes` of a run's status, the `message` of a run, the `detail` of an audit event.
    `id` is the run's, or the event's number; `ordinal` the status's in its run.
    """

    of: str
    id: str
    ordinal: int
    text: str


class LineageRow(NamedTuple):
    """Which commit gave a stored resource's file what it is, found after it was stored.

    It is written where the present version is still of the origin `before`, and its status of `status_before`, None for
    that of the version; whatever was changed meanwhile stays as it is.
    """

    project: str
    kind: str
    name: str
    version: int
    before: int
    origin: int
    status_before: int | None
    status: int | None


class ReferenceRow(NamedTuple):
    """One resource refers to another, by the version that is stored with this row."""

    project: str
    kind: str
    name: str
    target_kind: str
    target_name: str


class KeyRow(NamedTuple):
    """A resource that goes."""

    project: str
    kind: str
    name: str


class ChangeRow(NamedTuple):
    """One change of one resource, an event of the audit. The resource before it is version `version_before` of its
    history; who changed it, and when, is that of `origin`, which the same part holds.
    """

    project: str
    action: str
    kind: str
    name: str
    version_before: int | None
    version_after: int | None
    origin: int


class AuditRow(NamedTuple):
    """Another event of the audit, or one of a single resource.

    Of a repository that is suspended or resumed, or whose held deletions are approved, `kind` is `Repository` and there
    are no versions.
    """

    at: str
    project: str
    actor: str
    action: str
    kind: str
    name: str
    version_before: int | None
    version_after: int | None
    run: str | None
    request: str | None
    detail: str | None = None  # what the actor said of it
    address: str | None = None  # where the request came from, when that of the commit is not it


class AuditPlace(NamedTuple):
    """Where an event stands in the audit: the link that shows it, and its number. A page goes on behind one."""

    link: int
    event: int


class AuditWanted(NamedTuple):
    """Which events are asked for: all of what is not None. `projects` has an empty name for what concerns the
    organization; `since` (inclusive) and `until` (exclusive) are as `clock.rfc3339` writes instants. With the kind
    `Key`, `name` is the id of a key or what it is called.
    """

    projects: frozenset[str] | None = None
    kind: str | None = None
    name: str | None = None
    actor: str | None = None
    action: str | None = None
    since: str | None = None
    until: str | None = None
    after: AuditPlace | None = None


class FileRow(NamedTuple):
    """One considered file of a repository's applied head; `vacant` says why it holds nothing: a link, or empty.

    `given` is what a file that is vacant or cannot be read held before and what stands nowhere since: a JSON array of
    [kind, name], without what is stored from there.
    """

    repository: str
    path: str
    blob: str
    vacant: str | None = None
    given: str | None = None


class WantedRow(NamedTuple):
    """One resource document of a repository's applied head.

    `digest` is None when it was invalid; `kind` and `name` are None when they could not be read. `unconverged` is None
    when the store holds what it wants, `waiting` when another change of the store may let it in (another repository
    owns the resource, or its id is taken), else `refused`.
    """

    repository: str
    path: str
    position: int
    kind: str | None
    name: str | None
    digest: bytes | None
    unconverged: str | None = None


class StatusRow(NamedTuple):
    """One status of a run that is not `unchanged`."""

    run: str
    ordinal: int
    kind: str | None
    name: str | None
    status: str
    reason: str | None
    path: str | None
    line: int | None
    notes: str | None = None  # one a line


class PruneRow(NamedTuple):
    """A run that deleted what its repository no longer holds: how much was owned before, and how many resources went
    without approval. `at` is in milliseconds of Unix time; the repository's rows that are 24 hours older go with it.
    """

    repository: str
    at: int
    owned: int
    deleted: int


class HeldRow(NamedTuple):
    """A resource that the repository's head does not hold and that stays all the same.

    `why` is `held` when a guard stopped its deletion, `in-use` when another resource refers to it, `protected` when its
    label keeps it.
    """

    repository: str
    kind: str
    name: str
    why: str


class ApprovalRow(NamedTuple):
    """An admin lets go what is held at a commit, the repository's head."""

    repository: str
    commit: str
    actor: str
    at: str


class RunRow(NamedTuple):
    """One finished run. `counts` is a JSON object of status to number."""

    id: str
    project: str
    repository: str
    trigger: str
    actor: str
    commit: str | None
    outcome: str
    message: str | None
    counts: bytes
    rewound: int
    started_at: str
    finished_at: str
    duration_ms: int


class RepositoryRow(NamedTuple):
    """What is remembered of a watched repository between runs.

    `fingerprint` digests the settings and schemas that shaped the last read, `tree` is the id of the tree that was
    read: when both are the same as now, there is nothing to do. `origin` digests where `commit` was applied from.
    `approvable` says whether an admin can release what is held at `head`: 1, or 0 when a file cannot be read; None
    when nothing is held.
    """

    name: str
    project: str
    fingerprint: str | None
    commit: str | None
    tree: str | None
    head: str | None
    state: str
    message: str | None
    since: str
    origin: str | None = None
    approvable: int | None = None


class SuspensionRow(NamedTuple):
    """A repository that is not looked at, and what it owns an admin may write: why, by whom, since when and until when.

    `until` is None when only a person ends it. Both instants are as `clock.rfc3339` writes them, whose order as text is
    that of time.
    """

    repository: str
    reason: str
    actor: str
    since: str
    until: str | None


class Held(NamedTuple):
    """How many resources are held at a repository's head, and the first of them in order."""

    total: int
    first: list[Key]


class Some(NamedTuple):
    """How many there are, and the first of them in byte order."""

    total: int
    first: tuple[str, ...]


class DeprecatedRow(NamedTuple):
    """A resource that is deprecated and in use: by which resources, as `Kind name`. `message` is its
    `metadata.additionalInfo.message`, empty when there is none.
    """

    kind: str
    name: str
    message: str
    users: Some


class Attention(NamedTuple):
    """What somebody should look at in a project: Configurations that are incomplete, those whose last good route is in
    force since their present version cannot deliver, what is deprecated, and what else is incomplete.
    """

    incomplete: Some
    deprecated: tuple[DeprecatedRow, ...]
    stale: Some = Some(0, ())
    others: Some = Some(0, ())  # resources of other kinds that are incomplete, with their kinds


class Remembered(NamedTuple):
    """All that is remembered of one repository."""

    row: RepositoryRow | None
    suspension: SuspensionRow | None
    last_run: str | None
    held: Held


@dataclass(frozen=True, slots=True)
class Changes:
    """One part of a change. A large change is many parts in one transaction, so that no part is large in memory."""

    origins: tuple[OriginRow, ...] = ()  # all that rows of the same part are of; others may hold them as well
    versions: tuple[VersionRow, ...] = ()
    references: tuple[ReferenceRow, ...] = ()  # of the versions in the same part: all of them, older ones go
    heads: tuple[HeadRow, ...] = ()
    head_statuses: tuple[HeadStatusRow, ...] = ()
    past_routes: tuple[PastRouteRow, ...] = ()
    rewritten: tuple[RewrittenRow, ...] = ()
    quotes: tuple[QuoteRow, ...] = ()
    removed: tuple[KeyRow, ...] = ()
    changed: tuple[ChangeRow, ...] = ()
    audit: tuple[AuditRow, ...] = ()
    forgotten_files: tuple[tuple[str, str], ...] = ()  # (repository, path): its FileRow and WantedRows go
    files: tuple[FileRow, ...] = ()
    wanted: tuple[WantedRow, ...] = ()
    lineages: tuple[LineageRow, ...] = ()  # planned against no revision: each looks whether it still holds
    pruned: tuple[PruneRow, ...] = ()
    held: tuple[HeldRow, ...] = ()
    statuses: tuple[StatusRow, ...] = ()
    # `files` and `wanted` belong to the whole index of a repository, written anew: nobody sees them before that of
    # before is forgotten (`Record.forget_files_of`).
    whole_index: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """What is written beside the changes, or without any: a run's end and a repository's state."""

    run: RunRow | None = None
    repository: RepositoryRow | None = None
    forget_files_of: str | None = (
        None  # a full read: every FileRow and WantedRow of it goes before the parts are written
    )
    release_repository: str | None = None  # watched no more: what it owned is the API's now
    forget_held_of: str | None = None  # every HeldRow of it goes before the parts are written
    forget_approval_of: str | None = None  # nothing is held any more
    suspension: SuspensionRow | None = None  # in place of one that there may be
    resume: str | None = None  # the suspension of this repository ends
    audit: tuple[AuditRow, ...] = ()  # of what this record does
    address: str | None = None  # where the request came from that did all this
    # Something is redacted: whatever was found of it, the revision grows and the traces are to be erased. Otherwise it
    # would show whether a secret of an older version held the text.
    redacts: bool = False
    # What is held now is approved in place of what was; `Moved` when the head is another one, or nothing can be
    # approved at it.
    approval: ApprovalRow | None = None


class Traces(StrEnum):
    """What is left in the store's files of what commits that rewrite versions wrote over."""

    NONE = "none"
    ERASED = "erased"  # just now
    KEPT = "kept"  # as long as somebody reads an older revision


class Ahead(Protocol):
    """Parts of one change that are written before it is decided whether it is stored: nobody sees them until `commit`
    is given this, and a store that is opened again has none of them.

    They go in small transactions, between which others write. One change at a time is written ahead. An event of the
    audit trail has the number that it got when it was written, not when it was shown.
    """

    async def write(self, parts: Iterable[Changes]) -> None:
        """Write parts in the order in which they would be committed; what cannot be written unseen is kept in memory.

        That is what rewrites versions and quotes, lineages, rows of the ledger, and what belongs to a second repository
        or run. Parts of a change that is void are not taken. Raises `StoreFault`, and whatever taking a part raises;
        the change is void then, and to be dropped.
        """

    async def drop(self) -> None:
        """None of it is stored. Also ends it; `commit` ends it too, whether it stores or raises."""


class Store(Protocol):
    """See the module's promises."""

    async def revision(self) -> int:
        """The number of commits with changes so far. Raises `StoreFault` where the store cannot be used any more."""

    async def hmac_key(self) -> bytes:
        """32 random bytes, made with the store, under which sensitive values are digested."""

    async def get(self, project: str, key: Key) -> bytes | None:
        """The resource as JSON with its `status`, or None. Raises `Damaged`."""

    def list_pages(self, project: str, kind: str, *, after: str, limit: int) -> AsyncGenerator[list[bytes], None]:
        """The resources of a kind in byte order of their names, after a name ('' for all), in pages of one revision."""

    def history_pages(self, project: str, key: Key) -> AsyncGenerator[list[bytes], None]:
        """Every version with its `status`, newest first, in pages; none when the resource never existed."""

    async def commit(
        self,
        parts: Iterable[Changes],
        *,
        record: Record,
        planned_at: int | None,
        footprint: bytes = EVERYTHING,
        ahead: Ahead | None = None,
    ) -> int:
        """Show all of it at once, behind what `ahead` holds, in one transaction; the revision after it.

        `planned_at` is the revision that the parts were planned against, None when there are no parts, or only such as
        need none. `footprint` (see `outcomes.footprint_of`) names what the plan looked at and may change: changes since
        that touch none of it do not matter. The parts are taken one at a time, on the thread that writes. Raises
        `Moved`, `StoreFault`.
        """

    def ahead(self) -> Ahead | None:
        """Begin to write a large change ahead; None while another one is."""

    def figures(self) -> StoreFigures:
        """What it counts of itself; costs microseconds."""

    async def examine(self) -> None:
        """Look through all versions for those that are damaged, beside everything else. Raises `StoreFault`."""

    async def damaged(self) -> list[DamagedVersion]:
        """What was found damaged and still is, sorted; what was found since the last call, also if it was restored."""

    def suspect(self, found: Iterable[DamagedVersion]) -> None:
        """Take over what a plan found damaged."""

    async def erase_traces(self) -> Traces:
        """Take out of the files what commits that rewrite versions wrote over, if any did since the last time.

        The whole file may be written anew, on the thread that writes. Raises `StoreFault`; then it is still to be done.
        """

    def run_pages(self, run: str) -> AsyncGenerator[list[bytes], None]:
        """A finished run as JSON without statuses, a page by itself, then its statuses in order; no page for none."""

    def runs_pages(
        self, *, repository: str | None, projects: frozenset[str] | None, limit: int
    ) -> AsyncGenerator[list[bytes], None]:
        """Finished runs of a repository, or of all, in these projects, or in all, as JSON without statuses, newest
        first, in pages.
        """

    async def runs(self, *, repository: str | None, limit: int) -> list[bytes]:
        """The same at once, for whoever wants a few."""

    async def last_run(self, repository: str) -> str | None:
        """The id of a repository's newest finished run."""

    async def waits_for_store(self, repository: str) -> bool:
        """Whether a repository's head holds something that is `waiting`, or it owns something incomplete, or
        something that is to go and is in use.
        """

    async def held(self, repository: str, *, limit: int) -> Held:
        """What is `held` of a repository, the first of it in byte order of kind and name."""

    async def repository(self, name: str) -> RepositoryRow | None:
        """What is remembered of a repository between runs."""

    async def remembered(self, name: str, *, held: int) -> Remembered:
        """All that is remembered of a repository, at one revision; of what is held at most so many by name."""

    async def suspension(self, repository: str) -> SuspensionRow | None:
        """The suspension of a repository, also one whose time is over."""

    async def drift(self, repository: str, *, project: str) -> int:
        """How many resources are not as the repository's applied head wants them although they were: changed or
        deleted since. It may take as long as a list, and does not take the thread of the caller.
        """

    async def attention(self, project: str, *, named: int) -> Attention:
        """What somebody should look at in a project, as of one revision, with at most so many names each. It may take
        as long as a list, and does not take the thread of the caller.
        """

    async def repositories(self) -> list[str]:
        """The names of all repositories that are remembered, in byte order."""

    async def projects(self) -> list[str]:
        """Every project's name, in byte order."""

    async def create_project(self, name: str, *, at: str) -> None:
        """Make sure that a project exists."""

    async def directory(self) -> Directory:
        """Everybody who may do something, and the projects, as of one revision."""

    async def amend(self, amendment: Amendment, *, audit: AuditRow) -> None:
        """Write one change of who may do what, with its audit event; the revision stays. Raises StoreFault."""

    async def tell(self, events: Sequence[AuditRow]) -> None:
        """Write audit events of what the store itself does not hold, as one link. Raises StoreFault."""

    def event_pages(self, wanted: AuditWanted, *, limit: int, documents: bool) -> AsyncGenerator[list[bytes], None]:
        """Audit events as JSON, the newest first, in pages of a moment each; no more than `limit`. With `documents`
        each has the versions of the resource before and after it, as its history shows them.

        Whoever takes a page slowly keeps nothing open meanwhile. Each event that is there from the first page to the
        last is in one of them, once; what comes meanwhile is in none, and what goes may be lacking at the end. Looking
        for a few events among many may take seconds, and does not take the thread of the caller.
        """

    async def audit_head(self) -> ChainHead:
        """The last link of the audit's chain: its number and hash."""

    async def audit_anchor(self) -> ChainAnchor:
        """The last link that went, and how many events went so far."""

    async def forget_events(self, *, before: str) -> bool:
        """One short step of removing the oldest links whose events are all from before an instant, as `clock.rfc3339`
        writes it; whether there may be more to do. The last hash that went stays. Raises StoreFault.
        """

    async def auth_type(self) -> str | None:
        """How people signed in the last time (`auth.type`); None for a store that nobody recorded it in yet."""

    async def put_auth_type(self, auth_type: str) -> None:
        """Record it, where nothing is lost by it. Raises StoreFault."""

    async def touch_keys(self, used: Mapping[str, str]) -> None:
        """Write when keys were used last: RFC 3339 by the keys' ids. Raises StoreFault."""

    async def close(self) -> None:
        """Finish the write under way and close the files."""
