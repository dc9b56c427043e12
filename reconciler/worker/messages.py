"""Messages between the service and the worker, and their framing.

A frame is its length (4 bytes, big-endian), then one message in msgpack. A hostile file may control the child, so the
service only decodes declared types from it: any other message ends the child.
"""

import struct
from collections.abc import Callable, Generator, Iterable, Iterator
from enum import StrEnum
from itertools import islice
from typing import TypeAlias, TypeVar

import msgspec

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.model.flows import Flow
from reconciler.model.principals import Actor
from reconciler.model.repository_rules import RepositoryRules
from reconciler.model.secret_references import NO_SECRETS, AvailableSecrets
from reconciler.store.records import ChangedVersions, Changes
from reconciler.worker.sandbox import Protections

LENGTH = struct.Struct(">I")
# Bytes. Only a faulty peer exceeds it: a part has at most 4 MiB and one resource, a resource at most 16 MiB of text,
# which JSON escapes to at most six times as much, and `requests` limits its answers.
FRAME_LIMIT = 256 * 1024 * 1024


class SecretMessage(msgspec.Struct, frozen=True):
    """A message with secrets in clear text, or with a key. Its representation must not have them."""

    def __repr__(self) -> str:
        """Return the name without the fields."""
        return f"{type(self).__name__}(...)"


class Context(SecretMessage, frozen=True):
    """The inputs of every plan: time, randomness and keys are arguments.

    `milliseconds` is the Unix time that new ids carry, `at` the same instant as RFC 3339 text, `seed` the randomness
    from which new ids are derived. `secrets` are the names that the project may refer to, and no values.
    """

    store: str
    project: str
    hmac_key: bytes
    api_versions: frozenset[str]
    at: str
    milliseconds: int
    seed: bytes
    secrets: AvailableSecrets = NO_SECRETS
    refuse_unknown: bool = False  # the setting `resources.unknownParameters`


class ProjectRepository(msgspec.Struct, frozen=True, kw_only=True):
    """A repository of the project, and where its commit was found: a branch by its short name, any other ref by its
    full one, or the id of a commit.
    """

    rules: RepositoryRules
    branch: str


class CommitJob(ProjectRepository, frozen=True, kw_only=True, tag="commit"):
    """Plan one commit of a repository. `full` reads every file, otherwise only changed files are read. `origin` is a
    digest of the URL and the followed ref. `neighbours` are the other repositories of the project, which may become the
    owners of resources that this one drops.
    """

    context: Context
    mirror: str
    commit: str
    run: str
    full: bool
    origin: str
    neighbours: tuple[ProjectRepository, ...]
    beside: tuple["CommitJob", ...] = ()  # of the same project, mirror and commit: one change with this one


class Connect(SecretMessage, frozen=True):
    """The first message to a process whose store is on a server: the connection that it opens for each kind of job that
    it may get, before it is confined. The text may hold a password.
    """

    connection: str
    jobs: tuple[str, ...]


class Verb(StrEnum):
    """The kinds of requests."""

    APPLY = "apply"
    DELETE = "delete"


class ApplyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The query parameters of an apply or a delete. `atomic` and `strict_version` are for an apply: with the latter, a
    document that names another version or hash than the stored one is not stored. `matching` is for a delete: nothing
    is deleted unless the stored resource has one of these versions or hashes.
    """

    accept_invalid: bool = False
    atomic: bool = False
    dry_run: bool = False
    strict_version: bool = False
    matching: tuple[str, ...] | None = None  # None: no condition; `*`: any version, but there must be one


class RequestJob(SecretMessage, frozen=True, kw_only=True, tag="request"):
    """Plan the body of an apply or delete request."""

    context: Context
    verb: Verb
    actor: Actor
    request: str
    body: bytes
    max_resources: int
    options: ApplyOptions = ApplyOptions()


class LineageJob(msgspec.Struct, frozen=True, tag="lineage"):
    """Find the commits that last changed the files of a repository's resources, where they are unknown."""

    context: Context
    repository: str
    mirror: str


class RedactJob(SecretMessage, frozen=True, tag="redact"):
    """Find a text that should not be stored, in the versions of a resource and in sentences that quote them."""

    context: Context
    kind: str
    name: str
    text: str
    actor: str
    request: str
    dry_run: bool


