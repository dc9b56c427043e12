"""Rules for the values of a webhook, which become an HTTP request.

They are stricter than the types of its parameters: a header must not add a line to a request or reframe it. No sentence
repeats a value: headers carry credentials. A reference, `${env:NAME}`, stands for an unknown value; only the text
around it is judged.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from reconciler.model import cron, hosts, secret_references
from reconciler.model.components import MASK, parameter_name
from reconciler.model.values import Pointer, Value
from reconciler.model.violations import Violation

MOST_HEADERS = 64  # headers of one request
LONGEST_HEADER = 8192  # bytes of one, name and value together
LONGEST_TOGETHER = 32768  # bytes of all

TOKEN_RULE = "must be a header's name: letters, digits and any of `!#$%&'*+-.^_`|~`"  # noqa: S105 (RFC 9110, 5.6.2)
HOP_BY_HOP = frozenset(
    {
        "connection",
        "expect",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "trailers",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers between two machines and not for the one at the end: RFC 9110, 7.6.1, those that RFC 2616, 13.5.1 named, and
`Expect`, whose answer comes before the request is complete.
"""
CONTENT_LENGTH = "content-length"
TWICE = "stands in these headers already, perhaps in other letters; keep one of them"

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # noqa: S105
_QUOTED = r'"(?:[\t \x21\x23-\x5b\x5d-\x7e]|\\[\t \x21-\x7e])*"'
_NAME = re.compile(_TOKEN)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")  # all but the tab
_MEDIA_TYPE = re.compile(rf"{_TOKEN}/{_TOKEN}(?:[ \t]*;[ \t]*{_TOKEN}=(?:{_TOKEN}|{_QUOTED}))*")


def wrong_header_name(name: str) -> str | None:
    """Say why a header's name is wrong; None if it is right."""
    if not _NAME.fullmatch(name):
        return TOKEN_RULE
    if name.lower() in HOP_BY_HOP:
        return "is a header of the connection, which the service sets itself; leave it out"
    if name.lower() == CONTENT_LENGTH:
        return "is the length of the body, which the service counts itself; leave it out"
    return None


def wrong_header_value(value: str) -> str | None:
    """Say why a header's value is wrong; None if it is right."""
    if _CONTROL.search(value):
        return "must not hold line ends, NUL or other control characters"
    return "must not begin or end with white space" if value != value.strip() else None


def header_size(name: str, value: str) -> int:
    """Bytes of a header as it counts against the limits."""
    return len(name.encode()) + len(value.encode())


def wrong_headers(headers: Iterable[tuple[str, str]]) -> str | None:
    """Say why the headers of one request are wrong together, though each is right."""
    sizes = [header_size(name, value) for name, value in headers]
    if len(sizes) > MOST_HEADERS:
        return f"has more than {MOST_HEADERS} headers"
    return f"is longer than {LONGEST_TOGETHER} bytes in all" if sum(sizes) > LONGEST_TOGETHER else None


def wrong_media_type(text: str) -> str | None:
    """Say why the value of `Content-Type` is wrong (RFC 9110, 8.3.1); None if it is right."""
    if len(text) <= LONGEST_HEADER and _MEDIA_TYPE.fullmatch(text):
        return None
    return "must be a media type such as `application/json` or `text/plain; charset=utf-8`"


INITIAL = "retry_on_failure_initial_interval"
LONGEST = "retry_on_failure_max_interval"
ELAPSED = "retry_on_failure_max_elapsed_time"

LONGEST_PATH = 4096  # characters; servers refuse longer ones

PATH_CHARACTERS = "must not hold white space, control characters, a backslash or `#`; write them percent-encoded"

_OUTSIDE_PATHS = re.compile(r"[\s\\#\x00-\x20\x7f-\xa0]")


def intervals(initial: int, longest: int, elapsed: int) -> tuple[int, int]:
    """The initial and the longest interval that count: none is over what bounds it. `elapsed` 0 bounds nothing."""
    longest = min(longest, elapsed) if elapsed else longest
    return min(initial, longest), longest


