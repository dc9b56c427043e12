"""Stops, kills, damaged files, a full disk, hasty senders and endpoints that fail: nothing that was taken is lost.

The daemon logs at its finest level; whether a body or a header is in the log is seen at its end (`daemons.end`).
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import daemons
from tests.daemons import Daemon
from tests.delivery import lines
from tests.delivery.exporter.worlds import when_told
from tests.delivery.lines import Line
from tests.servers import sinks
from tests.servers.sinks import Received, Reply, Sink

DRAIN_SECONDS = 2.0
END_SECONDS = 5.0  # that a stop may take besides
RECORDS_PER_SECOND = 200
DELIVERY = {"drainTimeout": f"{DRAIN_SECONDS:g}s", "recordsPerSecond": RECORDS_PER_SECOND}
SETTINGS: dict[str, object] = {"log": {"level": "debug"}, "delivery": DELIVERY}
SECRET = {"headers": {"Authorization": "Bearer canary-token"}}
# Every wait is the longest one, 90 s: two are more than 100 s. Only a new process tries sooner: at once.
SELDOM = {
    "retry_on_failure_initial_interval": 200,
    "retry_on_failure_max_interval": 90,
    "retry_on_failure_max_elapsed_time": 100,
}
FILE_BYTES = 64 << 10  # after which another file is begun, where all of them may have a megabyte


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemons.running(tmp_path_factory.mktemp("daemon"), settings=SETTINGS) as running:
        yield running


def test_of_a_damaged_file_the_rest_is_delivered_and_the_damage_shown(daemon: Daemon, sink: Sink) -> None:
    small = {"type": "file_storage", "parameters": [{"name": "max_bytes", "value": 1 << 20}]}
    lines.apply(daemon, lines.resource("Extension", "small", small))
    line = Line(daemon, sink).begin(**SECRET, persistent_queue_storage="small")
    sink.refuse()
    fills = f"canary-body {'x' * FILE_BYTES}"
    for text in ("canary-body first", "canary-body damaged", fills, "canary-body in the next file"):
        line.sent(text)
    assert daemon.stop() == 0
    sealed, last = sorted(folder(line).rglob("*.seg"))
    assert b"in the next file" in last.read_bytes()
    flip(sealed, b"canary-body damaged")
    daemon.start()
    sink.listen()
    line.arrives("canary-body first", fills, "canary-body in the next file")
    shown = line.becomes(lambda found: found["queue"]["batches"] == 0, "nothing is queued")
    assert (shown["queue"]["quarantined"], shown["deadLetters"]["batches"]) == (1, 0)
    assert [file.name for file in folder(line).rglob("quarantine/*.seg")] == [sealed.name]
    assert [message for message in daemon.messages() if str(sealed) in message and "is damaged" in message]


@pytest.mark.slow
def test_down_to_the_reserve_of_the_disk_nothing_is_taken_and_the_queue_drains(tmp_path: Path) -> None:
    with sinks.listening() as sink, daemons.running(tmp_path, settings=SETTINGS) as daemon:
        line = Line(daemon, sink).begin()
        sink.refuse()
        line.sent("canary-body before")
        daemon.stop()
        daemon.configure([], delivery={**DELIVERY, "freeBytes": 1 << 50})
        daemon.start()
        line.becomes(lambda found: found["queue"]["batches"] == 1, "it is queued")
        refused = line.send("canary-body refused")
        assert refused.status == 503
        assert 1 <= int(refused.headers["retry-after"]) <= 5
        assert f"The destination {line.name} cannot take more now: the disk has too little room" in str(refused.body)
        shown = line.becomes(lambda found: found["queue"]["batches"] == 1, "no more is queued")
        assert (shown["queue"]["records"], shown["counts"]["taken"]) == (1, 0)
        sink.listen()
        line.arrives("canary-body before")
        line.becomes(lambda found: found["queue"]["batches"] == 0, "it drains")
        assert line.send("canary-body refused").status == 503
    assert sink.records == ["canary-body before"]


def test_who_sends_too_many_records_is_told_to_wait_and_nobody_else(daemon: Daemon, sink: Sink) -> None:
    line = Line(daemon, sink).begin()
    made = daemon.post("/v1/api-keys", {"name": "hasty", "role": "user", "scopes": ["logs"]}, project="default")
    key = str(made.body["apiKey"]["key"])
    many = [f"canary-body {place}" for place in range(4 * RECORDS_PER_SECOND)]  # three seconds too many
    assert lines.send(daemon, *many, label=line.name, key=key).status == 200
    refused = lines.send(daemon, "canary-body too soon", label=line.name, key=key)
    assert (refused.status, refused.body["code"]) == (429, 8)
    assert 1 <= int(refused.headers["retry-after"]) <= 3
    line.sent("canary-body of another")
    daemons.until(
        lambda: lines.send(daemon, "canary-body in time", label=line.name, key=key).status == 200 or None, "it is taken"
    )
    line.arrives(*many, "canary-body of another", "canary-body in time")


def test_whatever_an_endpoint_does_everything_arrives_in_the_end(daemon: Daemon) -> None:
    with sinks.listening() as whole, sinks.listening() as apart:
        both = [Line(daemon, whole), Line(daemon, apart, parameters={"format": "single"})]
        for line in both:
            line.sink.choose(failing())
            line.begin(**SECRET, timeout=1)
        texts = [f"canary-body {number}" for number in range(12)]
        for line, some in itertools.product(both, (texts[:1], texts[1:4], texts[4:])):
            line.sent(*some)
        for line in both:
            shown = line.becomes(lambda found: found["queue"]["batches"] == 0, "all is delivered")
            assert set(line.sink.records) == set(texts)
            assert shown["counts"]["delivered"] == len(texts)
            assert (shown["counts"]["dead"], shown["counts"]["taken"]) == (0, len(texts))


def test_a_stop_waits_for_what_is_in_flight_and_keeps_the_rest(daemon: Daemon, sink: Sink) -> None:
    with sinks.listening() as silent, sinks.listening() as refusing:
        slow, stuck = Line(daemon, sink).begin(**SECRET), Line(daemon, silent).begin(**SECRET)
        failed = Line(daemon, refusing).begin(**SECRET, **SELDOM)
        told = threading.Event()
        sink.script(when_told(told, 200))
        silent.script(sinks.silent())
        refusing.script(sinks.says(422))
        failed.sent("canary-body that failed")
        is_waiting(failed)
        slow.sent("canary-body answered")
        stuck.sent("canary-body unanswered")
        daemons.until(lambda: (sink.busy and silent.busy) or None, "both are in flight")
        started = time.monotonic()
        threading.Timer(DRAIN_SECONDS / 4, told.set).start()
        assert daemon.stop() == 0
        assert time.monotonic() - started < DRAIN_SECONDS + END_SECONDS
        silent.script(sinks.says(200))
        daemon.start()
        daemons.until(lambda: len(refusing.received) == 2 or None, "what failed is tried again")
        daemons.until(lambda: silent.accepted or None, "what was not answered is sent again")
        for line in (slow, stuck):
            line.becomes(lambda found: found["queue"]["batches"] == 0, "nothing is left of it")
        assert [request.json for request in sink.received] == [["canary-body answered"]]
        assert [request.json for request in silent.received] == [["canary-body unanswered"]] * 2
        assert len({request.header("X-Service-Delivery-Id") for request in silent.received}) == 1


def is_waiting(line: Line) -> None:
    """Wait until what was sent has failed once."""
    line.becomes(lambda found: found["queue"]["waiting"] == 1, "it waits for another attempt")
    assert len(line.sink.received) == 1


def folder(line: Line) -> Path:
    """Return the folder of a destination's queue."""
    (found,) = (
        file for file in line.daemon.state.glob("queues/*/*/queue.json") if f'"{line.name}"' in file.read_text()
    )
    return found.parent


def flip(file: Path, within: bytes) -> None:
    """Turn one bit of these bytes of a file."""
    data = bytearray(file.read_bytes())
    assert data.count(within) == 1
    data[data.index(within) + len(within) // 2] ^= 1
    file.write_bytes(data)


def failing() -> Callable[[Received], Reply]:
    """Fail in several ways, one request after another, and then no more."""
    faults = iter((sinks.says(200, after=1.5), sinks.reset(), sinks.says(500), sinks.closes()))
    return lambda _: next(faults, sinks.says(200))