class RoutesJob(msgspec.Struct, frozen=True, tag="routes"):
    """Compile the routes of a project. `left` are destinations that are needed even if no route leads to them."""

    context: Context
    left: tuple[str, ...] = ()


class RenderJob(msgspec.Struct, frozen=True, tag="render"):
    """Render the Configurations of a project that changed, for Collectors."""

    context: Context


class ReviewJob(msgspec.Struct, frozen=True, kw_only=True, tag="review"):
    """Plan what merging `head` into `base` would do; nothing is stored.

    `commit` says how the repository is read, and its commit is the base. `head` is a full id. `proposals` is the mirror
    of refs that are not followed, '' if there is none. `followed`: the base is the followed ref, not a commit that the
    caller may have made for this plan.
    """

    commit: CommitJob
    head: str
    proposals: str = ""
    followed: bool = False

    @property
    def context(self) -> Context:
        """The context of the repository's commit."""
        return self.commit.context


class CompareJob(msgspec.Struct, frozen=True, tag="compare"):
    """Find the fields that differ between stored versions."""

    context: Context
    pairs: tuple[ChangedVersions, ...]


Job: TypeAlias = CommitJob | RequestJob | LineageJob | RedactJob | RoutesJob | RenderJob | ReviewJob | CompareJob


class Envelope(msgspec.Struct, frozen=True, tag="job"):
    """A job, with the number that its answers have, and the version of the service."""

    number: int
    version: str
    job: Job
    aside: frozenset[str] = frozenset()  # blobs that crashed workers before: they are reported, and not read
    careful: bool = False  # send `At` before each file


class Proceed(msgspec.Struct, frozen=True, tag="proceed"):
    """Continue a job that is `Ready`: the service holds the project's lock. If the job is not wanted, drop it: its
    caller is gone. `job` is the job's tag.
    """

    number: int
    job: str
    is_wanted: bool = True


Order: TypeAlias = Envelope | Proceed
"""Everything that the service sends."""


class Ready(msgspec.Struct, frozen=True, omit_defaults=True, tag="ready"):
    """The job has read everything that it reads without the project's lock, and waits for `Proceed`. With the number 0,
    which no job has: the process is ready for jobs, and has these protections.
    """

    protections: Protections = Protections()


class At(msgspec.Struct, frozen=True, tag="at"):
    """The blob of the file that a careful job reads now; '' when it reads no more files."""

    blob: str


class Part(SecretMessage, frozen=True, tag="part"):
    """One part of the change: `store.records.Changes` in msgpack, decoded only where it is written."""

    changes: bytes


class CommitPlanned(msgspec.Struct, frozen=True, tag="commit-planned"):
    """The end of a planned commit.

    `full`: the parts hold the whole index of the repository's files. `changed`: they change resources. `kinds`: the
    counts by kind; '' is the kind of documents without a readable one. `waits_for_store`: another repository owns
    resources that this one wants. `refused`: the repository is atomic, and nothing is stored. `hold` and `message` are
    the repository's state if nothing was pruned, and the reason; `approvable` is as in the repository's row. `note` is
    information about a sound state. `held_changed`: the parts contain all resources that stay although the head does
    not define them. `changed_endpoints` are as in `planner.decisions`.
    """

    tree: str
    full: bool
    counts: dict[str, int]
    changed: bool
    waits_for_store: bool
    refused: bool
    rewound: bool
    hold: str | None
    message: str | None
    touched: tuple[str, ...] = ()  # other repositories whose resources changed their status or owner
    approvable: int | None = None
    note: str | None = None
    held_changed: bool = False
    index_changed: bool = False  # the parts change the index of the files
    kinds: dict[str, dict[str, int]] = {}
    changed_endpoints: tuple[str, ...] = ()
    flows: tuple[Flow, ...] = ()  # at most `flows.MOST`
    flow_counts: dict[str, int] = {}  # of all flows, by change
    unexplained: bool = False  # the lineage of some files is still unknown
    beside: tuple["CommitPlanned", ...] = ()  # for the jobs beside it, in their order


class RequestPlanned(msgspec.Struct, frozen=True, tag="request-planned"):
    """The end of a planned request: the HTTP status and body that answer it once its parts are stored."""

    status: int
    answer: bytes
    changed: bool = False
    touched: tuple[str, ...] = ()  # other repositories whose resources changed their status
    changed_endpoints: tuple[str, ...] = ()  # as in `CommitPlanned`


