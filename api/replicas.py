"""Requests that other replicas pass on, and requests that are passed on to them.

A replica passes on what only another one knows or may do. The receiver finds the caller in its own directory, and
judges permissions as if the caller had come to it.
"""

import asyncio
import re
from collections.abc import Iterable
from functools import wraps
from urllib.parse import quote

from starlette.responses import Response
from starlette.types import Message, Receive

from api import errors, requests, responses
from api.calls import Call, Caller, Handler
from api.responses import Content, Empty, Header
from reconciler.delivery.contract import MOVED_BYTES
from reconciler.model import log_context
from reconciler.model.clock import rfc3339
from reconciler.model.error_codes import ErrorCode
from reconciler.model.principals import LOCAL, REPLICA, SERVICE_KEY, Principal
from reconciler.replicas import tokens
from reconciler.replicas.peers import SECONDS, Peer, PeerGone, Peers
from reconciler.replicas.tokens import BadToken, PeerPrincipal

# Receiving.

LOOKS, LOOK_SECONDS = 20, 0.05  # until this replica knows a caller whom the sender knows already
GONE = "Your access ended a moment ago."


async def recognise(call: Call) -> None:
    """Find the caller of a request that another replica passed on, and replace headers, id and body by the signed ones.

    Raises `Unauthenticated`, `TooLarge`, `BadRequest`, `ClientDisconnect`.
    """
    services = call.services
    values = call.header(tokens.HEADER)
    if services.peer_tokens is None or len(values) != 1:
        raise _refused("There are no other replicas here, or this has several tokens of one.")
    try:
        passed = services.peer_tokens.check(
            values[0].decode("latin-1"), method=call.scope["method"], path=asked_path(call)
        )
    except BadToken as problem:
        raise _refused(problem.message) from problem
    pieces: list[bytes] = []
    large = "The body is over {} bytes."
    await requests.receive_each(
        call.receive, pieces.append, limit=max(services.max_body_bytes, MOVED_BYTES), large=large
    )
    body = b"".join(pieces)
    if tokens.body_digest(body) != passed.body:
        raise _refused("This is signed for another body.")
    call.passed_on, call.request = passed, passed.request
    call.headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in passed.headers]
    call.headers.append((b"content-length", b"%d" % len(body)))
    call.named = dict(call.headers)
    call.receive = _replayed(body, call.receive)
    log_context.REQUEST.set(call.request)
    principal = await _principal(call, passed.principal)
    if principal is None:
        raise errors.Unauthenticated(GONE, code=ErrorCode.CREDENTIAL_REVOKED, headers=(_CHALLENGE,))
    call.caller = Caller(principal, call.directory)


_CHALLENGE: Header = (b"www-authenticate", b'Bearer realm="service"')


def _refused(sentence: str) -> errors.Unauthenticated:
    return errors.Unauthenticated(sentence, code=ErrorCode.PEER_REFUSED, headers=(_CHALLENGE, (tokens.REFUSED, b"1")))


