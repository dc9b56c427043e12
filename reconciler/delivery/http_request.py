"""One request to a server that others chose, and its possible outcomes: an answer, or an error that says what to do."""

from collections.abc import Set
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Literal

import msgspec

from reconciler.model import hosts, webhooks
from reconciler.model.errors import Refused, Transient

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """The target of a request. `host` has no brackets or one pair of them; `path` is as it is sent, with its query."""

    scheme: Literal["http", "https"]
    host: str
    port: int
    path: str = ""

    def __str__(self) -> str:
        return f"{hosts.bracketed(self.host)}:{self.port}"


class HttpRequest(msgspec.Struct, frozen=True):
    """A request. Headers carry credentials, so neither they nor the body are shown."""

    target: HttpTarget
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    headers: Headers = ()
    body: bytes = b""

    def __repr__(self) -> str:
        """Without headers and body."""
        return f"Request({self.method} {self.target})"


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """The limits of one request: seconds for a connection, seconds in all, bytes that are read of an answer's body."""

    connect: float = 5.0
    total: float = 5.0
    answer_bytes: int = 64 * 1024


class HttpAnswer(msgspec.Struct, frozen=True):
    """The answer of a server, whatever its status; all of it is a stranger's text. `body_start` is not decompressed."""

    status: int
    reason: str
    headers: Headers
    body_start: bytes

    def __repr__(self) -> str:
        """The status alone."""
        return f"Answer({self.status})"


class FailureCause(StrEnum):
    """The reason why no answer came."""

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

    def __init__(self, target: HttpTarget, rule: str, *, whose: str = "its") -> None:
        super().__init__(f"nothing is sent to {target}, since {whose} address {rule}; name another host")
        self.rule = rule


class Unsendable(Refused):
    """The request breaks a rule of requests; the message names the header or part, never a value."""


class Unanswered(Transient):
    """No answer came; try again. The request may have arrived all the same."""

    def __init__(self, target: HttpTarget, cause: FailureCause, message: str) -> None:
        super().__init__(f"{target} {message}")
        self.cause = cause


def check(request: HttpRequest) -> Set[str]:
    """Return the names of its headers, in lower case. Raises Unsendable unless the rules of webhooks allow every part.

    Values are judged here again, because references to secrets are known only now: a file that ends in a line end would
    end a header's line.
    """
    target = request.target
    wrong = _wrong_target(target)
    if wrong is not None:
        raise Unsendable(wrong)
    seen: set[str] = set()
    for name, value in request.headers:
        wrong = _wrong(name, value, seen)
        if wrong is not None:
            raise Unsendable(f"a header of a request to {target} {wrong}")
        seen.add(name.lower())
    wrong = webhooks.wrong_headers(request.headers)
    if wrong is not None:
        raise Unsendable(f"a request to {target} {wrong}")
    return seen


@lru_cache(maxsize=1024)
def _wrong_target(target: HttpTarget) -> str | None:
    """Remembered, since it is the same for each of thousands of requests."""
    if target.path and not target.path.startswith("/"):
        return "the path of a request must be empty or begin with `/`"
    for part, wrong in (("the host", webhooks.wrong_host(target.host)), ("the path", webhooks.wrong_path(target.path))):
        if wrong is not None:
            return f"{part} of a request {wrong}"
    return None


_wrong_name = lru_cache(maxsize=1024)(
    webhooks.wrong_header_name
)  # of values, which may be secrets, nothing is remembered


def _wrong(name: str, value: str, seen: set[str]) -> str | None:
    wrong = _wrong_name(name)
    if wrong is not None:
        return wrong
    if name.lower() in seen:
        return f"(`{name}`) {webhooks.TWICE}"
    if webhooks.header_size(name, value) > webhooks.LONGEST_HEADER:
        return f"is longer than {webhooks.LONGEST_HEADER} bytes"
    about = webhooks.wrong_header_value(value)
    return None if about is None else f"(`{name}`) {about}"
