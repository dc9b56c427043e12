"""The outermost layer: what holds for every request."""

import logging
import os
import re
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from functools import partial
from time import perf_counter
from typing import NamedTuple, TypeAlias

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api import auth, errors
from api.auth import Authenticator
from api.calls import Services, State
from api.errors import Told
from api.pages.forms import PagePath
from api.responses import OF_REFERENCE, Header, page_headers
from reconciler.auth import rate_limits
from reconciler.model import ids, log_context
from reconciler.model.principals import Principal

# How many requests of one credential are under way at a time, on every listener.

MOST = 32  # of one credential

Counts: TypeAlias = dict[str, int]
"""By the names of who asks; nobody who has none stands in it."""


def enter_request(counts: Counts, name: str) -> bool:
    """Count one more; False, and nothing is counted, where there are as many as may be."""
    before = counts.get(name, 0)
    if before >= MOST:
        return False
    counts[name] = before + 1
    return True


def leave_request(counts: Counts, name: str) -> None:
    """One that entered has ended."""
    left = counts[name] - 1
    if left:
        counts[name] = left
    else:
        del counts[name]


# Which documented path a request is of, and which project its path names: for what is counted of refused requests,
# also of those that no router saw.

OF_PROJECT = "/v1/projects/{name}"
OF_REPOSITORY = ("/v1/repositories/{name}", "/hooks/{repository}")


class RequestPlace(NamedTuple):
    """A path as the interface documents it, empty for any other; and an existing project, or none."""

    path: str
    project: str


class RequestPlaces:
    """Made once of all paths, in the order in which they are tried."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = sorted(paths, key=lambda path: "{" in path)  # a literal path wins
        self._pattern = re.compile("|".join(f"({path_pattern(path)})" for path in self._paths))

    def of(self, path: str, services: Services) -> RequestPlace:
        """Return the documented path of a request, and its project."""
        match = self._pattern.fullmatch(path)
        if match is None or match.lastindex is None:
            return RequestPlace("", "")
        documented = self._paths[match.lastindex - 1]
        return RequestPlace(documented, _project(documented, path, services) or "")


def path_pattern(path: str) -> str:
    """Return the expression for a path: its fixed parts as they are written, and one part for each parameter."""
    return "[^/]+".join(map(re.escape, re.split(r"\{\w+\}", path)))


def _project(documented: str, path: str, services: Services) -> str | None:
    if documented.startswith(OF_PROJECT):
        name = _part(path, OF_PROJECT)
        return name if name in services.accounts.directory.projects else None
    of_repository = next((prefix for prefix in OF_REPOSITORY if documented.startswith(prefix)), None)
    return None if of_repository is None else services.repositories.project_of(_part(path, of_repository))


def _part(path: str, prefix: str) -> str:
    """Return the part of a path at the place of the prefix's parameter, which is its last part."""
    return path.split("/")[prefix.count("/")]


# The outermost layer of the application: what holds for every request, whatever its path.
#
# Each request gets an id and every answer carries it with the security headers; a credential is checked before the body
# is read and before routing could tell what exists; every exception becomes an answer here. No request is judged here.

logger = logging.getLogger(__name__)

Rendering: TypeAlias = Callable[[Scope, Told], Response]
"""The form in which a path tells of a failure."""

REFUSED = frozenset({401, 403, 429})
READING = frozenset({"GET", "HEAD", "OPTIONS"})

NOWHERE = RequestPlaces(())
BUSY_SECONDS = 1  # after which a request over that limit may be tried again


def usual(_scope: Scope, said: Told) -> Response:
    """The error response of the interface."""
    return errors.as_json(said)


class Outgoing:
    """`send`, with the headers of every answer added and the body of an answer to HEAD left out."""

    __slots__ = ("headers", "request", "scope", "send", "started", "status")

    def __init__(self, scope: Scope, send: Send, *, request: str, headers: tuple[Header, ...]) -> None:
        self.scope = scope
        self.send = send
        self.request = request
        self.headers = headers
        self.started = False
        self.status = 0  # of the answer, as soon as there is one

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            own = (b"x-request-id", self.request.encode())
            message["headers"] = [*message.get("headers", ()), own, *self.headers]
        elif self.scope["method"] == "HEAD":
            message["body"] = b""
        await self.send(message)


