"""Log records in by OTLP and out to a webhook: records a second, beside syslog-ng and bare loops of the same run.

The service, the load and the sink share the machine. Every record is counted at the sink, and each round ends when all
that was taken is there; a record too few or too many is an error. A row whose program is missing says so.
"""

import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from benchmarks import delivery_bodies, delivery_floors, delivery_load, delivery_reads, sink, syslog_ng
from benchmarks.daemons import COMMAND
from benchmarks.delivery_daemon import Receiver, Round, receiving
from benchmarks.delivery_load import Load
from benchmarks.figures import Figure
from benchmarks.sink import Sink

CONNECTIONS = 16
MANY_CONNECTIONS = 64  # for requests of one record
PEER_LINES = {1_000: 300_000, 100: 300_000, 1: 50_000}  # what takes it some seconds
PEER_SHARES = {1_000: 2.0, 100: 1.0}  # of its lines a second that ours must be; other sizes are only shown
ROUTE_SHARE, ROUTE_TARGET = 0.3, 5_000  # requests a second
LOOP_SHARE = 0.5
BEFORE_SHARE = 0.5  # of the rate of an earlier checkout


class Aim(NamedTuple):
    """Records a second that must be delivered, and that should be."""

    must: float
    target: float


MANY, SOME, MAPS = Aim(150_000, 200_000), Aim(80_000, 100_000), Aim(40_000, 60_000)


def measure(*, seconds: int, rounds: int, before: Path | None) -> list[Figure]:
    """All of it; each load lasts so many seconds, so many times, and the median counts.

    `before` is an earlier checkout with its .venv, for the row that compares with it.
    """
    if delivery_load.missing():
        return [Figure("log records, delivered", "-", delivery_load.MISSING, "-")]
    with tempfile.TemporaryDirectory() as temporary, sink.running() as endpoint:
        folder = Path(temporary)
        peers = {} if syslog_ng.missing() else _peers(folder / "syslog-ng", endpoint, rounds=rounds)
        with receiving(folder / "array", endpoint) as receiver:
            found = _arrays(receiver, peers, seconds=seconds, rounds=rounds)
            found.append(_beside_before(receiver, before, folder / "before", seconds=seconds, rounds=rounds))
        with receiving(folder / "single", endpoint, parameters={"format": "single"}) as receiver:
            found.append(_single(receiver, seconds=seconds, rounds=rounds))
        with receiving(folder / "reads", endpoint) as receiver:
            found.append(delivery_reads.measure(receiver, seconds=max(10, seconds)))
        return found


def _arrays(receiver: Receiver, peers: dict[int, float], *, seconds: int, rounds: int) -> list[Figure]:
    def median(body: bytes, records: int) -> float:
        load = Load(body, records, connections=CONNECTIONS, seconds=seconds)
        return statistics.median(receiver.round(load).delivered for _ in range(rounds))

    many = median(delivery_bodies.texts(1_000), 1_000)
    some = median(delivery_bodies.texts(100), 100)
    maps = median(delivery_bodies.maps(1_000), 1_000)
    ones, routes = _ones(receiver, seconds=seconds, rounds=rounds)
    rates = {1_000: many, 100: some, 1: statistics.median(one.delivered for one in ones)}
    return [
        _aimed("1,000 records a request, delivered", many, MANY),
        _aimed("100 records a request, delivered", some, SOME),
        _accepted(ones, routes),
        _aimed("maps of 8 keys, 1,000 a request, delivered", maps, MAPS),
        *(_beside_peer(batch, rate, peers.get(batch)) for batch, rate in rates.items()),
    ]


def _ones(receiver: Receiver, *, seconds: int, rounds: int) -> tuple[list[Round], list[float]]:
    """Requests of one record, by turns with the same on a route that only reads: requests a second of that."""
    load = Load(delivery_bodies.texts(1), 1, connections=MANY_CONNECTIONS, seconds=seconds)
    ours, routes = [], []
    with delivery_floors.route() as port:
        for _ in range(rounds):
            answers = delivery_load.post(load, port=port, keys=receiver.keys, folder=receiver.folder)
            routes.append(answers.accepted / answers.seconds)
            ours.append(receiver.round(load))
    return ours, routes


