"""Parts of a request: its body, bounded and typed; its query parameters; its entity tags."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive

from api import auth, errors
from api.calls import Call
from api.responses import Empty, Header
from reconciler.model import documents as model_documents
from reconciler.model import positions
from reconciler.model.error_codes import ErrorCode
from reconciler.model.values import Value, pointer_text
from reconciler.settings import scalars

# Reading a request's body, within limits on bytes and time. The applier parses the bytes.

READ_SECONDS = 60.0  # for the whole body: a client that sends a byte a minute must not hold a handler
# The server would take the rest of a late body for the next request, or wait for it: so the connection ends.
CLOSE: tuple[Header, ...] = ((b"connection", b"close"),)
LATE = partial(errors.BadRequest, code=ErrorCode.BODY_TIMEOUT, headers=CLOSE)
LARGE = "The body is over {} bytes; send the resources in several requests."


async def read(call: Call, *, limit: int | None = None) -> bytes:
    """Return the body. `limit` is in bytes, for a limit below that of all bodies.

    A slow sender may have lost access by the end, so the call is judged again: use `call.principal` and `call.project`
    only afterwards. Raises `UnknownEncoding`, `TooLarge`, `BadRequest`, `ClientDisconnect`, and the errors of
    `auth.again`.
    """
    pieces: list[bytes] = []
    await pass_on(call, pieces.append, limit=limit)
    auth.again(call)
    return b"".join(pieces)


async def pass_on(call: Call, take: Callable[[bytes], None], *, limit: int | None) -> None:
    """Call `take` with each piece of the body. Nothing is kept, and the call is not judged again.

    Raises `UnknownEncoding`, `TooLarge`, `BadRequest`, `ClientDisconnect`.
    """
    if any(value.strip().lower() not in (b"", b"identity") for value in call.header(b"content-encoding")):
        raise errors.UnknownEncoding("The body is compressed; send it without a Content-Encoding.")
    most = min(call.services.max_body_bytes, limit or call.services.max_body_bytes)
    large = LARGE if limit is None else "The body is over {} bytes."
    for value in call.header(b"content-length"):
        check_length(value, most=most, large=large)
    await receive_each(call.receive, take, limit=most, large=large)


async def receive_each(
    receive: Receive,
    take: Callable[[bytes], None],
    *,
    limit: int,
    large: str,
    late: Callable[[str], errors.Problem] = LATE,
    seconds: float = READ_SECONDS,
) -> None:
    """Call `take` with each piece that the client sends. `large` is a sentence with a place for the limit.

    Raises `TooLarge`, `ClientDisconnect`, and the error that `late` makes of a sentence after `seconds`.
    """
    size, more = 0, True
    try:
        async with asyncio.timeout(seconds):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                chunk: bytes = message.get("body", b"")
                more = message.get("more_body", False)
                size += len(chunk)
                if size > limit:
                    raise errors.TooLarge(large.format(limit))
                take(chunk)
    except TimeoutError:
        raise late(f"The body did not arrive within {seconds:g} seconds.") from None


def check_length(value: bytes, *, most: int, large: str) -> int:
    """Return the value of a Content-Length. Raises `BadRequest`, `TooLarge`."""
    digits = value.strip(b" \t")  # this white space is not part of the value (RFC 9110, 5.5)
    if not digits.isdigit():
        raise errors.BadRequest("The header Content-Length is not a number of bytes.")
    digits = digits.lstrip(b"0") or b"0"
    # A number with more digits than the limit is larger. It is not converted, because the cost of that has no bound.
    if len(digits) > len(str(most)) or int(digits) > most:
        raise errors.TooLarge(large.format(most))
    return int(digits)


# Bodies that are one small JSON object: its members read with their types, every mistake in one answer.

MAX_BYTES = 8_192  # of a body; the longest text in one has 1,024 characters, and JSON may escape each


class InvalidBody(errors.BadRequest):
    """Members of a body are wrong: each name with its sentence."""

    def __init__(self, mistakes: Sequence[tuple[str, str]]) -> None:
        super().__init__(*(f"{pointer_text((name,))}: {sentence}" for name, sentence in mistakes))
        self.mistakes = mistakes


class Members:
    """The members of a body. `mistakes` collects their errors for `check`."""

    def __init__(self, value: dict[str, Value], *, known: Sequence[str]) -> None:
        self.value = value
        self.mistakes = [(name, f"unknown key; {_allowed(known)}") for name in value if name not in known]

    def text(self, name: str, *, required: bool = False) -> str | None:
        """Return a text; None if it is not given."""
        value = self.value.get(name)
        if isinstance(value, str):
            return value
        if name in self.value:
            self.mistake(name, "must be a string")
        elif required:
            self.mistake(name, "is required")
        return None

    def boolean(self, name: str) -> bool | None:
        """Return a boolean; None if it is not given."""
        value = self.value.get(name)
        if isinstance(value, bool):
            return value
        if name in self.value:
            self.mistake(name, "must be true or false")
        return None

    def choice(self, name: str, among: Collection[str], *, required: bool = False) -> str | None:
        """Return one of a few texts; None if it is not given."""
        value = self.text(name, required=required)
        if value is None or value in among:
            return value
        self.mistake(name, f"must be one of {', '.join(among)}")
        return None

    def choices(self, name: str, among: Collection[str]) -> frozenset[str] | None:
        """Return some of a few texts; None if they are not given."""
        value = self.value.get(name)
        if isinstance(value, list) and value and all(isinstance(one, str) and one in among for one in value):
            return frozenset(str(one) for one in value)
        if name in self.value:
            self.mistake(name, f"must be a list of at least one of {', '.join(among)}")
        return None

    def mistake(self, name: str, sentence: str) -> None:
        """Record a mistake in a member."""
        self.mistakes.append((name, sentence))

    def check(self) -> None:
        """Raise `InvalidBody` if there are mistakes."""
        if self.mistakes:
            raise InvalidBody(self.mistakes)


async def read_object(
    call: Call, *, known: Sequence[str], optional: bool = False, parameters: frozenset[str] = frozenset()
) -> Members:
    """Return the members of the body. The query may have only these `parameters`. If no member is `known`, or with
    `optional`, the body may be missing.

    Raises `BadRequest` for a body that is no object, and the errors of `read`.
    """
    if call.query:
        Query(call.query, known=parameters, strict=True).check()
    body = await read(call, limit=MAX_BYTES)
    is_needed = bool(known) and not optional
    return object_members(body, known=known) if body or is_needed else Members({}, known=known)


def object_members(body: bytes, *, known: Sequence[str]) -> Members:
    """Return the members of a body. Raises `BadRequest`."""
    try:
        documents = model_documents.read(
            body, syntax=model_documents.Syntax.JSON, limits=positions.limits_of_body(len(body))
        )
    except model_documents.DocumentError as error:
        raise errors.BadRequest(f"body:{error.line}:{error.column}: {error.message}") from error
    value = documents[0].value if documents else None
    if not isinstance(value, dict):
        raise errors.BadRequest("The body must be an object.")
    return Members(value, known=known)


def _allowed(known: Sequence[str]) -> str:
    names = [f"`{name}`" for name in known]
    if not names:
        return "there are none"
    listed = ", ".join(names[:-1])
    return f"only {listed} and {names[-1]} are allowed" if listed else f"only {names[0]} is allowed"


# Query parameters: each handler says which ones exist. Each may occur once, with a value of its type.
#
# A write refuses parameters that it does not know (`?dryrun=true` must not apply); a read ignores them.

T = TypeVar("T")
MOST = 100  # parameters in one query
BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


class Query:
    """The parameters of one request. Problems are collected, so that one answer names all of them: see `check`."""

    def __init__(self, text: bytes, *, known: frozenset[str], strict: bool) -> None:
        try:
            pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, max_num_fields=MOST, errors="strict")
        except ValueError:
            raise errors.BadRequest(f"The query is not at most {MOST} parameters in percent-encoded UTF-8.") from None
        counts = Counter(name for name, _ in pairs)
        self.values = {name: value for name, value in pairs if name in known}
        twice = sorted(name for name, number in counts.items() if name in known and number > 1)
        self.problems = [f"The query parameter `{name}` is given more than once." for name in twice]
        if strict:
            names = ", ".join(f"`{one}`" for one in sorted(known)) or "none"
            there = f"there {'is' if len(known) == 1 else 'are'} {names}"
            unknown = sorted(counts.keys() - known)
            self.problems += [f"The query parameter `{name}` is not known here: {there}." for name in unknown]

    def boolean(self, name: str) -> bool:
        """Return a boolean; False if it is not given."""
        value = self.values.get(name, "false")
        if value not in BOOLEANS:
            self.problems.append(f"The query parameter `{name}` is not one of `true`, `false`, `1` and `0`.")
        return BOOLEANS.get(value, False)

    def choice(self, name: str, value: str) -> bool:
        """Return True if a parameter has its only allowed value; False if it is not given."""
        if self.values.get(name, value) != value:
            self.problems.append(f"The query parameter `{name}` takes `{value}` alone.")
        return self.values.get(name) == value

    def integer(self, name: str, *, lowest: int, highest: int, default: int) -> int:
        """Return an integer in decimal digits."""
        value = self.values.get(name)
        if value is None:
            return default
        # `isdigit` alone would accept Arabic digits, and `int` alone `+1`, ` 1` and `1_0`.
        if value.isascii() and value.isdigit() and len(value) <= len(str(highest)) and lowest <= int(value) <= highest:
            return int(value)
        self.problems.append(f"The query parameter `{name}` is not an integer from {lowest} to {highest}.")
        return default

    def text(self, name: str) -> str | None:
        """Return a text; None if it is not given."""
        return self.values.get(name)

    def parsed(self, name: str, parse: Callable[[str], T]) -> T | None:
        """Return the result of `parse`; None without the parameter. `parse` raises ValueError with the end of the
        sentence.
        """
        value = self.values.get(name)
        try:
            return None if value is None else parse(value)
        except ValueError as problem:
            self.problems.append(f"The query parameter `{name}` {problem}")
            return None

    def check(self) -> None:
        """Raise `BadRequest` if any parameter had a problem."""
        if self.problems:
            raise errors.BadRequest(*self.problems)


MOST_WAIT = 60.0  # seconds


def wait_seconds(call: Call) -> float:
    """Return the seconds for which a read waits for a change; 0 if they are not given. Raises `BadRequest`."""
    query = Query(call.query, known=frozenset({"wait"}), strict=False)
    found = query.parsed("wait", _wait)
    query.check()
    return found or 0.0


def _wait(text: str) -> float:
    try:
        return scalars.seconds(text, longest=MOST_WAIT)
    except ValueError:
        raise ValueError("is not a duration such as `500ms` or `30s`, at most `60s`.") from None


def none_known(text: bytes) -> None:
    """Refuse every parameter, for a write that takes none. Raises `BadRequest`."""
    if text:
        Query(text, known=frozenset(), strict=True).check()


# Instants in bodies: when something ends, as a duration from now or as a point in time.

INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)
LONGEST = timedelta(seconds=scalars.LONGEST)  # a year: beyond it an expiry is a mistake
READ = 1e9  # seconds, some thirty years: a longer duration is read, so that its mistake can be named


def expiry(body: Members, *, now: datetime, longest: timedelta = LONGEST) -> datetime | None:
    """Return the instant of the member `expiry`; None if it is missing, or wrong and recorded as a mistake."""
    try:
        return _until(body.value["expiry"], now=now, longest=longest) if "expiry" in body.value else None
    except ValueError as mistake:
        body.mistake("expiry", str(mistake))
        return None


def _until(value: Value, *, now: datetime, longest: timedelta) -> datetime:
    """Return the instant of an expiry. Raises ValueError with the allowed forms."""
    allowed = "must be a duration such as 30m or 2h, or an instant with a zone such as 2026-11-21T08:00:00Z"
    try:
        if isinstance(value, str) and INSTANT.fullmatch(value):
            until = datetime.fromisoformat(value)
        else:
            until = now + timedelta(seconds=scalars.seconds(value, longest=READ))
    except ValueError:
        raise ValueError(allowed) from None
    if not now < until <= now + longest:
        away = "a year" if longest == LONGEST else f"{longest.days} days"
        raise ValueError(f"must be in the future, and at most {away} away")
    return until


# Entity tags: a client sends one to learn if anything changed (RFC 9110, 8.8.3 and 13.1.2).

_TAG = re.compile(r'(?:W/)?"[!#-+\--~]*"')


def matching(call: Call) -> tuple[str, ...] | None:
    """Return the versions and hashes in `If-Match`; None without the header. In an ETag of ours, only the part before
    the dash counts.

    A weak ETag matches nothing (RFC 9110, 13.1.1). Raises `BadRequest`.
    """
    if b"if-match" not in call.named:
        return None
    named = [tag.strip() for value in call.header(b"if-match") for tag in value.decode("latin-1").split(",")]
    if named == ["*"]:
        return ("*",)
    if not all(_TAG.fullmatch(tag) for tag in named):
        raise errors.BadRequest('`If-Match` takes `*`, or versions, hashes or ETags, each in quotes, such as "3".')
    return tuple(tag[1:-1].partition("-")[0] for tag in named if tag.startswith('"'))


def not_modified(call: Call, etag: Header) -> Response | None:
    """Return 304 if the client has this answer already, otherwise None."""
    if b"if-none-match" not in call.named:
        return None
    held = [tag.strip().removeprefix(b"W/") for value in call.header(b"if-none-match") for tag in value.split(b",")]
    return Empty(status=304, headers=(etag,)) if etag[1] in held or b"*" in held else None
