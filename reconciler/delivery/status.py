"""The status of one destination's delivery, as the API shows it, and the figures of all."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from reconciler.delivery.breaker import DeliveryWindow
from reconciler.delivery.history import NO_RATES
from reconciler.delivery.lanes import MEMORY, NOWHERE, Lane
from reconciler.delivery.queue.contract import Depth, load
from reconciler.delivery.reporting import DeliveryCounts, SendFailure, SendReport, TestOutcome
from reconciler.model.clock import rfc3339

ORPHANED = "A queue is left, and nothing is known of its destination any more: apply it again, or discard the queue."
UNUSED = "No Configuration delivers to it; status.delivery of each says why not."
LEAVING = "Nothing is delivered to it any more; what is queued is still sent."
MOVING = "Its queue has another place now; what is in the old one is still sent."
REFUSED = "The disk of the service failed what was written last for it, or does not answer; the log says more."
NO_ROOM = (
    "The disk has less room than `delivery.freeBytes`; until it has more, records for it are answered 503, or dropped "
    "where `on_full` is not `reject`."
)

COUNTED = ("taken", "delivered", "retried", "dead", "dropped", "discarded", "expired")

_KINDS = {MEMORY: "memory", NOWHERE: "none"}


def shown_delivery(lanes: Sequence[Lane], configurations: Sequence[str], *, answers: bool) -> dict[str, Any]:
    """Show the lanes of one destination, the accepting one first; with `answers` also the endpoint's answer."""
    first = lanes[0]
    now = None if first.exporter is None else first.exporter.shown()
    depths = [lane.queue.depth() for lane in lanes if lane.queue is not None]
    return {
        "destination": first.name,
        "state": "orphaned" if now is None else now.state.value,
        "message": _message(lanes, now),
        "since": None if now is None else _instant(now.since),
        "queue": _queue(lanes, depths),
        "deadLetters": {
            "batches": sum(depth.dead_batches for depth in depths),
            "records": sum(depth.dead_records for depth in depths),
            "bytes": sum(depth.dead_size for depth in depths),
            "oldest": _oldest([depth.dead_oldest for depth in depths]),
        },
        "counts": _counts(lanes),
        "lastSuccess": None if now is None else _instant(now.last_success),
        "lastFailure": None if now is None else _failure(now.last_failure, answers=answers),
        "window": None if first.exporter is None else _window(first.exporter.window()),
        "configurations": [*configurations],
    }


def idle_delivery(name: str) -> dict[str, Any]:
    """Show a destination without a route and a queue."""
    nothing = Lane(project="", name=name, place=NOWHERE, destination=None, queue=None, exporter=None)
    shown = shown_delivery([nothing], [], answers=False)
    return {**shown, "state": "idle", "message": UNUSED, "rates": NO_RATES}


def unrouted_delivery(records: int, last: int | None) -> dict[str, Any]:
    """Show the records of a project that no Configuration took."""
    return {"records": records, "last": _instant(last)}


def shown_test(outcome: TestOutcome) -> dict[str, Any]:
    """Show the outcome of a test record."""
    return {
        "delivered": outcome.delivered,
        "status": outcome.status,
        "seconds": round(outcome.seconds, 3),
        "message": outcome.message,
        "answer": _text(outcome.answer),
    }


def _message(lanes: Sequence[Lane], now: SendReport | None) -> str:
    if now is None:
        return ORPHANED
    if any(lane.is_refused for lane in lanes):
        return REFUSED
    if lanes[0].is_without_disk:
        return NO_ROOM
    if now.message:
        return now.message
    if lanes[0].leaving:
        return LEAVING
    is_moving = any(lane.queue is not None and lane.queue.depth().batches for lane in lanes[1:])
    return MOVING if is_moving else ""


def _queue(lanes: Sequence[Lane], depths: Sequence[Depth]) -> dict[str, Any]:
    exporters = [lane.exporter for lane in lanes if lane.exporter is not None]
    first = lanes[0]
    buffering = None if first.destination is None else first.destination.buffering
    storage = None if buffering is None else buffering.storage
    return {
        "kind": _KINDS.get(first.place, "disk"),
        "batches": sum(depth.batches for depth in depths),
        "records": sum(depth.records for depth in depths),
        "bytes": sum(depth.size for depth in depths),
        "diskBytes": sum(depth.disk for depth in depths),
        "load": round(load(sum(depth.records for depth in depths), sum(depth.size for depth in depths)), 3),
        "maxBatches": buffering.max_batches if buffering is not None and buffering.queue else None,
        "maxBytes": storage.max_bytes if storage is not None else None,
        "oldest": _oldest([depth.oldest for depth in depths]),
        "inFlight": sum(one.in_flight for one in exporters),
        "waiting": sum(one.waiting for one in exporters),
        "quarantined": sum(depth.quarantined for depth in depths),
        "lost": sum(depth.lost for depth in depths),
        "refused": any(lane.is_refused for lane in lanes),
    }


def _counts(lanes: Sequence[Lane]) -> dict[str, int]:
    total = DeliveryCounts()
    for lane in lanes:
        total.add(lane.total)
    return {name: getattr(total, name) for name in COUNTED}


def _failure(last: SendFailure | None, *, answers: bool) -> dict[str, Any] | None:
    if last is None:
        return None
    told = {"at": _instant(last.at), "status": last.status, "cause": last.cause}
    return {**told, "answer": _text(last.answer)} if answers else told


def _window(window: DeliveryWindow | None) -> dict[str, Any] | None:
    if window is None:
        return None
    until, following = window.until, window.next
    return {
        "open": window.open,
        "until": None if until is None else rfc3339(until),
        "next": None if following is None else rfc3339(following),
    }


def _oldest(times: Sequence[int | None]) -> str | None:
    return _instant(min((time for time in times if time is not None), default=None))


def _instant(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else rfc3339(datetime.fromtimestamp(milliseconds / 1000, UTC))


def _text(answer: bytes) -> str:
    """Decode bytes from a stranger. Escape the text before a terminal shows it."""
    return answer.decode("utf-8", "replace")


class DeliveryFigures(NamedTuple):
    """Figures at one moment. `past` has the counts of deleted destinations, so that sums never shrink. `unrouted` are
    records that no Configuration took, by project. `spare` is the number of bytes that queues may still write above
    `delivery.freeBytes`, negative below it. `faults` counts writes that the disk refused or did not answer.
    """

    lanes: Sequence[Lane]
    past: DeliveryCounts
    unrouted: Mapping[str, int]
    spare: int
    faults: int


def fullness(lane: Lane, depth: Depth) -> float:
    """Return the used share of full batches or of bytes on disk, whichever is larger; 0 for a lane without limits or
    one that accepts nothing.
    """
    if lane.destination is None or lane.queue is None or lane.leaving:
        return 0.0
    buffering = lane.destination.buffering
    by_bytes = 0.0 if buffering.storage is None else depth.limited / max(buffering.storage.max_bytes, 1)
    return max(depth.load / max(buffering.max_batches, 1), by_bytes)
