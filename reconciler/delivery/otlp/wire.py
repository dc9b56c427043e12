"""Protobuf's wire format: an export request cut and counted before anything is built."""

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Any, Final, NamedTuple, TypeAlias

from reconciler.delivery.otlp.models import MOST_RECORDS, MalformedRequest, RequestTooLarge

# Fields of protobuf's wire format, read where they are.
#
# Refused are integers of more than ten bytes, the field number 0, and the wire types 3, 4, 6, 7: groups, which proto3
# has not, and what nobody has. The caller compares a field's end with its message's, and takes an IndexError for
# `malformed`.

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


class Field(NamedTuple):
    """`tag` is the field's number times eight and its wire type; `start` is where that is written, and `content` where
    what has a length begins.
    """

    tag: int
    start: int
    content: int
    end: int


def fields(data: bytes, at: int, end: int) -> Iterator[Field]:
    """The fields of a message."""
    while at < end:
        one = field(data, at)
        at = one.end
        if at > end:
            raise malformed()
        yield one


def field(data: bytes, start: int) -> Field:
    """The field that begins there; its end may lie beyond the data."""
    tag, content = _varint(data, start)
    kind = tag & 7
    if tag < 8 or tag >= 1 << 32:
        raise malformed()
    if kind == _LENGTH:
        size, content = _varint(data, content)
        return Field(tag, start, content, content + size)
    if kind == _VARINT:
        return Field(tag, start, content, _varint(data, content)[1])
    if kind == _FIXED64:
        return Field(tag, start, content, content + 8)
    if kind == _FIXED32:
        return Field(tag, start, content, content + 4)
    raise malformed()


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The integer that begins there, and where it ends."""
    value = data[at]
    if value < 0x80:
        return value, at + 1
    value &= 0x7F
    for shift in range(7, 70, 7):
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
    raise malformed()


def sized(size: int) -> bytes:
    """A length as it is written."""
    written = bytearray()
    while size > 0x7F:
        written.append(size & 0x7F | 0x80)
        size >>= 7
    written.append(size)
    return bytes(written)


def malformed() -> MalformedRequest:
    """What is wrong with all of it: whoever made these bytes is no exporter of logs."""
    return MalformedRequest(
        "The request is no ExportLogsServiceRequest in protobuf; look at what sends it, and its Content-Type."
    )


# How many fields a large part of a request has, down to its innermost values.
#
# A value may be two bytes on the wire, and a hundred times that when it is built, and a microsecond when it is written
# as JSON. So whatever is large and cannot be divided, a record, a resource, a scope, is counted through before it is
# parsed.

LARGE: Final = 16 << 10  # bytes; what is smaller cannot hold more fields than take some milliseconds
MOST_FIELDS: Final = 50_000  # of one such part; a map of 12,000 keys has as many
SLICE: Final = 2_000  # fields between two places to pause, some milliseconds


class WeighedPart(Enum):
    """Messages that hold values, however deep."""

    RESOURCE = auto()
    ENTITY = auto()
    SCOPE = auto()
    LOG_RECORD = auto()
    VALUE = auto()
    ARRAY = auto()
    MAP = auto()
    PAIR = auto()


_INSIDE: Final[
    Mapping[WeighedPart, Mapping[int, WeighedPart]]
] = {  # by tag: the field's number in opentelemetry-proto, times 8, plus 2
    WeighedPart.RESOURCE: {0x0A: WeighedPart.PAIR, 0x1A: WeighedPart.ENTITY},
    WeighedPart.ENTITY: {},
    WeighedPart.SCOPE: {0x1A: WeighedPart.PAIR},
    WeighedPart.LOG_RECORD: {0x2A: WeighedPart.VALUE, 0x32: WeighedPart.PAIR},
    WeighedPart.VALUE: {0x2A: WeighedPart.ARRAY, 0x32: WeighedPart.MAP},
    WeighedPart.ARRAY: {0x0A: WeighedPart.VALUE},
    WeighedPart.MAP: {0x0A: WeighedPart.PAIR},
    WeighedPart.PAIR: {0x12: WeighedPart.VALUE},
}


def weigh(data: bytes, start: int, end: int, part: WeighedPart) -> Iterator[None]:
    """Count the part whose content is there, if it is large, and stop at places to pause. Raises TooLarge, Malformed,
    IndexError (see `fields`).
    """
    if end - start < LARGE or end > len(data):
        return
    count = 0
    left: list[Any] = [start, end, part]  # three by three: tuples would be objects for the garbage collector to visit
    while left:
        kind, stop, at = left.pop(), left.pop(), left.pop()
        inside = _INSIDE[kind]
        for field in fields(data, at, stop):
            count += 1
            if count > MOST_FIELDS:
                raise too_many()
            if count % SLICE == 0:
                yield
            if (below := inside.get(field.tag)) is not None:
                left += field.content, field.end, below


def too_many() -> RequestTooLarge:
    """What the sender is told of such a part."""
    return RequestTooLarge(
        f"A log record, scope or resource of the request has more than {MOST_FIELDS:,} fields, with those of its "
        "values; log less in one."
    )


# An export request cut at its resources and counted on the bytes that came, before anything is built of them.
#
# The walk also divides the request into runs of about 64 KiB, for the parser: fields that follow one another in a
# message are such a message themselves.

MOST_CONTAINERS: Final = 2 * MOST_RECORDS  # resources and scopes: each record may have its own
MOST_OTHERS: Final = 5 * MOST_CONTAINERS  # fields of those and of the request that are neither, such as schema URLs
RUN: Final = 64 << 10  # bytes; walked and parsed in a tenth of a millisecond, in one or two when made to take long

_RESOURCE_LOGS: Final = (
    0x0A  # of the request; all of these are the field's number times 8, plus 2 for what has a length
)
_RESOURCE: Final = 0x0A  # of ResourceLogs
_SCOPE_LOGS: Final = 0x12  # of ResourceLogs
_SCOPE: Final = 0x0A  # of ScopeLogs
_LOG_RECORDS: Final = 0x12  # of ScopeLogs


class Cut(NamedTuple):
    """One ResourceLogs: `start` and `end` in the request, its tag and length included.

    `resource` is the bytes of its Resource. Where that stands several times they are joined, which to protobuf is the
    same as merging them.
    """

    start: int
    end: int
    records: int
    resource: bytes


class Run(NamedTuple):
    """Fields that follow one another, of a message that is so many levels inside of the request: 0 of the request
    itself, 1 of a ResourceLogs, 2 of a ScopeLogs. Longer than `RUN` only when it is one field.
    """

    level: int
    start: int
    end: int


Step: TypeAlias = Cut | Run | None


def walk(data: bytes) -> Iterator[Step]:
    """All cuts in the order of the request, and among them the runs, which together are every byte of it.

    Between two steps are some milliseconds at most, so that the caller may pause there; None is a step for that alone.
    Raises Malformed, and TooLarge as soon as there are more records than MOST_RECORDS.
    """
    try:
        yield from _Walk(data).request()
    except IndexError:  # a byte is looked at first, and whether it was the message's then
        raise malformed() from None


class _Walk:
    """One request, and how far it was read."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._records = 0
        self._containers = 0
        self._others = 0
        self._run = Run(0, 0, 0)

    def request(self) -> Iterator[Step]:
        for one in fields(self._data, 0, len(self._data)):
            if one.tag == _RESOURCE_LOGS:
                yield from self._group(one)
            else:
                yield from self._count_others(1)
                yield from self._pass(0, one.start, one.end)
        yield self._run

    def _group(self, group: Field) -> Iterator[Step]:
        yield from self._count_container()
        before = self._records
        resources = []
        small = group.end - group.start <= RUN
        if small:
            yield from self._pass(0, group.start, group.end)
        for one in fields(self._data, group.content, group.end):
            if one.tag == _SCOPE_LOGS:
                yield from self._scope(one, passed=small)
                continue
            yield from self._count_others(1)
            if one.tag == _RESOURCE:
                yield from weigh(self._data, one.content, one.end, WeighedPart.RESOURCE)
                resources.append(self._data[one.content : one.end])
            if not small:
                yield from self._pass(1, one.start, one.end)
        yield Cut(group.start, group.end, self._records - before, b"".join(resources))

    def _scope(self, scope: Field, *, passed: bool) -> Iterator[Step]:
        yield from self._count_container()
        small = scope.end - scope.start <= RUN
        if small and not passed:
            yield from self._pass(1, scope.start, scope.end)
        at = scope.content
        while at < scope.end:
            start = at
            records, others, at, large = records_until(self._data, at, scope.end, stop=at + RUN)
            self._records += records
            yield from self._count_others(others)
            if self._records > MOST_RECORDS:
                raise too_many_records()
            if large is not None:
                part = WeighedPart.LOG_RECORD if large.tag == _LOG_RECORDS else WeighedPart.SCOPE
                yield from weigh(self._data, large.content, large.end, part)
            if not small:
                yield from self._pass(2, start, at)

    def _count_container(self) -> Iterator[None]:
        self._containers += 1
        if self._containers > MOST_CONTAINERS:
            raise too_many_containers()
        if self._containers % SLICE == 0:
            yield

    def _count_others(self, fields: int) -> Iterator[None]:
        """A resource has a few that are none of the three levels; each takes a microsecond, without a record."""
        before = self._others
        self._others += fields
        if self._others > MOST_OTHERS:
            raise too_many_others()
        if before // SLICE < self._others // SLICE:
            yield

    def _pass(self, level: int, start: int, end: int) -> Iterator[Run]:
        """Take more into the run, or end it and begin the next."""
        run = self._run
        if run.level == level and run.end == start and end - run.start <= RUN:
            self._run = Run(level, run.start, end)
            return
        self._run = Run(level, start, end)
        if run.end > run.start:
            yield run


