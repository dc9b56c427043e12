"""Requests that are too small to exceed any limit, cut at their resources in one short pass.

Belongs here: the form in which exporters write a small request. Does not: any other form, which is left to `wire`: the
answer to both must be the same. A sender that has one record a request pays for little else but its reading.
"""

from typing import Final

from reconciler.otlp.weighing import LARGE
from reconciler.otlp.wire import Cut

SMALL: Final = LARGE  # bytes; 2 for each field, it holds fewer records, resources and fields than any limit lets pass

_RESOURCE_LOGS: Final = 0x0A  # of the request
_RESOURCE: Final = 0x0A  # of ResourceLogs, before the others
_SCOPE_LOGS: Final = 0x12  # of ResourceLogs
_LOG_RECORDS: Final = 0x12  # of ScopeLogs
_SIZED: Final = frozenset({0x0A, 0x1A})  # of ScopeLogs: the scope; of both: the URL of a schema


def cut_small(data: bytes) -> list[Cut] | None:
    """The same cuts as of `wire.walk`, of a request of fewer than `SMALL` bytes; None when it has to be walked."""
    found: list[Cut] = []
    at, end = 0, len(data)
    try:
        while at < end:
            start = at
            if data[at] != _RESOURCE_LOGS:
                return None
            content, at = _sized(data, at)
            if at > end:
                return None
            cut = _group(data, start, content, at)
            if cut is None:
                return None
            if cut.records:
                found.append(cut)
    except IndexError:  # it ends within a length
        return None
    return found


def _group(data: bytes, start: int, at: int, end: int) -> Cut | None:
    records = 0
    resource = b""
    if at < end and data[at] == _RESOURCE:
        content, at = _sized(data, at)
        resource = data[content:at]
    while at < end:
        tag = data[at]
        content, at = _sized(data, at)
        if tag == _SCOPE_LOGS and at <= end:
            scope = _records(data, content, at)
            if scope is None:
                return None
            records += scope
        elif tag != 0x1A:
            return None
    return Cut(start, end, records, resource) if at == end else None


def _records(data: bytes, at: int, end: int) -> int | None:
    records = 0
    while at < end:
        tag = data[at]
        at = _sized(data, at)[1]
        if tag == _LOG_RECORDS:
            records += 1
        elif tag not in _SIZED:
            return None
    return records if at == end else None


def _sized(data: bytes, at: int) -> tuple[int, int]:
    """Where the content of a field that has a length begins, and where it ends. A length of three bytes is none that a
    small request has: it ends behind all of it.
    """
    size = data[at + 1]
    if size < 0x80:
        return at + 2, at + 2 + size
    high = data[at + 2]
    return (at + 3, at + 3 + (size & 0x7F | high << 7)) if high < 0x80 else (at + 3, len(data) + 1)
