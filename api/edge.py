"""The outermost layer: the rules for every request, on every path.

Each request gets an id, and every answer has it, with the security headers. A credential is checked before the body is
read, and before an answer could reveal what exists. Every exception becomes an answer here. Permissions are checked in
`access`.

Every answer has a revision of the store that is at least that of what it shows. A request that carries one is answered
by a replica that knows it, so a client that sends back the last number never reads an older state.
"""

import re
from collections.abc import Iterable
from functools import partial
from time import perf_counter

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from api import auth, errors, replicas
from api.calls import Call, Caller, Services
from api.responses import page_headers
from api.routing import Endpoint, Nowhere, Router
from reconciler.auth import rate_limits
from reconciler.model import log_context
from reconciler.model.error_codes import ErrorCode
from reconciler.replicas import tokens

MOST = 32  # requests of one credential under way at a time, on every listener
BUSY_SECONDS = 1  # after which a request over that limit may be tried again
REFUSED = frozenset({401, 403, 429})
READING = frozenset({"GET", "HEAD", "OPTIONS"})
WITHOUT_CONTACT = frozenset({"/livez", "/readyz", "/metrics"})  # paths that are served even if the database is gone
REVISION = re.compile(rb"[0-9]{1,18}")
REVISION_SECONDS = 1  # after which a revision that is not known here yet may be asked for again


class Edge:
    """The ASGI application of some endpoints. `nowhere` answers on all other paths."""

    def __init__(self, services: Services, endpoints: Iterable[Endpoint], *, nowhere: Nowhere) -> None:
        self._services = services
        self._endpoints = {endpoint.path: endpoint for endpoint in endpoints}
        self._router = Router(self._endpoints.values())
        self._nowhere = nowhere

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = perf_counter()
        services = self._services
        endpoint, parameters = self._router.find(scope["path"]) or (self._nowhere, {})
        call = Call(scope, receive, services, services.new_id(), parameters, endpoints=self._endpoints)
        log_context.REQUEST.set(call.request)
        log_context.PLACE.set(partial(auth.address, call))
        instead = endpoint.style.headers
        headers = page_headers(services.headers, instead) if instead else services.headers
        contact = services.contact
        stale = None if contact is None else contact.stale_seconds
        status = 0  # of the answer, as soon as there is one
        route = ""  # by which the request is counted: the path, once the request is let through to it

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                # The revision is read now, after everything that the answer shows.
                revision = (b"x-revision", b"%d" % services.revision)
                own = [(b"x-request-id", call.request.encode()), revision]
                # Contact that is lost meanwhile counts too: the answer may be from memory after all.
                lost = stale if contact is None or contact.stale_seconds is None else contact.stale_seconds
                if lost is not None:
                    own.append((b"x-stale", b"%d" % lost))
                message["headers"] = [*message.get("headers", ()), *own, *headers]
            elif scope["method"] == "HEAD":
                message["body"] = b""
            await send(message)

        try:
            if contact is not None and endpoint.path not in WITHOUT_CONTACT:
                contact.check()
            await _admit(call, endpoint)
            route = endpoint.path
            if b"x-revision" in call.named and not endpoint.is_public:
                await _await_revision(call)
            response = await endpoint.answer(call)
            await response(scope, receive, send_on)
        except ClientDisconnect:
            return  # there is nobody to answer
        except Exception as exception:
            if isinstance(exception, errors.Hidden):
                call.project, call.is_hidden = exception.project, True
            problem = errors.problem_of(exception, request=call.request)
            if status:
                raise  # the head is sent: the server cuts the connection, so that the client sees the incomplete answer
            await endpoint.style.failure(call, problem)(scope, receive, send_on)
        finally:
            if call.counted_as:
                _end_count(call)
            services.traffic.note(route, scope["method"], status, perf_counter() - began)
            if status in REFUSED or call.is_hidden:
                _count(call, endpoint.path, status)


async def _admit(call: Call, endpoint: Endpoint) -> None:
    """Check the rules for every request, and find the caller, unless the path needs no credential."""
    is_passed_on = tokens.HEADER in call.named and not endpoint.is_public
    # Replicas call each other by names that no browser may use.
    if not is_passed_on and (call.services.anybody is not None or len(call.named) < len(call.headers)):
        auth.check_host(call)
    auth.refuse_in_url(call)
    if endpoint.is_public:
        return
    if is_passed_on:
        await replicas.recognise(call)
        _enter(call)
        return
    is_write, has_cookie = call.scope["method"] not in READING, b"cookie" in call.named
    if is_write and (b"origin" in call.named or b"sec-fetch-site" in call.named):
        auth.check_origin(call)
    shown = auth.shown_credentials(call)
    # The session of a cookie counts only without other credentials.
    if has_cookie and not any(shown) and call.services.anybody is None:
        call.caller = await auth.browser(call)
        if is_write and call.caller is not None:
            auth.check_origin(call, needs_proof=True)
    if call.caller is None:
        call.caller = Caller(await auth.authenticate(call, shown), call.directory)
    if is_write and has_cookie:
        types = [value.partition(b";")[0].strip().lower() for value in call.header(b"content-type")]
        if types != [b"application/json"]:
            # A form of another site can send any other type, and the browser adds the cookie.
            raise errors.UnknownType("A write that carries a cookie must say `Content-Type: application/json`.")
    _enter(call)


async def _await_revision(call: Call) -> None:
    """Wait a moment until this replica knows the revision of the request. Raises `BadRequest`, `Unavailable`."""
    values = call.header(b"x-revision")
    if len(values) != 1 or REVISION.fullmatch(values[0]) is None:
        raise errors.BadRequest("The header X-Revision is not the number of an earlier answer.")
    wanted, services = int(values[0]), call.services
    if services.following is None:
        is_known = wanted <= services.store.known_revision
    else:
        is_known = await services.following.knows(wanted)
    if not is_known:
        raise errors.Unavailable(
            f"The revision {wanted} is not known here: send the request again, or without X-Revision after a restore.",
            code=ErrorCode.REVISION_UNKNOWN,
            after=REVISION_SECONDS,
        )


def _enter(call: Call) -> None:
    """Count a caller's request while it is in progress. Raises `TooMany`."""
    counts, name = call.services.in_flight, call.principal.name
    before = counts.get(name, 0)
    if before >= MOST:
        raise errors.TooMany(f"You have {MOST} requests under way; try again.", after=BUSY_SECONDS)
    counts[name] = before + 1
    call.counted_as = name


def _end_count(call: Call) -> None:
    counts, name = call.services.in_flight, call.counted_as
    counts[name] -= 1
    if not counts[name]:
        del counts[name]


def _count(call: Call, path: str, status: int) -> None:
    """Count a refusal. The upkeep of the audit writes the counts."""
    actor = rate_limits.NOBODY if call.caller is None else call.principal.name
    attempt = rate_limits.RefusedAttempt(status, actor, auth.address(call), path, call.project)
    call.services.refusals.note(attempt)