async def _principal(call: Call, identity: PeerPrincipal) -> Principal | None:
    """Return the caller as the directory here has it. News of a new key or person may be on its way."""
    services = call.services
    if identity.name == REPLICA.name:
        return REPLICA
    if tokens.is_unlisted(identity):
        if identity.name == SERVICE_KEY.name:
            return SERVICE_KEY if services.api_key else None
        return LOCAL if services.anybody is not None else None
    for _ in range(LOOKS):
        found = tokens.known(identity, call.directory, now=rfc3339(services.clock()))
        if found is not None:
            return found
        await asyncio.sleep(LOOK_SECONDS)
    return None


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that has this body, and then what comes after it."""
    waiting = [body]

    async def replayed() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return replayed


# Passing on.

PASSED_ON = frozenset({b"if-none-match", b"if-match", b"x-service-project", b"x-revision"})  # headers of a request
PASSED_BACK = frozenset({b"etag", b"retry-after", b"www-authenticate", b"allow"})  # headers of an answer
READING = frozenset({"GET", "HEAD"})
READ_SECONDS = 2.0  # for a holder; then the store answers
ULID = re.compile(r"[0-9A-Z]{26}")  # in a path that others are asked for
AGAIN_SECONDS = 5.0  # in which a repository usually gets a holder again


async def pass_on(call: Call, peers: Peers, peer: Peer, *, body: bytes = b"", seconds: float = SECONDS) -> Response:
    """Return the answer of another replica to this call. Raises `PeerGone`."""
    answer = await peers.call(
        peer,
        "GET" if call.scope["method"] == "HEAD" else call.scope["method"],
        asked_path(call),
        principal=call.principal,
        body=body,
        seconds=seconds,
        headers=[each for each in call.headers if each[0] in PASSED_ON],
    )
    await _know(call, answer.headers)
    headers = tuple(each for each in answer.headers if each[0] in PASSED_BACK)
    types = [value for name, value in answer.headers if name == b"content-type"]
    if not types:
        return Empty(status=answer.status, headers=headers)
    return Content(answer.body, media_type=types[0], status=answer.status, headers=headers)


def note_revision(call: Call, headers: Iterable[Header]) -> int:
    """Return the revision of another replica's answer, and give the call's own answer at least this revision."""
    told = [int(value) for name, value in headers if name == b"x-revision" and value.isdigit()]
    if (following := call.services.following) is not None:
        following.told = max(following.told, *told, 0)
    return max(told, default=0)


async def _know(call: Call, headers: Iterable[Header]) -> None:
    """Wait a moment until this replica knows the revision, for clients that do not send it back."""
    revision = note_revision(call, headers)
    if call.services.following is not None:
        await call.services.following.knows(revision)


def named(peers: Peers, name: str | None) -> Peer | None:
    """Return the living replica of this name that has an address, or None."""
    return next((one for one in peers.others() if one.name == name), None)


def at_holder(handler: Handler) -> Handler:
    """Let the replica that follows the repository in the path answer an operation.

    If that replica does not answer, a read is answered from the store, and a write gets 503, as one without contact to
    the database does.
    """

    @wraps(handler)
    async def answer(call: Call) -> Response:
        repositories, name = call.services.repositories, call.parameters["name"]
        if repositories.follows(name):
            return await handler(call)
        is_read = call.scope["method"] in READING
        if not is_read and call.services.contact is not None:
            call.services.contact.check_write()
        holder = None if call.peers is None else named(call.peers, repositories.holder(name))
        if call.peers is not None and holder is not None:
            waiting = requests.wait_seconds(call) if is_read else 0.0
            body = b"" if is_read else await requests.read(call, limit=requests.MAX_BYTES)
            try:
                seconds = READ_SECONDS + waiting if is_read else SECONDS
                work = pass_on(call, call.peers, holder, body=body, seconds=seconds)
                return await (responses.unless_gone(call.receive, work) if waiting else work)
            except PeerGone:
                if not is_read:
                    raise
        if is_read:
            return await handler(call)
        raise errors.Unavailable(
            "No replica follows this repository at the moment; try again in some seconds.",
            code=ErrorCode.REPLICA_UNAVAILABLE,
            after=AGAIN_SECONDS,
        )

    return answer


async def ask_others(
    call: Call, path: str, *, seconds: float = READ_SECONDS, among: Iterable[str] | None = None
) -> dict[str, bytes]:
    """Return the bodies of other replicas' answers to a read of this path, by replica: of all of them, or those in
    `among`. A replica that does not answer 200 in time is left out.
    """
    peers = call.peers
    if peers is None:
        return {}
    asked = [one for one in peers.others() if among is None or one.name in among]

    async def ask(peer: Peer) -> tuple[str, bytes | None]:
        try:
            headers = [each for each in call.headers if each[0] == b"x-service-project"]
            answer = await peers.call(peer, "GET", path, principal=call.principal, seconds=seconds, headers=headers)
        except PeerGone:
            return peer.name, None
        await _know(call, answer.headers)
        return peer.name, answer.body if answer.status == 200 else None

    found = await asyncio.gather(*map(ask, asked))
    return {name: body for name, body in found if body is not None}


def asked_path(call: Call) -> str:
    """Return the path of a call as it came, with its query."""
    raw: bytes | None = call.scope.get("raw_path")
    path = quote(call.scope["path"]) if raw is None else raw.decode("latin-1")
    return f"{path}?{call.query.decode('latin-1')}" if call.query else path
