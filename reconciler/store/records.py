"""The rows and records that the store takes and returns.

Shapes alone: the promises about them are in `reconciler.store.contract`. Instants are RFC 3339 in UTC, as
`clock.rfc3339` writes them, so that their order as text is that of time.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import NamedTuple

from reconciler.model.histogram import Histogram
from reconciler.model.names import Key
from reconciler.store.replica_records import Lease
from reconciler.store.repository_records import (
    ApprovalRow,
    FileRow,
    HeldRow,
    PruneRow,
    RepositoryRow,
    RunRow,
    StatusRow,
    SuspensionRow,
    WantedRow,
)

# Resources and their versions.


class OriginRow(NamedTuple):
    """The source of all versions that one change stores from one place, kept once.

    `id` is a digest of the other fields (`planner.changes.origin_row`), so equal origins have equal ids. `head` and
    `tail` are the two halves of the source as canonical JSON; the `line` and `path` of each version go between them.
    """

    id: int
    head: bytes
    tail: bytes
    actor: str
    run: str | None
    request: str | None
    created_at: str


class VersionRow(NamedTuple):
    """One stored version of one resource, even of a deleted one. `body` is the resource as a reader gets it, without
    `status`; `secrets` are as in `StoredDocument`.

    A new row has its `origin` in the same part of the change, and `path` and `line` if it comes from a file. A row that
    rewrites a version, or is read for a plan, does not have these three: in the store they stay as they are.
    """

    project: str
    kind: str
    name: str
    version: int
    body: bytes
    secrets: bytes | None
    origin: int = 0
    path: str | None = None
    line: int | None = None

    @property
    def key(self) -> Key:
        """The key of its resource."""
        return Key(self.kind, self.name)

    def __repr__(self) -> str:
        """Leave out the secrets."""
        return f"VersionRow({self.project}, {self.kind} {self.name}, {self.version}, {self.body!r})"


class SourcePlace(IntEnum):
    """The place in the source that a resource's status shows, if it is not that of the version."""

    NONE = 0
    OWN = 1  # the present place of the resource


class HeadRow(NamedTuple):
    """The present state of a resource: version, owner, place, and `status` as JSON without `source`.

    `resource_id` is unique in the project. The status shows the source of the version, unless `origin` or `place` is
    set.
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

    `digest` is set when the digest that equality is decided by is computed in another way than before.
    """

    project: str
    kind: str
    name: str
    incomplete: int
    status: bytes
    digest: bytes | None = None


class PastRouteRow(NamedTuple):
    """The last route of a Configuration that no longer delivers, as JSON (`model.routes`); None removes it."""

    project: str
    configuration: str
    is_in_force: int
    past: bytes | None


class RenderingRow(NamedTuple):
    """The rendering of a Configuration, made of `inputs` (see `Unrendered`) by this version of the program.

    `said` is its `status.rendering` as JSON, None if it is not rendered. `body` is None if the rendering in force
    stays. The resource gets `status` where it has `status_before`. Nothing is written if it uses something else by now,
    or something other than `said_before` is said: a redaction takes away what is in force.
    """

    project: str
    configuration: str
    program: str
    inputs: str
    said: bytes | None
    body: bytes | None
    said_before: bytes | None
    status_before: bytes
    status: bytes


class QuoteRow(NamedTuple):
    """A stored sentence that quotes a resource, or its replacement.

    `of` is `reason` or `notes` (of a run's status), `message` (of a run) or `detail` (of an audit event). `id` is the
    run's, or the event's number; `ordinal` is the status's in its run.
    """

    of: str
    id: str
    ordinal: int
    text: str


