"""One request to a server that others chose, and what may come of it: an answer, or an error that says what to do next.

Belongs here: the values, and whether a request may be sent as it is; pure. Does not: sending (`client`), where an
address lies (`networks`).
"""

from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Literal

from reconciler.errors import Refused, Transient
from reconciler.resources import headers, hosts, webhooks

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes. `host` has no brackets or one pair of them; `path` is as it is sent, its query included."""

    scheme: Literal["http", "https"]
    host: str
    port: int
    path: str = ""

    def __str__(self) -> str:
        return f"{hosts.bracketed(self.host)}:{self.port}"


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent. Headers carry credentials, so neither they nor the body are shown."""

    target: Target
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    headers: Headers = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may take: seconds for a connection, seconds in all, bytes that are read of an answer's body."""

    connect: float = 5.0
    total: float = 5.0
    answer_bytes: int = 64 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said, whatever the status; all of it is a stranger's text. `body_start` is not decompressed."""

    status: int
    reason: str
    headers: Headers = field(repr=False)
    body_start: bytes = field(repr=False)


class Cause(StrEnum):
    """What kept an answer from coming."""

    NAME = "name"  # it did not resolve
    CONNECT = "connect"
    TLS = "tls"
    UNTRUSTED = "untrusted"  # the server's certificate
    CLIENT = "client"  # the server wants a certificate of ours, or another one
    TIME = "time"  # it took too long
    PROXY = "proxy"
    ANSWER = "answer"  # none, or none that is HTTP


class Denied(Refused):
    """The service does not connect there: no retry helps until the name, the settings or the resource changes.

    `rule` is a sentence's rest, `is link-local`. Neither says which address a name led to; the log does.
    """

    def __init__(self, target: Target, rule: str, *, whose: str = "its") -> None:
        super().__init__(f"nothing is sent to {target}, since {whose} address {rule}; name another host")
        self.rule = rule


class Unsendable(Refused):
    """The request breaks a rule of requests; the message names the header or part, never a value."""


class Unanswered(Transient):
    """No answer came; try again. The request may have arrived all the same."""

    def __init__(self, target: Target, cause: Cause, message: str) -> None:
        super().__init__(f"{target} {message}")
        self.cause = cause


def check(request: Request) -> None:
    """Unsendable, unless every part of the request is what the rules of webhooks allow.

    Values are judged here again, because references to secrets are known only now: a file that ends in a line end would
    end a header's line.
    """
    target = request.target
    wrong = _wrong_target(target)
    if wrong is not None:
        raise Unsendable(wrong)
    together = 0
    seen: set[str] = set()
    for name, value in request.headers:
        size = headers.size(name, value)
        wrong = _wrong(name, value, size, seen)
        if wrong is not None:
            raise Unsendable(f"a header of a request to {target} {wrong}")
        seen.add(name.lower())
        together += size
    if len(seen) > headers.MOST or together > headers.LONGEST_TOGETHER:
        raise Unsendable(f"a request to {target} {headers.wrong_together(request.headers)}")


@lru_cache(maxsize=1024)
def _wrong_target(target: Target) -> str | None:
    """Remembered, since it is the same for each of thousands of requests."""
    for part, wrong in (("the host", webhooks.wrong_host(target.host)), ("the path", webhooks.wrong_path(target.path))):
        if wrong is not None:
            return f"{part} of a request {wrong}"
    return None


_wrong_name = lru_cache(maxsize=1024)(headers.wrong_name)  # of values, which may be secrets, nothing is remembered


def _wrong(name: str, value: str, size: int, seen: set[str]) -> str | None:
    wrong = _wrong_name(name)
    if wrong is not None:
        return wrong
    if name.lower() in seen:
        return f"(`{name}`) {headers.TWICE}"
    if size > headers.LONGEST:
        return f"is longer than {headers.LONGEST} bytes"
    about = headers.wrong_value(value)
    return None if about is None else f"(`{name}`) {about}"
