"""A call: the services, one request as a handler sees it, and the permission that it needs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto
from functools import partial
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, Protocol, TypeAlias, TypedDict

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api import errors, responses
from api.responses import Header
from reconciler.auth.accounts import Accounts
from reconciler.auth.rate_limits import SENT_FORM_MOST, OnceOnly, RateLimits, RefusedAttempts
from reconciler.auth.sessions import Sessions
from reconciler.auth.sign_in import SigningIn
from reconciler.delivery.contract import Delivery, IntakeRoom, RecordRates
from reconciler.delivery.otlp.models import RequestLimits
from reconciler.git.hooks import HookMemory
from reconciler.model import principals
from reconciler.model.clock import Clock
from reconciler.model.directory import Directory
from reconciler.model.error_codes import ErrorCode
from reconciler.model.principals import AccessVerdict, Actor, Permission, Principal
from reconciler.notifications.board import Board
from reconciler.notifications.outbox import Outbox
from reconciler.ops.metrics import Measured
from reconciler.reconcile.apply import Applier
from reconciler.review.service import Reviewing
from reconciler.store.contract import Store
from reconciler.store.records import SessionRow

if TYPE_CHECKING:  # what only sign-in through a provider needs is not loaded without one
    from reconciler.auth.oidc.provider import Provider
    from reconciler.auth.sign_in import People

# The services that handlers call. The composition root (`reconciler.server.parts`) gives them.


class Repositories(Protocol):
    """The watched repositories and the runs that are queued or running."""

    async def all(self, *, projects: frozenset[str] | None) -> list[bytes]:
        """Every repository of these projects, of all when None, as a JSON object, sorted by name."""

    def project_of(self, name: str) -> str | None:
        """The project that a repository fills, or None for an unknown one."""

    async def one(self, name: str) -> bytes | None:
        """One repository as a JSON object, or None."""

    def reconcile(self, name: str, *, actor: Actor) -> str | None:
        """Ask for a run; the id of the run that will cover it, or None for an unknown repository. Raises Suspended."""

    def hook_secret_file(self, name: str) -> Path | None:
        """The file with the secret of a repository's hook; None without a hook, and for an unknown repository."""

    def hint(self, name: str) -> None:
        """Look at a repository now, since a forge says that something was pushed. Nothing happens for one that is
        unknown or suspended.
        """

    async def approve(self, name: str, *, commit: str, actor: Actor, request: str) -> str | None:
        """Let go what is held at a commit; the id of the run that deletes it, or None for an unknown repository.

        Raises NotHeld, Suspended.
        """

    async def suspend(
        self, name: str, *, reason: str, until: datetime | None, actor: Actor, request: str
    ) -> bytes | None:
        """Look at a repository no more; the repository as JSON, or None for an unknown one."""

    async def resume(self, name: str, *, actor: Actor, request: str) -> str | None:
        """Look at a repository again; the id of the run that reads it whole, or None for an unknown one.

        Raises Suspended when a setting suspends it.
        """

    def run(self, run: str) -> bytes | None:
        """A queued or running run as a JSON object, or None: then ask the store."""


@dataclass(frozen=True, slots=True)
class Services:
    """Everything a door may use.

    An empty `api_key` is one that nobody holds. `anybody` is who asks without a credential, None where one is asked
    for; then the service answers to its own names alone, that of `web_url` among them. `trusted_proxies` say where a
    request comes from. `headers` go with every answer. `rates`, `room` and `log_limits` bound what `/v1/logs` takes in;
    `in_flight` counts requests under way by the name of who asks, on every listener, `paces` what is begun by whoever
    is unknown, `refusals` who was refused, `sent_forms` what must not count twice.
    `measured` is what the service counts of itself. `outbox` is there where the settings name targets of alerts.

    `auth_type` is `local`, `oidc` or `none`. `people`, `provider` and `flow_key`, which seals what a browser carries
    through the provider, are there with `oidc` alone; `takes_invitations` says whether invitations admit anybody.
    `has_tls` says whether the listener has TLS itself: a proxy may have it instead, which `web_url` tells.
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
    outbox: Outbox | None = None
    auth_type: str = "local"
    people: "People | None" = None
    provider: "Provider | None" = None
    flow_key: bytes = field(default=b"", repr=False)
    takes_invitations: bool = False
    anybody: Principal | None = None
    web_url: str = ""
    has_tls: bool = False
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    headers: tuple[Header, ...] = responses.SECURITY
    hooks: HookMemory = field(default_factory=HookMemory)
    in_flight: dict[str, int] = field(default_factory=dict)
    paces: RateLimits = field(default_factory=RateLimits)
    sent_forms: OnceOnly = field(default_factory=lambda: OnceOnly(SENT_FORM_MOST))
    refusals: RefusedAttempts = field(default_factory=RefusedAttempts)
    measured: Measured = field(default_factory=Measured)


# A call: one request as a handler sees it.
#
# Who asks was settled before, at the edge; whether they may, by `Endpoint`.


class State(TypedDict):
    """The facts that the edge adds to every request, in the scope's `state`."""

    services: Services
    request: str  # its id, a ULID
    principal: NotRequired[Principal]  # absent on the paths that need no credential
    directory: NotRequired[Directory]  # by which it was recognised
    project: NotRequired[str]  # what it is about, as soon as that is judged
    is_hidden: NotRequired[bool]  # a 404 that says nothing of what there is
    session: NotRequired[SessionRow]  # by which a browser was; absent for whoever shows a credential