class LineageRow(NamedTuple):
    """The commit that gave a stored resource's file its content, found after it was stored.

    It is written only if the version still has the origin `before` and the status the origin `status_before` (None:
    that of the version). A resource that changed meanwhile stays as it is.
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
    """A reference from one resource to another, by the version that is stored with this row."""

    project: str
    kind: str
    name: str
    target_kind: str
    target_name: str


class KeyRow(NamedTuple):
    """A resource to delete."""

    project: str
    kind: str
    name: str


class ChangedVersions(NamedTuple):
    """A resource with its status in a run or a comparison, and its versions before and after; None where there is none.

    `path` and `line` are its place in Git.
    """

    kind: str
    name: str
    status: str
    path: str | None
    line: int | None
    before: int | None
    after: int | None


class DamagedVersion(NamedTuple):
    """A stored version whose bytes are not those that were stored."""

    project: str
    kind: str
    name: str
    version: int


# The audit.


class AuditRow(NamedTuple):
    """An audit event.

    For a repository that is suspended or resumed, or whose held deletions are approved, `kind` is `Repository` and
    there are no versions.
    """

    at: str
    project: str
    actor: str
    action: str
    kind: str
    name: str
    version_before: int | None = None
    version_after: int | None = None
    run: str | None = None
    request: str | None = None
    detail: str | None = None  # from the actor
    address: str | None = None  # of the request, if it is not that of the commit


class AuditPlace(NamedTuple):
    """The position of an event in the audit: its link and its number. The next page begins after it."""

    link: int
    event: int


class AuditWanted(NamedTuple):
    """A query of the audit: every field that is not None must match.

    `projects` has an empty name for events of the organization. `since` is inclusive, `until` exclusive. With the kind
    `Key`, `name` is the id or the name of a key.
    """

    projects: frozenset[str] | None = None
    kind: str | None = None
    name: str | None = None
    actor: str | None = None
    action: str | None = None
    since: str | None = None
    until: str | None = None
    after: AuditPlace | None = None


# Repositories: their applied heads, their held deletions, and their runs.


# Resources that need attention.


class Some(NamedTuple):
    """A number of names, and the first of them in byte order."""

    total: int
    first: tuple[str, ...]


class DeprecatedRow(NamedTuple):
    """A deprecated resource and its users, as `Kind name`. `message` is its `metadata.additionalInfo.message`."""

    kind: str
    name: str
    message: str
    users: Some


class Attention(NamedTuple):
    """Resources of a project that need attention. `stale` are Configurations that deliver by their last good route,
    since their present version cannot deliver.
    """

    incomplete: Some  # Configurations
    deprecated: tuple[DeprecatedRow, ...]
    stale: Some = Some(0, ())
    others: Some = Some(0, ())  # incomplete resources of other kinds, with their kinds


# One change of the store, and its message to subscribers.


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """A commit that changed resources, or the state of repositories that wait for some.

    `origin` is the repository of the run, None for a request. `touched` are other repositories whose resources changed
    their owner or status. `changed` is False if no resource changed; `project` is None if only owners changed.
    `changed_endpoints` are the webhooks that it disabled, deleted or moved to another address. `is_remote`: another
    replica committed it, and does what is done once for a change.
    """

    origin: str | None
    touched: Collection[str] = ()
    changed: bool = True
    project: str | None = None
    changed_endpoints: Collection[str] = ()
    is_remote: bool = False


@dataclass(slots=True)
class Changes:
    """One part of a change. A large change is many parts in one transaction, so that no part is large in memory.

    The planner fills a part row by row; after that, nobody changes it.
    """

    origins: list[OriginRow] = field(default_factory=list)  # of every row in this part; other parts may repeat them
    versions: list[VersionRow] = field(default_factory=list)
    references: list[ReferenceRow] = field(default_factory=list)  # all of these versions; older ones are deleted
    heads: list[HeadRow] = field(default_factory=list)
    head_statuses: list[HeadStatusRow] = field(default_factory=list)
    past_routes: list[PastRouteRow] = field(default_factory=list)
    renderings: list[RenderingRow] = field(default_factory=list)  # each checks that it holds
    rewritten: list[VersionRow] = field(default_factory=list)
    quotes: list[QuoteRow] = field(default_factory=list)
    removed: list[KeyRow] = field(default_factory=list)
    audit: list[AuditRow] = field(default_factory=list)
    forgotten_files: list[tuple[str, str]] = field(default_factory=list)  # (repository, path): delete all its rows
    files: list[FileRow] = field(default_factory=list)
    wanted: list[WantedRow] = field(default_factory=list)
    lineages: list[LineageRow] = field(default_factory=list)  # planned without a lock, so each checks its resource
    pruned: list[PruneRow] = field(default_factory=list)
    held: list[HeldRow] = field(default_factory=list)
    statuses: list[StatusRow] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Record:
    """The rest of a transaction, with changes or without: the end of a run and the state of a repository."""

    run: RunRow | None = None
    repository: RepositoryRow | None = None
    forget_files_of: str | None = None  # a full read: delete every FileRow and WantedRow of it before the parts
    release_repository: str | None = None  # no longer watched: the API owns its resources from now on
    forget_held_of: str | None = None  # delete every HeldRow of it before the parts
    forget_approval_of: str | None = None  # nothing is held any more
    suspension: SuspensionRow | None = None  # replaces an earlier one
    resume: str | None = None  # end the suspension of this repository
    audit: tuple[AuditRow, ...] = ()  # events of this record
    address: str | None = None  # of the request
    # A redaction: the revision grows and the traces must be erased even if no version has the text. Otherwise the
    # revision would reveal if a secret of an older version has it.
    redacts: bool = False
    change: ResourceChange | None = None  # for subscribers; None if it does not concern them
    # Replaces an earlier approval. Raises `Moved` if it is for another head, or if nothing can be approved there.
    approval: ApprovalRow | None = None
    lease: Lease | None = None  # of a run: nothing is written if another replica has it
    beside: "tuple[Record, ...]" = ()  # of other repositories, in the same transaction


class Named(NamedTuple):
    """A run by its id, or a repository by its name, with its project."""

    project: str
    name: str


class Committed(NamedTuple):
    """The end of `Store.commit`, of this process or of another replica. `keys` are the resources that it may have
    changed, and `revision` that after it. `released`: all resources of a repository have another owner.

    After `commit.MOST_KEYS` of them, a key without a name stands for every resource of its kind.
    """

    revision: int
    keys: Collection[KeyRow]
    runs: Sequence[Named] = ()
    repositories: Sequence[Named] = ()
    released: bool = False
    is_remote: bool = False


def committed(revision: int, keys: Collection[KeyRow], every: Iterable[Record]) -> Committed:
    """Return what subscribers hear of a commit with these records."""
    told = tuple(every)
    return Committed(
        revision,
        keys,
        tuple(Named(one.run.project, one.run.id) for one in told if one.run is not None),
        tuple(Named(one.repository.project, one.repository.name) for one in told if one.repository is not None),
        released=any(one.release_repository is not None for one in told),
    )


class Traces(StrEnum):
    """The state of overwritten values of versions in the store's files."""

    NONE = "none"
    ERASED = "erased"  # by this call
    KEPT = "kept"  # as long as a reader has an older revision open


