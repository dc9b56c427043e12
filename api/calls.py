"""The services that handlers call, and a call: one request as a handler sees it."""

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from ipaddress import IPv4Network, IPv6Network
from typing import NamedTuple, Protocol, TypeAlias

from starlette.responses import Response
from starlette.types import Receive, Scope

from api import responses
from api.responses import AnswerMemory, Header
from reconciler.auth.accounts import Accounts
from reconciler.auth.oidc.flows import Flow
from reconciler.auth.rate_limits import Buckets, RefusedAttempts
from reconciler.auth.sessions import Sessions
from reconciler.auth.sign_in import People, SigningIn
from reconciler.delivery.contract import Delivery, IntakeRoom, RecordRates
from reconciler.delivery.otlp.models import RequestLimits
from reconciler.git.hooks import HookMemory
from reconciler.model import ids, principals
from reconciler.model.clock import Clock
from reconciler.model.directory import Amendment, Directory, ProvedIdentity
from reconciler.model.principals import Actor, Permission, Principal
from reconciler.notifications.board import Board
from reconciler.notifications.models import TriedAlert
from reconciler.ops.events import Events
from reconciler.ops.metric_families import Sample
from reconciler.ops.traffic import Traffic
from reconciler.reconcile.apply import Applier
from reconciler.reconcile.repositories import Repositories
from reconciler.replicas.cache import ResourceCache
from reconciler.replicas.contact import Contact
from reconciler.replicas.following import Following
from reconciler.replicas.keeper import LeaseKeeper
from reconciler.replicas.peers import Peers
from reconciler.replicas.tokens import PeerRequest, PeerTokens
from reconciler.review.service import Reviewing
from reconciler.store.contract import Store
from reconciler.store.records import SessionRow

_random = random.Random()  # noqa: S311 - of ids, which are no secrets


async def _no_samples() -> Iterable[Sample]:
    return ()


class Provider(Protocol):
    """The sign-in provider (`reconciler.auth.oidc.provider`)."""

    async def check(self) -> None:
        """Raise an error when it cannot be used at this moment."""

    async def authorization(self, flow: Flow) -> str:
        """Return the URL at which the browser signs in."""

    async def proved(self, callback: Mapping[str, list[str]], flow: Flow) -> ProvedIdentity:
        """Return the person who came back."""

    async def end_session(self, *, id_token: str) -> str | None:
        """Return the URL to sign out there as well, if there is one."""

    async def close(self) -> None:
        """Close the client; no request follows."""