class Call:
    """One request. A thin view on the ASGI scope: building it costs nothing that a handler does not ask for."""

    __slots__ = ("headers", "judge", "project", "receive", "scope", "services", "state")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        self.state: State = scope["state"]
        self.services: Services = self.state["services"]
        self.judge: Callable[[Call], None] = _let_through  # unless the endpoint says otherwise
        self.project = ""  # what it is about, once that was judged
        # For looking up whether a header is there at all: of a header that is repeated, `header` has every value.
        self.headers: dict[bytes, bytes] = dict(scope["headers"])

    @property
    def request(self) -> str:
        """The request's id, a ULID."""
        return self.state["request"]

    @property
    def principal(self) -> Principal:
        """The caller."""
        return self.state["principal"]

    @property
    def actor(self) -> Actor:
        """The caller, as the actor of a change in the call's project."""
        return principals.actor_in(self.state["principal"], self.project)

    @property
    def query(self) -> bytes:
        """The query, as it came."""
        query: bytes = self.scope["query_string"]
        return query

    def parameter(self, name: str) -> str:
        """A parameter of the path."""
        value: str = self.scope["path_params"][name]
        return value

    def header(self, name: bytes) -> list[bytes]:
        """Every value of a header; `name` is in lower case."""
        headers: list[Header] = self.scope["headers"]
        return [value for key, value in headers if key == name]


def _let_through(_: Call) -> None:
    """Of a call that no endpoint judges."""


# Which request needs what: every method of every path says so, or it cannot be built.
#
# What somebody may not know of does not exist for them: that is a 404, whether it exists or not. What they may know of
# and not do is a 403.

Handler: TypeAlias = Callable[[Call], Awaitable[Response]]

HEADER = b"x-service-project"

# The name is not repeated: it is any text that somebody put into a path.
NO_PROJECT = "There is no such project."
NO_REPOSITORY = "There is no such repository; GET /v1/repositories lists those that are watched."


class PermissionPlace(Enum):
    """The subject of a request."""

    PUBLIC = auto()  # no credential is asked for
    KNOWN = auto()  # whoever is known may: it is about themselves, or the handler judges each thing that it names
    REACH = auto()  # every project within reach, or the chosen one: what is shown is what may be seen
    ORGANIZATION = auto()
    PROJECT = auto()  # the chosen one
    NAMED_PROJECT = auto()  # the one in the path
    REPOSITORY = auto()  # the project that the repository in the path fills


@dataclass(frozen=True, slots=True)
class AccessRule:
    """A handler, and who may call it."""

    handler: Handler
    place: PermissionPlace
    permission: Permission | None = None


def public(handler: Handler) -> AccessRule:
    """For everybody."""
    return AccessRule(handler, PermissionPlace.PUBLIC)


def known(handler: Handler) -> AccessRule:
    """For whoever has a credential."""
    return AccessRule(handler, PermissionPlace.KNOWN)


def within_reach(handler: Handler, permission: Permission) -> AccessRule:
    """For whoever's credential is for such things at all; the handler shows what `reach` lets it."""
    return AccessRule(handler, PermissionPlace.REACH, permission)


def in_organization(handler: Handler, permission: Permission) -> AccessRule:
    """For whoever has the permission whatever the project."""
    return AccessRule(handler, PermissionPlace.ORGANIZATION, permission)


def in_project(handler: Handler, permission: Permission) -> AccessRule:
    """For whoever has the permission in the chosen project, which `call.project` is."""
    return AccessRule(handler, PermissionPlace.PROJECT, permission)


def of_project(handler: Handler, permission: Permission) -> AccessRule:
    """For whoever has the permission in the project that the path names, which `call.project` is."""
    return AccessRule(handler, PermissionPlace.NAMED_PROJECT, permission)


def of_repository(handler: Handler, permission: Permission) -> AccessRule:
    """For whoever has the permission in the project of the repository that the path names, which `call.project` is."""
    return AccessRule(handler, PermissionPlace.REPOSITORY, permission)


def judge(call: Call, rule: AccessRule) -> None:
    """Set the project that the call is about. Raises `NotFound`, `Forbidden`, `BadRequest`."""
    if rule.permission is None:
        return
    verdict = _verdict(call, rule, rule.permission)
    if verdict is AccessVerdict.UNKNOWN:
        raise _missing(call, rule, call.project)
    if verdict is AccessVerdict.FORBIDDEN:
        takes = principals.required_for(rule.permission, call.principal.scopes)
        raise errors.Forbidden(f"{call.principal.name} may not do this; it takes {takes}.")


