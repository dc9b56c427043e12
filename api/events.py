"""Events: a stream of the keys of things that change, as server-sent events.

Format: "Server-sent events" of the HTML standard, https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable

from starlette.responses import Response

from api import access, auth, errors, notifications, requests, responses
from api.calls import Call, Subject
from api.routing import Routes
from reconciler.model.clock import rfc3339
from reconciler.model.principals import Permission
from reconciler.ops.events import Event
from reconciler.replicas.contact import CutOff

routes = Routes()

Sees = Callable[[Event], bool]

PARAMETERS = frozenset({"after"})
CONTENT_TYPE = (b"content-type", b"text/event-stream")
UNBUFFERED = (b"x-accel-buffering", b"no")  # nginx sends each event at once
MOST = 256  # streams: half of the connections
MOST_OF_ONE = 16  # streams of one caller: half of their requests under way
AGAIN_SECONDS = 5.0  # after which a refused stream may be tried again
CHECK_SECONDS = 2.0  # between two checks whether the caller may still read
BEAT_SECONDS = 15.0  # between two signs of life
PAUSE_SECONDS = 0.2  # between two batches of events
RETRY = b"retry: 2000\n"  # milliseconds, after which a browser comes again


@routes.add("GET /v1/events", Subject.REACH, Permission.READ)
async def stream(call: Call) -> Response:
    """Stream the events within the caller's reach, after the last one that the caller got."""
    query = requests.Query(call.query, known=PARAMETERS, strict=False)
    query.check()
    # A browser that comes again repeats the first URL, and says in the header where it is now.
    last = call.named.get(b"last-event-id")
    texts = _texts(call, query.text("after") if last is None else last.decode("latin-1"))
    return responses.Streamed(texts, content_type=CONTENT_TYPE, headers=(UNBUFFERED,), whole_seconds=None)


async def _texts(call: Call, after: str | None) -> AsyncGenerator[bytes, None]:
    """Yield the stream, until the caller may not read it any more or the service stops."""
    events, clock = call.services.events, asyncio.get_running_loop().time
    if events.followers[call.principal.name] >= MOST_OF_ONE:
        raise errors.TooMany(f"You follow {MOST_OF_ONE} streams of events; close one.", after=AGAIN_SECONDS)
    if events.is_closed or events.followers.total() >= MOST:
        raise errors.Unavailable("No more streams of events can be followed; try again.", after=AGAIN_SECONDS)
    sees: Sees | None = _seen_by(call)
    with events.followed_by(call.principal.name):
        number = events.last if after is None else events.number_of(after)
        yield RETRY + (_position(call, number) if number >= 0 else b"\n")
        beat_at = clock() + BEAT_SECONDS
        while not events.is_closed and sees is not None:
            found = events.after(number)
            if found is None:
                number = events.last
                yield b"event: reset\ndata: {}\n" + _position(call, number)
            elif clock() >= beat_at:
                if _has_expired(call):
                    return
                beat_at = clock() + BEAT_SECONDS
                yield b":\n" + _position(call, number)
            elif found:
                number += len(found)
                if text := b"".join(event.text for event in found if sees(event)):
                    yield text
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                await events.added(seconds=CHECK_SECONDS)
            sees = _still_seen_by(call)


def _position(call: Call, number: int) -> bytes:
    """Return the end of a message: its id, from which the next stream continues."""
    return b"id: %b\n\n" % call.services.events.id_of(number).encode()


def _still_seen_by(call: Call) -> Sees | None:
    """Return the present result of `_seen_by`; None if the caller's credential or permission has ended, or may have."""
    try:
        auth.again(call)
        return _seen_by(call)
    except (errors.Problem, CutOff):
        return None


def _has_expired(call: Call) -> bool:
    """Return True if the key of the caller has expired, which changes no directory. This looks through all keys."""
    now = rfc3339(call.services.clock())
    return call.directory.still(call.principal, since=call.directory, now=now) is None


def _seen_by(call: Call) -> Sees:
    """Return the test for events of what the caller may get. Raises what `access.reach` does."""
    sees, reachable = notifications.seen_by(call), access.reach(call)

    def sees_event(event: Event) -> bool:
        if event.cause is not None:
            return sees(event.cause)
        is_within = access.is_within(reachable, event.project)
        return is_within and access.permits(call, Permission.READ, project=event.project)

    return sees_event