# Figures of the store.

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


@dataclass(slots=True)
class CommitFigures:
    """Commits since the store was opened: their seconds, including waits, and the numbers of those that were refused
    because the store had changed, and of those that failed.
    """

    seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    moved: int = 0
    failed: int = 0


class StoreFigures(NamedTuple):
    """Figures at one moment. `file` and `log` are bytes on the disk, None when unknown."""

    commits: CommitFigures
    file: int | None
    log: int | None


# Reads of a plan.


class StoredDocument(NamedTuple):
    """A stored resource and its secrets: `body` is masked and has no status. Both are empty if the resource is damaged.

    `head` and `tail` are the source of its version as in `OriginRow`.
    """

    body: bytes
    secrets: bytes | None
    owner: str | None
    incomplete: int
    status: bytes
    resource_id: str
    head: bytes
    tail: bytes

    def __repr__(self) -> str:
        """Leave out the secrets."""
        return f"StoredDocument({self.body!r})"


class Unrendered(NamedTuple):
    """A Configuration whose rendering or `status.rendering` is outdated.

    `inputs` changes with every resource that it uses. `said` is its last `status.rendering`; `is_said`: that is still
    right, and only missing in the status.
    """

    configuration: str
    inputs: str
    is_said: int
    said: bytes | None


class Unexplained(NamedTuple):
    """A stored resource without lineage: its source does not name the commit that last changed its file.

    `origin` and `path` are those of its present version. `status` is the origin of its status if that is another one.
    `shown` and `shown_path` are the origin and the path that readers see.
    """

    key: Key
    version: int
    origin: int
    path: str | None
    status: int | None
    shown: int
    shown_path: str | None


# Sessions and notifications.


class SessionRow(NamedTuple):
    """A signed-in browser."""

    digest: bytes  # SHA-256 of the cookie's value
    user: str  # an id
    losses: int  # those of the person when the session began
    created_at: str
    seen_at: str
    id_token: str  # of the provider, for its own sign-out; empty for a person with a password

    def __repr__(self) -> str:
        return f"SessionRow(user={self.user!r}, created_at={self.created_at!r})"


class NotificationRow(NamedTuple):
    """A stored notification; `body` is JSON, which `reconciler.notifications.models` reads and writes."""

    id: str
    body: bytes


class NotificationStatusRow(NamedTuple):
    """The status that a person gave a notification. There is no row for an unread one."""

    notification: str
    user: str
    status: str


class NotificationRows(NamedTuple):
    """All notifications at one moment: the number of the last change, the rows, and the statuses of people."""

    number: int
    rows: Sequence[NotificationRow]
    statuses: Sequence[NotificationStatusRow]


class Noted(NamedTuple):
    """One change of the notifications: rows to put, ids to forget with all their statuses, ids that become unread for
    everybody who read them, and statuses that people gave them; `unread` removes one.
    """

    put: Sequence[NotificationRow] = ()
    forget: Collection[str] = ()
    unread: Collection[str] = ()
    statuses: Sequence[NotificationStatusRow] = ()