def _verdict(call: Call, rule: AccessRule, permission: Permission) -> AccessVerdict:
    match rule.place:
        case PermissionPlace.ORGANIZATION:
            return principals.judge(call.principal, permission, project=None)
        case PermissionPlace.REACH:
            return AccessVerdict.ALLOWED if principals.is_for(call.principal, permission) else AccessVerdict.FORBIDDEN
        case _:
            call.project = call.state["project"] = _project(call, rule)
            return principals.judge(call.principal, permission, project=call.project)


def reach(call: Call) -> frozenset[str] | None:
    """The projects of which a call may see something: the chosen one, else all within reach; None for every project.

    Raises `NotFound` for a chosen project that is out of reach, `BadRequest` for two.
    """
    principal = call.principal
    asked = _asked(call)
    if asked is not None:
        return frozenset({_chosen(call, asked)})
    if principal.organization_admin or principal.everywhere is not None:
        return None
    return frozenset(principal.roles)


def permits(call: Call, permission: Permission, *, project: str) -> bool:
    """Return True when the caller has a permission in a project."""
    return principals.may(call.principal, permission, role=call.principal.role_in(project))


def is_within(reachable: frozenset[str] | None, project: str) -> bool:
    """Return True when a project is among those."""
    return reachable is None or project in reachable


def _project(call: Call, rule: AccessRule) -> str:
    if rule.place is PermissionPlace.PROJECT:
        return chosen(call)
    # What is wrong with the chosen project comes first: told only of names that exist, it would tell which do.
    reachable = reach(call)
    name: str | None = call.parameter("name")
    if rule.place is PermissionPlace.REPOSITORY:
        name = call.services.repositories.project_of(call.parameter("name"))
    if name is None or name not in call.services.accounts.directory.projects or not is_within(reachable, name):
        raise _missing(call, rule, name)
    return name


def chosen(call: Call) -> str:
    """The project that a call means. Raises `NotFound`, `BadRequest`."""
    return _chosen(call, _asked(call))


def _chosen(call: Call, asked: str | None) -> str:
    found = principals.chosen(call.principal, asked, existing=call.services.accounts.directory.projects)
    if found is not None:
        return found
    if asked is None:
        sentence = "Choose a project with the header X-Service-Project; GET /v1/me lists yours."
        raise errors.NotFound(sentence, code=ErrorCode.PROJECT_REQUIRED)
    raise no_project(call, asked)


def no_project(call: Call, name: str | None) -> errors.NotFound:
    """Return that there is no such project within the caller's reach. The audit counts it when the project exists."""
    return missing(call, NO_PROJECT, code=ErrorCode.PROJECT_NOT_FOUND, project=name)


def no_repository(call: Call, project: str | None) -> errors.NotFound:
    """Return that there is no such repository within the caller's reach; `project` is the one that it fills."""
    return missing(call, NO_REPOSITORY, code=ErrorCode.REPOSITORY_NOT_FOUND, project=project)


def missing(
    call: Call, sentence: str, *, project: str | None, code: ErrorCode = ErrorCode.NOT_FOUND
) -> errors.NotFound:
    """Return that there is no such thing, for this caller. The audit counts it when its project exists."""
    if project is not None and project in call.services.accounts.directory.projects:
        return errors.Hidden(sentence, code=code, project=project)
    return errors.NotFound(sentence, code=code)


def _asked(call: Call) -> str | None:
    if HEADER not in call.headers:
        return None
    values = call.header(HEADER)
    if len(values) > 1:
        raise errors.BadRequest("The header X-Service-Project is given more than once.")
    return values[0].decode("latin-1").strip()


def _missing(call: Call, rule: AccessRule, project: str | None) -> errors.NotFound:
    of_repository = rule.place is PermissionPlace.REPOSITORY
    return no_repository(call, project) if of_repository else no_project(call, project)


# The endpoint that gives each method of a path its handler, once it was judged that the caller may.


class Endpoint:
    """An ASGI application for one path. Starlette's route for functions would wrap each call three times more."""

    def __init__(self, **rules: AccessRule) -> None:
        self.rules = dict(rules)
        if "GET" in rules:
            self.rules["HEAD"] = rules["GET"]
        self.allow = ", ".join(sorted(self.rules))
        self.judges = {method: partial(judge, rule=rule) for method, rule in self.rules.items()}

    @property
    def is_public(self) -> bool:
        """True when no method of it asks for a credential."""
        return all(rule.place is PermissionPlace.PUBLIC for rule in self.rules.values())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        rule = self.rules.get(scope["method"])
        if rule is None:
            raise errors.MethodNotAllowed(self.allow)
        call = Call(scope, receive)
        call.judge = self.judges[scope["method"]]
        call.judge(call)
        response = await rule.handler(call)
        await response(scope, receive, send)