def noted(given: list[Value], settled: Callable[[], Mapping[str, Value]], *, at: Pointer) -> Iterator[Violation]:
    """Yield the intervals of a valid webhook that are over what bounds them, which is used instead. `settled` gives its
    values with the defaults. One that is marked sensitive is compared with nothing.
    """
    places: dict[Value, int] = {}
    for index, each in enumerate(given):
        if isinstance(each, dict) and each.get("name") in (INITIAL, LONGEST, ELAPSED):
            if each.get("sensitive") is True:
                return
            places[each.get("name")] = index
    values = settled() if places else {}
    for name, bound in ((INITIAL, LONGEST), (LONGEST, ELAPSED)):
        value, limit = values.get(name), values.get(bound)
        if values.get("retry_on_failure_enabled") is not True or not (name in places or bound in places):
            continue
        if isinstance(value, int) and isinstance(limit, int) and value > limit > 0:
            yield _violation((*at, places[name if name in places else bound], "value"), _OVER.format(name, bound))


def wrong_path(path: str) -> str | None:
    """Say why the path of a request, its query included, is wrong; None if it is right."""
    if _OUTSIDE_PATHS.search(path):
        return PATH_CHARACTERS
    return f"is longer than {LONGEST_PATH} characters" if len(path) > LONGEST_PATH else None


def wrong_host(host: str) -> str | None:
    """Say why the host of a request is wrong: its form, or an address to which nothing may connect."""
    if hosts.is_name(host):
        return None
    written = hosts.wrong_host(host)
    if written is not None:
        return written
    address = hosts.literal(host)
    rule = None if address is None else hosts.refusal_reason(address)
    return None if rule is None else f"{rule}; the service never connects there"


_OVER = "`{}` is over `{}`, which is used instead; lower it, or raise the other"

_TEXTS = {
    "hostname": wrong_host,
    "path": wrong_path,
    "content_type": wrong_media_type,
    # In UTC: which zones a machine knows must not decide what is valid. The type has a list of them.
    "delivery_schedule": cron.wrong,
}


def broken_rules(given: list[Value], *, at: Pointer) -> Iterator[Violation]:
    """Yield every rule that the parameters of a webhook break; `at` is the pointer of the list in the document."""
    for index, parameter in enumerate(given):
        name, value = parameter_name(parameter), parameter.get("value") if isinstance(parameter, dict) else None
        if name == "headers" and isinstance(value, dict):
            yield from _headers(value, (*at, index, "value"))
        elif name in _TEXTS and isinstance(value, str) and value:
            wrong = None if _is_unknown(value) else _TEXTS[name](_around(value))
            if wrong is not None:
                yield _violation((*at, index, "value"), wrong)


def _headers(given: dict[str, Value], at: Pointer) -> Iterator[Violation]:
    texts = [(name, value) for name, value in given.items() if isinstance(value, str)]
    together = wrong_headers(texts)
    if together is not None:
        yield _violation(at, together)
    seen: set[str] = set()
    for name, value in given.items():
        pointer = (*at, name)
        wrong = wrong_header_name(name) or (TWICE if name.lower() in seen else None)
        seen.add(name.lower())
        if wrong is not None:
            yield _violation(pointer, wrong, at_key=True)
        if isinstance(value, str):
            yield from _value(name, value, pointer)


def _value(name: str, value: str, pointer: Pointer) -> Iterator[Violation]:
    wrong = wrong_header_value(_around(value))
    if wrong is not None:
        yield _violation(pointer, wrong)
    if header_size(name, value) > LONGEST_HEADER:
        yield _violation(pointer, f"is longer than {LONGEST_HEADER} bytes, its name included")


def _is_unknown(value: str) -> bool:
    """Return True if there is nothing to check: a whole reference, or the mask of a secret."""
    return value == MASK or ("${" in value and secret_references.whole_secret_reference(value) is not None)


def _around(value: str) -> str:
    """The text with each reference as a letter, which breaks no rule."""
    if "${" not in value:
        return value
    pieces = secret_references.text_pieces(value)
    return "".join(piece if isinstance(piece, str) else "x" for piece in pieces)


def _violation(pointer: Pointer, message: str, *, at_key: bool = False) -> Violation:
    return Violation(pointer, message, at_key=at_key, of_parameter=True)