class Found(NamedTuple):
    """`records` and `others` are how many fields; `end` is that of the last one."""

    records: int
    others: int
    end: int
    large: Field | None  # the last one, a record or scope that is to be weighed


def records_until(data: bytes, at: int, end: int, *, stop: int) -> Found:
    """Read fields of a ScopeLogs until one ends behind `stop`, there were many that are no records, or one is large.

    It takes a tenth of a microsecond for a record; hence lengths of one and of two bytes, written out.
    """
    records = others = 0
    large = None
    stop = min(stop, end)
    while at < stop and others < SLICE and large is None:
        if data[at] == _LOG_RECORDS:
            size = data[at + 1]
            if size < 0x80:
                at += 2 + size
                records += 1
                continue
            high = data[at + 2]
            if high < 0x80:
                at += 3 + (size & 0x7F | high << 7)
                records += 1
                continue
        one = field(data, at)
        if one.tag == _LOG_RECORDS:
            records += 1
        else:
            others += 1
        if one.end - one.content >= LARGE and one.tag in (_LOG_RECORDS, _SCOPE):
            large = one
        at = one.end
    if at > end:
        raise malformed()
    return Found(records, others, at, large)


def too_many_records() -> RequestTooLarge:
    """What the sender is told."""
    return RequestTooLarge(f"The request has more than {MOST_RECORDS:,} log records; send fewer at a time.")


def too_many_containers() -> RequestTooLarge:
    """What the sender is told."""
    return RequestTooLarge(f"The request has more than {MOST_CONTAINERS:,} resources and scopes; send fewer at a time.")


def too_many_others() -> RequestTooLarge:
    """What the sender is told."""
    return RequestTooLarge(
        f"The request has more than {MOST_OTHERS:,} fields beside its log records, such as schema URLs; leave out "
        "those that stand twice or that OTLP does not know."
    )


# Requests that are too small to exceed any limit, cut at their resources in one short pass.

SMALL: Final = LARGE  # bytes; 2 for each field, it holds fewer records, resources and fields than any limit lets pass

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
