"""The outermost layer of the application: what holds for every request, whatever its path.

Each request gets an id and every answer carries it with the security headers; a credential is checked before the body
is read and before routing could tell what exists; every exception becomes an answer here. No request is judged here.
"""

import logging
import os

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api import errors
from api.answers import Header
from api.auth import keys
from api.calls import State
from reconciler import ids
from reconciler.clock import Clock
from reconciler.daemon.services import Services

logger = logging.getLogger(__name__)

PUBLIC = frozenset({"/v1/version", "/livez", "/readyz", "/openapi.json"})
"""The paths that need no credential. Any other does, so that a path added later is closed until it is listed."""

SECURITY: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
)

IN_FLIGHT = 32  # requests of one credential at a time
BUSY_SECONDS = 1  # after which a request over that limit may be tried again


class Outgoing:
    """`send`, with the headers of every answer added and the body of an answer to HEAD left out."""

    __slots__ = ("head", "headers", "send", "started")

    def __init__(self, send: Send, *, request: str, head: bool) -> None:
        self.send = send
        self.head = head
        self.headers = [(b"x-request-id", request.encode()), *SECURITY]
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            message["headers"] = [*message.get("headers", ()), *self.headers]
        elif self.head:
            message["body"] = b""
        await self.send(message)


class Edge:
    """ASGI middleware around the router."""

    def __init__(self, app: ASGIApp, *, services: Services) -> None:
        self.app = app
        self.services = services
        self.key = services.api_key.encode()
        self.in_flight: dict[str, int] = {}  # by the actor's name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = request_id(self.services.clock)
        scope["state"] = State(services=self.services, request=request)
        outgoing = Outgoing(send, request=request, head=scope["method"] == "HEAD")
        try:
            await self._admit(scope, receive, outgoing)
        except ClientDisconnect:
            return  # there is nobody to answer
        except Exception as exception:
            response = errors.answer(exception, request=request)
            if outgoing.started:
                raise  # the status is sent; the server cuts the connection, so that the client sees that it broke off
            await response(scope, receive, outgoing)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in PUBLIC:
            await self.app(scope, receive, send)
            return
        actor = keys.authenticate(scope["headers"], key=self.key)
        scope["state"]["actor"] = actor
        under_way = self.in_flight.get(actor.name, 0)
        if under_way >= IN_FLIGHT:
            raise errors.TooMany(f"This key has {IN_FLIGHT} requests under way; try again.", after=BUSY_SECONDS)
        self.in_flight[actor.name] = under_way + 1
        try:
            await self.app(scope, receive, send)
        finally:
            self.in_flight[actor.name] -= 1


def request_id(clock: Clock) -> str:
    """A new id for a request."""
    return ids.ulid(milliseconds=int(clock().timestamp() * 1000), randomness=os.urandom(ids.RANDOM_BYTES))