class Outbox(Protocol):
    """The targets of alerts (`reconciler.notifications.outbox`)."""

    @property
    def targets(self) -> list[str]:
        """Their names, in the order of the settings."""

    async def test(self, target: str | None, *, request: str) -> list[TriedAlert]:
        """Send a test alert to one of them, or to all."""


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that the API may use. The composition root (`reconciler.server.parts`) makes it.

    An empty `api_key` is never valid. `anybody` is the caller without a credential; None if credentials are required.
    With it, the service answers only to its own names, such as that of `web_url`. Behind `trusted_proxies` the client's
    address is read from headers. `headers` are in every answer. `rates`, `room` and `log_limits` limit `/v1/logs`.
    `in_flight` counts requests in progress by caller, on every listener, `paces` the sign-ins of each address,
    `refusals` refused attempts. `traffic` counts requests, `samples` returns the metrics, `searches` keeps the last
    answers. `outbox` exists if the settings have targets of alerts. `peers` and `peer_tokens`, for requests to other
    replicas and from them, exist only with several replicas, and so do `following`, `contact`,
    `keeper` and `cache`.

    `auth_type` is `local`, `oidc` or `none`. `people`, `provider` and `flow_key`, the key of sealed sign-ins, exist
    only with `oidc`. `takes_invitations`: invitations admit people. `has_tls`: the listener itself has TLS; with a
    proxy, `web_url` shows it.
    """

    store: Store
    applier: Applier
    repositories: Repositories
    reviewing: Reviewing
    accounts: Accounts
    signing_in: SigningIn
    clock: Clock
    api_key: str
    max_body_bytes: int
    deliveries: Delivery
    rates: RecordRates
    room: IntakeRoom
    log_limits: RequestLimits
    sessions: Sessions
    board: Board
    events: Events
    outbox: Outbox | None = None
    peers: Peers | None = None
    peer_tokens: PeerTokens | None = None
    following: Following | None = None
    contact: Contact | None = None
    keeper: LeaseKeeper | None = None
    cache: ResourceCache | None = None
    auth_type: str = "local"
    people: People | None = None
    provider: Provider | None = None
    flow_key: bytes = field(default=b"", repr=False)
    takes_invitations: bool = False
    anybody: Principal | None = None
    web_url: str = ""
    has_tls: bool = False
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    headers: tuple[Header, ...] = responses.SECURITY
    hooks: HookMemory = field(default_factory=HookMemory)
    in_flight: dict[str, int] = field(default_factory=dict)
    paces: Buckets = field(default_factory=lambda: Buckets(1.0))
    refusals: RefusedAttempts = field(default_factory=RefusedAttempts)
    traffic: Traffic = field(default_factory=Traffic)
    searches: AnswerMemory = field(default_factory=AnswerMemory)
    samples: Callable[[], Awaitable[Iterable[Sample]]] = _no_samples

    @property
    def revision(self) -> int:
        """The newest revision that this process knows: by its reads and writes, or from other replicas. Their answers
        may be ahead of the changes that it has heard.
        """
        known = self.store.known_revision
        return known if self.following is None else max(known, self.following.revision, self.following.told)

    def new_id(self) -> str:
        """Return a new ULID. It is no secret, so its randomness need not cost a system call."""
        randomness = _random.randbytes(ids.RANDOM_BYTES)
        return ids.ulid(milliseconds=int(self.clock().timestamp() * 1000), randomness=randomness)


class Subject(Enum):
    """The subject of an operation, in which the caller needs a permission."""

    PUBLIC = auto()  # no credential is asked for
    KNOWN = auto()  # any known caller: it is about the caller, or the handler judges each named thing
    REACH = auto()  # every project within reach, or the chosen one: the answer shows only what the caller may see
    ORGANIZATION = auto()
    PROJECT = auto()  # the chosen one
    NAMED_PROJECT = auto()  # the one in the path
    REPOSITORY = auto()  # the project that the repository in the path fills


Handler: TypeAlias = Callable[["Call"], Awaitable[Response]]


class Operation(NamedTuple):
    """A method of a path: its handler, and the permission that the caller needs."""

    handler: Handler
    subject: Subject
    permission: Permission | None = None


class Answering(Protocol):
    """One path: it judges a call, and has it answered."""

    operations: dict[str, Operation]

    async def answer(self, call: "Call") -> Response:
        """Raises `Problem`, and what the operation does."""


class Caller(NamedTuple):
    """The caller of a request. `directory` is the directory in which they were found. `session` is that of a browser,
    and None if the request has a credential.
    """

    principal: Principal
    directory: Directory
    session: SessionRow | None = None


@dataclass(slots=True, eq=False)
class Call:
    """One request. The edge says who asks, and the endpoint which operation it is and which project it is about."""

    scope: Scope
    receive: Receive
    services: Services
    request: str  # its id, a ULID
    parameters: Mapping[str, str]  # of the path
    headers: list[Header] = field(init=False)
    named: dict[bytes, bytes] = field(init=False)  # to see which headers there are; of one that is repeated, the last
    endpoints: Mapping[str, Answering] = field(default_factory=dict)  # every path that is served with this one
    caller: Caller | None = None  # None on the paths that need no credential
    passed_on: PeerRequest | None = None  # set if another replica passed the request on
    operation: Operation | None = None
    project: str = ""  # the project of the request, once it is judged
    counted_as: str = ""  # the caller's name while the request counts as in progress
    is_hidden: bool = False  # the answer is a 404 that does not reveal if the thing exists

    def __post_init__(self) -> None:
        self.headers = self.scope["headers"]
        self.named = dict(self.headers)

    @property
    def principal(self) -> Principal:
        """The caller, once recognised."""
        assert self.caller is not None
        return self.caller.principal

    @property
    def peers(self) -> Peers | None:
        """The other replicas; None on one machine, and for a request that another replica passed on."""
        return None if self.passed_on is not None else self.services.peers

    @property
    def actor(self) -> Actor:
        """The caller, as the actor of a change in the call's project."""
        return principals.actor_in(self.principal, self.project)

    @property
    def query(self) -> bytes:
        """The query, as it came."""
        query: bytes = self.scope["query_string"]
        return query

    @property
    def directory(self) -> Directory:
        """The present directory."""
        return self.services.accounts.directory

    def header(self, name: bytes) -> list[bytes]:
        """Return every value of a header; `name` is in lower case."""
        return [value for key, value in self.headers if key == name] if name in self.named else []

    async def amend(self, decide: Callable[[Directory], Amendment]) -> None:
        """Change who may do what, in the caller's name. Raises what `decide` and `Accounts.amend` do."""
        await self.services.accounts.amend(decide, actor=self.principal.name, request=self.request)
