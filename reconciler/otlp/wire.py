"""An export request cut at its resources and counted on the bytes that came, before anything is built of them.

Belongs here: the three levels down to a record (resources, scopes, records), in one walk. Does not: what is inside of a
resource or a record (`protobuf`, `bodies`), which is passed over unread.

The walk also divides the request into runs of about 64 KiB, for the parser: fields that follow one another in a message
are such a message themselves.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from reconciler.otlp.fields import Field, field, fields, malformed
from reconciler.otlp.models import MOST_RECORDS
from reconciler.otlp.refusals import RequestTooLarge
from reconciler.otlp.weighing import LARGE, SLICE, WeighedPart, weigh

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