class Edge:
    """ASGI middleware around the router."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        services: Services,
        public: Callable[[str], bool],
        render: Rendering = usual,
        pages: Collection[str] = (),
        places: RequestPlaces = NOWHERE,
        is_lost: Callable[[Scope], bool] = lambda _: False,
    ) -> None:
        self.app = app
        self.services = services
        self.is_public = public
        self.pages = pages
        self.is_lost = is_lost  # a browser before a page that there is not
        self.places = places
        self.render = render
        self.service_key = services.api_key.encode()
        self.hosts = auth.allowed_hosts(services.web_url)
        self.authenticator = Authenticator(services)
        self.in_flight = services.in_flight
        self.note = services.measured.traffic.note
        self.headers = services.headers
        self.headers_of_pages = page_headers(services.headers)
        self.headers_of_reference = page_headers(services.headers, instead=OF_REFERENCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = perf_counter()
        request = request_id(self.services.clock())
        log_context.REQUEST.set(request)
        log_context.PLACE.set(place := partial(auth.address_of, scope, trusted=self.services.trusted_proxies))
        scope["state"] = State(services=self.services, request=request)
        is_page = scope["path"] in self.pages or self.is_lost(scope)
        headers = self.headers_of_pages if is_page else self.headers
        if scope["path"] == PagePath.REFERENCE and is_page:
            headers = self.headers_of_reference
        outgoing = Outgoing(scope, send, request=request, headers=headers)
        try:
            await self._admit(scope, receive, outgoing, is_page=is_page)
        except ClientDisconnect:
            return  # there is nobody to answer
        except Exception as exception:
            if isinstance(exception, errors.Hidden):
                scope["state"].update(project=exception.project, is_hidden=True)
            response = self.render(scope, errors.told(exception, request=request))
            if outgoing.started:
                raise  # the status is sent; the server cuts the connection, so that the client sees that it broke off
            await response(scope, receive, outgoing)
        finally:
            self.note(scope.get("endpoint"), scope["method"], outgoing.status, perf_counter() - began)
            if outgoing.status in REFUSED or "is_hidden" in scope["state"]:
                self._count(scope, outgoing.status, place())

    def _count(self, scope: Scope, status: int, address: str) -> None:
        """Somebody was refused: the audit has how often, and writes it by itself."""
        state: State = scope["state"]
        principal = state.get("principal")
        actor = rate_limits.NOBODY if principal is None else principal.name
        path, named = self.places.of(scope["path"], self.services)
        project = state.get("project") or named
        self.services.refusals.note(rate_limits.RefusedAttempt(status, actor, address, path, project))

    async def _admit(self, scope: Scope, receive: Receive, send: Send, *, is_page: bool) -> None:
        headers: list[Header] = scope["headers"]
        named = dict(headers)  # to see which there are; of one that is repeated, a check below looks at every value
        if self.services.anybody is not None:
            auth.check_host(headers, allowed=self.hosts)
        elif len(named) < len(headers):
            auth.refuse_several(headers)
        auth.refuse_in_path(scope["path"])
        if query := scope["query_string"]:
            auth.refuse_in_query(query, service_key=self.service_key)
        if is_page or self.is_public(scope["path"]):
            await self.app(scope, receive, send)
            return
        is_write = scope["method"] not in READING
        if is_write and (b"origin" in named or b"sec-fetch-site" in named):
            auth.check_origin(headers, web_url=self.services.web_url)
        principal = await self._principal(scope, has_cookie=b"cookie" in named, is_write=is_write)
        if is_write and b"cookie" in named:
            _check_type(headers)
        if not enter_request(self.in_flight, principal.name):
            raise errors.TooMany(f"You have {MOST} requests under way; try again.", after=BUSY_SECONDS)
        try:
            await self.app(scope, receive, send)
        finally:
            leave_request(self.in_flight, principal.name)

    async def _principal(self, scope: Scope, *, has_cookie: bool, is_write: bool) -> Principal:
        """Return the caller. A cookie, which a browser adds by itself, counts where nothing else is shown."""
        headers: list[Header] = scope["headers"]
        shown = auth.shown_credentials(headers)
        if has_cookie and not shown.keys and not shown.passwords and self.services.anybody is None:
            visitor = auth.visitor(headers, self.services)
            if visitor is not None:
                if is_write:
                    auth.check_origin(headers, web_url=self.services.web_url, needs_proof=True)
                scope["state"].update(visitor._asdict())
                return visitor.principal
        address = partial(auth.address_of, scope, trusted=self.services.trusted_proxies)
        principal = await self.authenticator.principal(shown, address=address)
        scope["state"].update(principal=principal, directory=self.services.accounts.directory)
        return principal


def _check_type(headers: list[Header]) -> None:
    """Raise `UnknownType` for a write with a cookie that is no JSON: another site's form can send such a one, and a
    browser adds the cookie by itself.
    """
    types = [value.partition(b";")[0].strip().lower() for name, value in headers if name == b"content-type"]
    if types != [b"application/json"]:
        raise errors.UnknownType("A write that carries a cookie must say `Content-Type: application/json`.")


def request_id(now: datetime) -> str:
    """Return a new id for a request."""
    return ids.ulid(milliseconds=int(now.timestamp() * 1000), randomness=os.urandom(ids.RANDOM_BYTES))