def _single(receiver: Receiver, *, seconds: int, rounds: int) -> Figure:
    """By turns with the bare loop. The load is short, since what is taken in a second is sent in many."""
    load = Load(delivery_bodies.texts(50), 50, connections=1, seconds=1)
    ours, loops = [], []
    with sink.running() as other:  # of the same kind: what the loop sends is not to be counted as ours
        for _ in range(rounds):
            loops.append(delivery_floors.loop(other.port, seconds=seconds))
            ours.append(receiver.round(load).delivered)
    return _share("one record a request (`single`), delivered", ours, "a bare aiohttp loop", loops, LOOP_SHARE)


def _beside_before(receiver: Receiver, before: Path | None, folder: Path, *, seconds: int, rounds: int) -> Figure:
    """Maps, by turns with an earlier checkout."""
    what = "maps of 8 keys, 1,000 a request, delivered, beside the earlier checkout"
    if before is None:
        return Figure(what, "-", "left out: `--before PATH` names an earlier checkout", "-")
    load = Load(delivery_bodies.maps(1_000), 1_000, connections=CONNECTIONS, seconds=seconds)
    ours, theirs = [], []
    program = before / ".venv" / "bin" / COMMAND.name
    with sink.running() as other, receiving(folder, other, program=program) as earlier:
        for _ in range(rounds):
            theirs.append(earlier.round(load).delivered)
            ours.append(receiver.round(load).delivered)
    return _share(what, ours, "the earlier checkout", theirs, BEFORE_SHARE)


def _peers(folder: Path, endpoint: Sink, *, rounds: int) -> dict[int, float]:
    """Lines a second, by how many a request holds at most."""

    def rate(batch: int, number: int) -> float:
        place = folder / f"{batch}-{number}"
        return syslog_ng.rate(place, endpoint, batch=batch, lines=PEER_LINES[batch])

    return {batch: statistics.median(rate(batch, number) for number in range(rounds)) for batch in PEER_LINES}


def _aimed(what: str, rate: float, aim: Aim) -> Figure:
    beside = f"at least {aim.must:,.0f}/s; target {aim.target:,.0f}/s"
    return Figure(what, f"{rate:,.0f}/s", beside, f"{rate / aim.must:.2f}", missed=rate < aim.must)


def _accepted(ours: list[Round], routes: list[float]) -> Figure:
    rates = [one.accepted for one in ours]
    what = f"1 record a request, {MANY_CONNECTIONS} connections, accepted"
    found = _share(what, rates, "a Starlette route that reads the body", routes, ROUTE_SHARE)
    return replace(found, beside=f"{found.beside}; target {ROUTE_TARGET:,}/s")


def _share(what: str, ours: list[float], name: str, floors: list[float], must: float) -> Figure:
    """A rate that must be at least a share of a floor, measured by turns."""
    share = statistics.median(one / floor for one, floor in zip(ours, floors, strict=True))
    beside = f"at least {must:g} of {name} {statistics.median(floors):,.0f}/s"
    return Figure(what, f"{statistics.median(ours):,.0f}/s", beside, f"{share:.2f}", missed=share < must)


def _beside_peer(batch: int, rate: float, peer: float | None) -> Figure:
    """At 1,000 a batch it must be a multiple of the peer's; what else is delivered is shown beside it."""
    what = f"{batch:,} {'record' if batch == 1 else 'records'} a request, delivered"
    if peer is None:
        return Figure(what, f"{rate:,.0f}/s", syslog_ng.MISSING, "-")
    must = PEER_SHARES.get(batch, 0.0)
    bound = f"at least {must:g} times: " if must else ""
    beside = f"{bound}syslog-ng {syslog_ng.version()}, reliable disk buffer, {batch:,} a batch, {peer:,.0f}/s"
    return Figure(what, f"{rate:,.0f}/s", beside, f"{rate / peer:.2f}", missed=rate < must * peer)
