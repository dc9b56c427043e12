"""Metrics of delivery.

Five metrics show if a destination is behind (`queue_records`, `oldest_record_age_seconds`), if records are delivered
(`delivered_records_total`), if its endpoint answers (`up`), and if a person must act (`dead_letter_records`).
`reconciler queue status` shows everything else about one destination.
"""

import asyncio
from collections.abc import Iterator, Sequence

import msgspec

from reconciler.delivery.lanes import Lane
from reconciler.delivery.queue.contract import Depth
from reconciler.delivery.reporting import DeliveryCounts
from reconciler.delivery.status import DeliveryFigures, fullness
from reconciler.ops.metric_families import Sample, counter, gauge

LANES_AT_ONCE = 50
OF_ONE = ("project", "destination")

RECORDS = gauge("reconciler_destination_queue_records", "Log records that are queued.", *OF_ONE)
AGE = gauge(
    "reconciler_destination_oldest_record_age_seconds",
    "How long the oldest queued batch has been there; 0 for an empty queue.",
    *OF_ONE,
)
DELIVERED = counter(
    "reconciler_destination_delivered_records_total", "Log records that the endpoint accepted.", *OF_ONE
)
DEAD = gauge("reconciler_destination_dead_letter_records", "Log records in dead letters.", *OF_ONE)
UP = gauge(
    "reconciler_destination_up",
    "0 while the endpoint is down (its breaker is open), otherwise 1. Absent for a queue without a known destination.",
    *OF_ONE,
)
OF_EACH = (RECORDS, AGE, DELIVERED, DEAD, UP)

TAKEN = counter("reconciler_delivery_taken_records_total", "Log records that destinations accepted.")
FAILED = counter("reconciler_delivery_failed_records_total", "Log records of requests that failed, at each attempt.")
RETRIED = counter("reconciler_delivery_retried_records_total", "Log records that were sent again.")
DIED = counter("reconciler_delivery_dead_records_total", "Log records that became dead letters.")
DROPPED = counter(
    "reconciler_delivery_dropped_records_total",
    "Log records that were dropped because a queue was full or its disk failed, as `on_full` allows.",
)
DISCARDED = counter("reconciler_delivery_discarded_records_total", "Log records that somebody discarded.")
EXPIRED = counter("reconciler_delivery_expired_records_total", "Log records of dead letters that expired.")
UNROUTED = counter(
    "reconciler_delivery_unrouted_records_total",
    "Log records that no Configuration of their project routes.",
    "project",
)
LOST = gauge("reconciler_delivery_unreadable_batches", "Queued batches that cannot be read from the disk any more.")
BYTES = gauge("reconciler_delivery_queue_bytes", "Bytes of all queued log records.")
DISK = gauge("reconciler_delivery_queue_disk_bytes", "Size of all queues on the disk, in bytes.")
FULLEST = gauge(
    "reconciler_delivery_fullest_queue_ratio",
    "How full the fullest queue that takes records is, from 0 to 1: of its batches or of its bytes, whichever is more.",
)
IN_FLIGHT = gauge("reconciler_delivery_in_flight_batches", "Batches that are being sent.")
SPARE = gauge(
    "reconciler_delivery_disk_spare_bytes",
    "Bytes until the disk is down to `delivery.freeBytes`; below zero, log records are refused.",
)
FAULTS = counter(
    "reconciler_delivery_disk_faults_total",
    "Writes of queues that the disk failed or did not answer in time; the log says what became of them.",
)


class _Destination(msgspec.Struct, gc=False):
    """The sum over the lanes of one destination. Thousands exist for a moment, so the garbage collector does not track
    them.
    """

    records: int = 0
    oldest: int | None = None
    delivered: int = 0
    dead: int = 0
    up: int | None = None

    def add(self, lane: Lane, depth: Depth) -> None:
        self.records += depth.records
        self.dead += depth.dead_records
        if depth.oldest is not None:
            self.oldest = depth.oldest if self.oldest is None else min(self.oldest, depth.oldest)
        self.delivered += lane.total.delivered
        if lane.exporter is not None and self.up is None:  # the lane that takes records comes first
            self.up = int(lane.exporter.is_up)


async def delivery_steps(figures: DeliveryFigures, *, now: int) -> Iterator[Sample]:
    """Yield the samples of delivery. `now` is in Unix milliseconds. The caller may give the event loop a turn between
    samples.
    """
    found: dict[tuple[str, str], _Destination] = {}
    counts = DeliveryCounts()  # of all lanes, with those that ended
    counts.add(figures.past)
    size, disk, lost, in_flight, fullest = 0, 0, 0, 0, 0.0
    for number, lane in enumerate(figures.lanes):
        if not number % LANES_AT_ONCE:
            await asyncio.sleep(0)
        depth = Depth() if lane.queue is None else lane.queue.depth()
        found.setdefault((lane.project, lane.name), _Destination()).add(lane, depth)
        counts.add(lane.total)
        size += depth.size
        disk += depth.disk
        lost += depth.lost
        fullest = max(fullest, fullness(lane, depth))
        in_flight += 0 if lane.exporter is None else lane.exporter.in_flight

    def samples() -> Iterator[Sample]:
        yield from _of_each(sorted(found.items()), now=now)
        yield Sample(TAKEN, counts.taken)
        yield Sample(FAILED, counts.failed)
        yield Sample(RETRIED, counts.retried)
        yield Sample(DIED, counts.dead)
        yield Sample(DROPPED, counts.dropped)
        yield Sample(DISCARDED, counts.discarded)
        yield Sample(EXPIRED, counts.expired)
        for project, records in figures.unrouted.items():
            yield Sample(UNROUTED, records, (project,))
        yield Sample(LOST, lost)
        yield Sample(BYTES, size)
        yield Sample(DISK, disk)
        yield Sample(FULLEST, round(fullest, 4))
        yield Sample(IN_FLIGHT, in_flight)
        yield Sample(SPARE, figures.spare)
        yield Sample(FAULTS, figures.faults)

    return samples()


def _of_each(found: Sequence[tuple[tuple[str, str], _Destination]], *, now: int) -> Iterator[Sample]:
    columns: tuple[tuple[float | None, ...], ...] = tuple(
        (one.records, 0 if one.oldest is None else max(now - one.oldest, 0) / 1000, one.delivered, one.dead, one.up)
        for _, one in found
    )
    for place, family in enumerate(OF_EACH):
        for (names, _), values in zip(found, columns, strict=True):
            value = values[place]
            if value is not None:
                yield Sample(family, value, names)
