"""A call: one request as a handler sees it.

Who asks was settled before, at the edge; whether they may, by the endpoint (`endpoints`).
"""

from collections.abc import Callable
from typing import NotRequired, TypedDict

from starlette.types import Receive, Scope

from api.answers import Header
from api.auth import addresses
from reconciler.auth.sessions import Session
from reconciler.model import principals
from reconciler.model.directory import Directory
from reconciler.model.principals import Actor, Principal
from reconciler.server.services import Services


class State(TypedDict):
    """What the edge gives to every request, in the scope's `state`."""

    services: Services
    request: str  # its id, a ULID
    principal: NotRequired[Principal]  # absent on the paths that need no credential
    directory: NotRequired[Directory]  # by which it was recognised
    project: NotRequired[str]  # what it is about, as soon as that is judged
    is_hidden: NotRequired[bool]  # a 404 that says nothing of what there is
    session: NotRequired[Session]  # by which a browser was; absent for whoever shows a credential


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
        """Who asks."""
        return self.state["principal"]

    @property
    def actor(self) -> Actor:
        """Who asks, as somebody who changes resources of the call's project."""
        return principals.actor_in(self.state["principal"], self.project)

    @property
    def address(self) -> str:
        """Where the request comes from, as text."""
        return addresses.address_of(self.scope, trusted=self.services.trusted_proxies)

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
