"""A call: one request as a handler sees it, and the endpoint that gives each method of a path its handler.

Handlers take a call and return a response; who asks was settled before, at the edge.
"""

from collections.abc import Awaitable, Callable
from typing import NotRequired, TypeAlias, TypedDict

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api import errors
from api.answers import Header
from reconciler.access.actors import Actor
from reconciler.daemon.services import Services


class State(TypedDict):
    """What the edge gives to every request, in the scope's `state`."""

    services: Services
    request: str  # its id, a ULID
    actor: NotRequired[Actor]  # absent on the paths that need no credential


class Call:
    """One request. A thin view on the ASGI scope: building it costs nothing that a handler does not ask for."""

    __slots__ = ("headers", "receive", "scope", "services", "state")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        self.state: State = scope["state"]
        self.services = self.state["services"]
        # For looking up whether a header is there at all: of a header that is repeated, `header` has every value.
        self.headers: dict[bytes, bytes] = dict(scope["headers"])

    @property
    def request(self) -> str:
        """The request's id, a ULID."""
        return self.state["request"]

    @property
    def actor(self) -> Actor:
        """Who asks."""
        return self.state["actor"]

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


Handler: TypeAlias = Callable[[Call], Awaitable[Response]]


class Endpoint:
    """An ASGI application for one path. Starlette's route for functions would wrap each call three times more."""

    def __init__(self, **handlers: Handler) -> None:
        self.handlers = dict(handlers)
        if "GET" in handlers:
            self.handlers["HEAD"] = handlers["GET"]
        self.allow = ", ".join(sorted(self.handlers))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handler = self.handlers.get(scope["method"])
        if handler is None:
            raise errors.MethodNotAllowed(self.allow)
        response = await handler(Call(scope, receive))
        await response(scope, receive, send)
