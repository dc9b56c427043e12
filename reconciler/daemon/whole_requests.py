"""Requests that come whole, in one piece of their connection, and are answered without a task of their own.

Belongs here: such a request, and what an application offers that answers them. Does not: which ones it answers
(`api.shortcut`), the bounds of a connection, and what comes in pieces (`connections`).

A task, its scope and the frames of the layers that it passes cost a third of what a request costs that waits for
nothing but a sync of the disk, which it shares with others. What is unusual about a request is for the usual way: a
shortcut refuses nothing and explains nothing.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeAlias

from uvicorn._types import HTTPScope
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from reconciler.daemon.headers import Header

Finish: TypeAlias = Callable[["WholeRequest", int, bytes, bytes], None]
"""Takes a request, a status, lines of headers with the length of the body among them, and the body."""


class WholeRequest(RequestResponseCycle):
    """In the place of the server's own cycle: it has what the server looks at of one, and nothing else.

    Names of `headers` are in lower case; `content` is the body.
    """

    __slots__ = ("_finish", "content", "headers", "keep_alive", "response_complete", "scope")

    message_event = asyncio.Event()  # for which nobody waits

    def __init__(self, scope: HTTPScope, headers: list[Header], content: bytes, *, finish: Finish) -> None:
        """All of its own: what the server's has is for a task."""
        self.scope = scope
        self.headers = headers
        self.content = content
        self.keep_alive = True
        self.response_complete = False
        self._finish = finish

    def answer(self, status: int, head: bytes, body: bytes) -> None:
        """Send all of an answer, once; nothing is sent where the client is gone. `head` is lines of headers, the length
        of the body among them.
        """
        self.content = b""  # the connection keeps the request until the next one comes
        self.response_complete = True
        self._finish(self, status, head, body)


class Shortcut(Protocol):
    """What answers requests for one target that come whole."""

    @property
    def method(self) -> bytes:
        """Of the requests."""

    @property
    def target(self) -> bytes:
        """What stands between the method and the version, without a query."""

    def take(self, request: WholeRequest) -> bool:
        """Whether it was taken, and will be answered, in this call or after it; else it is as if nobody had asked."""
