"""What the values of a webhook may hold, beyond what the types of its parameters say: they become a request.

Belongs here: the rules of one webhook's values, each violation at its place. Does not: the types and what is required
(`conforming`), what references to secrets may name, nor where a name leads at the time of a request (`egress`).

A reference, `${env:NAME}`, stands for a value that nobody knows here: what is around it is judged.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from reconciler import cron
from reconciler.documents.values import Pointer, Value
from reconciler.resources import addresses, headers, hosts, secret_references
from reconciler.resources.parameters import MASK
from reconciler.resources.violations import Violation

INITIAL = "retry_on_failure_initial_interval"
LONGEST = "retry_on_failure_max_interval"
ELAPSED = "retry_on_failure_max_elapsed_time"

LONGEST_PATH = 4096  # characters; servers refuse longer ones

PATH_CHARACTERS = "must not hold white space, control characters, a backslash or `#`; write them percent-encoded"

_OUTSIDE_PATHS = re.compile(r"[\s\\#\x00-\x20\x7f-\xa0]")


def broken(given: list[Value], *, at: Pointer) -> tuple[Violation, ...]:
    """Every rule that the parameters of a webhook break; `at` is the pointer of the list in the document."""
    return tuple(_broken(given, at))


def intervals(initial: int, longest: int, elapsed: int) -> tuple[int, int]:
    """The initial and the longest interval that count: none is over what bounds it. `elapsed` 0 bounds nothing."""
    longest = min(longest, elapsed) if elapsed else longest
    return min(initial, longest), longest


def noted(given: list[Value], settled: Callable[[], Mapping[str, Value]], *, at: Pointer) -> tuple[Violation, ...]:
    """The intervals of a valid webhook that are over what bounds them, which is used instead. `settled` gives its
    values with the defaults. One that is marked sensitive is compared with nothing.
    """
    places: dict[Value, int] = {}
    for index, each in enumerate(given):
        if isinstance(each, dict) and each.get("name") in _BOUND:
            if each.get("sensitive") is True:
                return ()
            places[each.get("name")] = index
    values = settled() if places else {}
    initial, longest, elapsed = (values.get(name) for name in _BOUND)
    if not (isinstance(initial, int) and isinstance(longest, int) and isinstance(elapsed, int)):
        return ()
    if values.get("retry_on_failure_enabled") is not True:
        return ()
    bound = ELAPSED if 0 < elapsed < longest else LONGEST
    over = [(INITIAL, bound)] if initial > intervals(initial, longest, elapsed)[1] else []
    over += [(LONGEST, ELAPSED)] if bound is ELAPSED else []
    return tuple(
        _violation((*at, places[name if name in places else limit], "value"), _OVER.format(name, limit))
        for name, limit in over
        if name in places or limit in places
    )


def wrong_path(path: str) -> str | None:
    """What is wrong with the path of a request, its query included."""
    if _OUTSIDE_PATHS.search(path):
        return PATH_CHARACTERS
    return f"is longer than {LONGEST_PATH} characters" if len(path) > LONGEST_PATH else None


def wrong_host(host: str) -> str | None:
    """What is wrong with the host of a request: how it is written, and, of an address, where nothing may connect to."""
    if hosts.is_name(host):
        return None
    written = hosts.wrong(host)
    if written is not None:
        return written
    address = hosts.literal(host)
    rule = None if address is None else addresses.refused(address)
    return None if rule is None else f"{rule}; the service never connects there"


_BOUND = (INITIAL, LONGEST, ELAPSED)
_OVER = "`{}` is over `{}`, which is used instead; lower it, or raise the other"

_TEXTS = {
    "hostname": wrong_host,
    "path": wrong_path,
    "content_type": headers.wrong_media_type,
    # In UTC: which zones a machine knows must not decide what is valid. The type has a list of them.
    "delivery_schedule": cron.wrong,
}


_JUDGED = frozenset({"headers", *_TEXTS})


def _broken(given: list[Value], at: Pointer) -> Iterator[Violation]:
    for index, parameter in enumerate(given):
        if not isinstance(parameter, dict):
            continue
        name = parameter.get("name")
        if not isinstance(name, str) or name not in _JUDGED:
            continue
        value = parameter.get("value")
        if name == "headers" and isinstance(value, dict):
            yield from _headers(value, (*at, index, "value"))
        elif name in _TEXTS and isinstance(value, str) and value:
            wrong = None if _is_unknown(value) else _TEXTS[name](_around(value))
            if wrong is not None:
                yield _violation((*at, index, "value"), wrong)


def _headers(given: dict[str, Value], at: Pointer) -> Iterator[Violation]:
    texts = [(name, value) for name, value in given.items() if isinstance(value, str)]
    together = headers.wrong_together(texts)
    if together is not None:
        yield _violation(at, together)
    seen: set[str] = set()
    for name, value in given.items():
        pointer = (*at, name)
        wrong = headers.wrong_name(name) or (headers.TWICE if name.lower() in seen else None)
        seen.add(name.lower())
        if wrong is not None:
            yield _violation(pointer, wrong, at_key=True)
        if isinstance(value, str):
            yield from _value(name, value, pointer)


def _value(name: str, value: str, pointer: Pointer) -> Iterator[Violation]:
    wrong = headers.wrong_value(_around(value))
    if wrong is not None:
        yield _violation(pointer, wrong)
    if headers.size(name, value) > headers.LONGEST:
        yield _violation(pointer, f"is longer than {headers.LONGEST} bytes, its name included")


def _is_unknown(value: str) -> bool:
    """Whether the value itself is nothing to judge: a whole reference, or the mark in the place of a secret."""
    return value == MASK or ("${" in value and secret_references.whole(value) is not None)


def _around(value: str) -> str:
    """The text with each reference as a letter, which breaks no rule."""
    if "${" not in value:
        return value
    pieces = secret_references.pieces(value)
    return "".join(piece if isinstance(piece, str) else "x" for piece in pieces)


def _violation(pointer: Pointer, message: str, *, at_key: bool = False) -> Violation:
    return Violation(pointer, message, at_key=at_key, of_parameter=True)