class LineageFound(msgspec.Struct, frozen=True, tag="lineage-found"):
    """The end of a search: the number of resources whose lineage it found. If it is not 0, another may find more."""

    explained: int


class RedactPlanned(msgspec.Struct, frozen=True, tag="redact-planned"):
    """The end of a search: the versions in which a reader sees the text, in order, and the number of strings with it.

    `exists`: there is or was such a resource. `obstacle` is the reason why nothing may be rewritten.
    """

    exists: bool
    versions: tuple[int, ...] = ()
    places: int = 0
    obstacle: str | None = None


class RoutesFound(SecretMessage, frozen=True, tag="routes-found"):
    """The end of a compilation. `restated`: the number of Configurations whose stored status of delivery is outdated;
    the parts have the new statuses. `routes` is a `model.routes.Routes` in msgpack.
    """

    restated: int
    routes: bytes


class Rendered(msgspec.Struct, frozen=True, tag="rendered"):
    """The end of a rendering. `is_all`: nothing is left for another job."""

    is_all: bool


class ReviewPlanned(msgspec.Struct, frozen=True, kw_only=True, tag="review-planned"):
    """The end of a planned review, as of a revision of the store.

    `entry` is a `model.plan.PlanEntry` in msgpack, empty when the two do not merge: then `conflicts` names the files in
    conflict, or is empty if there is no common history. `merge_base`, `behind` and `ahead` are as in `model.plan.Plan`.
    """

    revision: int = 0
    entry: bytes = b""
    merge_base: str = ""
    behind: int = 0
    ahead: int = 0
    conflicts: tuple[str, ...] = ()


class Compared(msgspec.Struct, frozen=True, tag="compared"):
    """The end of a comparison. `statuses` are `model.plan.PlanStatus` in msgpack, one for each of the first pairs."""

    statuses: bytes


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The job could not be planned. `state` is a repository's state when git is the cause; `store` means that the store
    could not be read.

    For the number 0: the process has no connection to the store, and ends.
    """

    message: str
    state: str | None = None
    store: bool = False
    transient: bool = False
    trace: str | None = None  # of a fault of ours, for the log
    lasting: bool = False  # the commit exceeds a limit, and will again: see `Exhausted`


class Exhausted(GitFault):
    """A commit exceeds a limit (`Failed.lasting`). It would again, so do not retry the same commit."""

    def __init__(self, message: str) -> None:
        super().__init__(RepositoryState.UNSUPPORTED_FORMAT, message)


Planned: TypeAlias = (
    CommitPlanned | RequestPlanned | LineageFound | RedactPlanned | RoutesFound | Rendered | ReviewPlanned | Compared
)
Answer: TypeAlias = Ready | At | Part | Planned | Failed


class Reply(msgspec.Struct, frozen=True):
    """Everything that the child sends: an answer to the job with this number."""

    number: int
    answer: Answer


Emit: TypeAlias = Callable[[Changes], None]
"""Sends one part of a job's change."""
P = TypeVar("P", bound=Planned)
Steps: TypeAlias = Generator[None, None, P]
"""A job that runs: it yields once if it needs the project's lock to continue, and returns the plan."""
T = TypeVar("T")


def batches(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the rows in lists of this size."""
    left = iter(rows)
    while batch := list(islice(left, size)):
        yield batch


_encoder = msgspec.msgpack.Encoder()
_connects: msgspec.msgpack.Decoder[Connect] = msgspec.msgpack.Decoder(Connect)
_orders: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)
_replies: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


def framed(message: Connect | Order | Reply) -> bytes:
    """Encode a message with its length before it."""
    payload = _encoder.encode(message)
    return LENGTH.pack(len(payload)) + payload


def connect(payload: bytes) -> Connect:
    """Decode the first message of the service. Raises msgspec.DecodeError for anything else."""
    return _connects.decode(payload)


def order(payload: bytes) -> Order:
    """Decode what the service sent. Raises msgspec.DecodeError for anything else."""
    return _orders.decode(payload)


def reply(payload: bytes | bytearray) -> Reply:
    """Decode what the worker sent. Raises msgspec.DecodeError for anything else."""
    return _replies.decode(payload)


def tag_of(job: Job | type[Job]) -> str:
    """Return the tag of a job's kind, which names its lane in the worker."""
    return str(job.__struct_config__.tag)
