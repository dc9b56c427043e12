"""The log context: the request or run of the present work, for log lines and the audit.

Tasks, timers and threads of `asyncio.to_thread` inherit it. Work that outlives a request, such as a loop that it starts
again, begins in `unbound()`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar

REQUEST: ContextVar[str] = ContextVar("request", default="")
"""The id of the request; empty outside of one. The edge sets it; each request has a task, and so a context, to itself.
"""

RUN: ContextVar[str] = ContextVar("run", default="")
"""The id of the run; empty outside of one."""


PLACE: ContextVar[Callable[[], str] | None] = ContextVar("place", default=None)
"""Returns the address of a request's client, called only for an audit event; None outside of a request."""


def request_address() -> str | None:
    """Return the address of the client whose request is being handled; None outside of one."""
    place = PLACE.get()
    return None if place is None else place()


@contextmanager
def bind_run(run: str) -> Iterator[None]:
    """Attribute the log lines of this context to a run, and to no request: many may have asked for it."""
    request, before, place = REQUEST.set(""), RUN.set(run), PLACE.set(None)
    try:
        yield
    finally:
        PLACE.reset(place)
        RUN.reset(before)
        REQUEST.reset(request)


def unbound() -> Context:
    """Return a context for a task that outlives the request or the run in which it starts."""
    return Context()
