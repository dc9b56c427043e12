"""The last hour of a destination: its samples, and the rates of the last minutes."""

import time
import tracemalloc
from pathlib import Path

import pytest

from reconciler.delivery.history import MOST, NO_RATES, DeliveryHistory, Measurement
from reconciler.delivery.otlp import bodies, reading
from reconciler.server.schedules import Job, scheduled
from tests.delivery.test_manager import LOGS, PROJECT, managing, routes, sending, webhook
from tests.servers import sinks
from tests.waiting import until

SIEM = ("acme", "siem")
START = 1_790_000_000_000  # Unix ms
MINUTE = 60_000


def measured(
    taken: int = 0, delivered: int = 0, *, retried: int = 0, dead: int = 0, queued: int = 0, oldest: int | None = None
) -> Measurement:
    counts = {"taken": taken, "delivered": delivered, "retried": retried, "dead": dead}
    return Measurement(counts, queued, oldest)


def add(hours: DeliveryHistory, minute: int, **found: Measurement) -> None:
    """A sample of destinations of acme, so many minutes after the start."""
    measurements = {("acme", name): one for name, one in found.items()}
    hours.add(measurements, at=START + minute * MINUTE, now=minute * 60.0)


def test_a_sample_has_what_happened_in_its_minute_and_what_is_queued_at_its_end() -> None:
    hours = DeliveryHistory(now=0.0)
    assert hours.samples(SIEM) == []
    add(hours, 1, siem=measured(100, 90, queued=10, oldest=START + MINUTE - 5_900))
    add(hours, 2, siem=measured(160, 150, retried=7, dead=3))
    assert hours.samples(SIEM) == [
        {
            "at": "2026-09-21T14:14:20.000Z",
            "taken": 100,
            "delivered": 90,
            "retried": 0,
            "dead": 0,
            "queued": 10,
            "oldestSeconds": 5,
        },
        {
            "at": "2026-09-21T14:15:20.000Z",
            "taken": 60,
            "delivered": 60,
            "retried": 7,
            "dead": 3,
            "queued": 0,
            "oldestSeconds": None,
        },
    ]


def test_an_hour_is_kept_and_no_more() -> None:
    hours = DeliveryHistory(now=0.0)
    for minute in range(1, MOST + 11):
        add(hours, minute, siem=measured(minute * minute))
    taken = [sample["taken"] for sample in hours.samples(SIEM)]
    assert taken == [2 * minute - 1 for minute in range(11, MOST + 11)]


def test_a_later_destination_has_fewer_samples_and_one_that_is_gone_has_none() -> None:
    hours = DeliveryHistory(now=0.0)
    add(hours, 1, siem=measured(1))
    add(hours, 2, siem=measured(1), later=measured(5))
    assert [(one["at"], one["taken"]) for one in hours.samples(("acme", "later"))] == [("2026-09-21T14:15:20.000Z", 5)]
    add(hours, 3, later=measured(9))
    assert hours.samples(SIEM) == []
    assert [one["taken"] for one in hours.samples(("acme", "later"))] == [5, 4]


def test_counts_that_begin_again_and_a_clock_that_was_set_back_make_nothing_negative() -> None:
    hours = DeliveryHistory(now=0.0)
    add(hours, 1, siem=measured(100, 100))
    add(hours, 2, siem=measured(7, 2, queued=5, oldest=START + 9 * MINUTE))
    last = hours.samples(SIEM)[-1]
    assert (last["taken"], last["delivered"], last["oldestSeconds"]) == (7, 2, 0)


@pytest.mark.parametrize(
    ("now", "rates"),
    [
        (0.0, {"taken": 120.0, "delivered": 60.0}),  # of a second at least
        (30.0, {"taken": 4.0, "delivered": 2.0}),
    ],
)
def test_before_the_first_sample_rates_are_of_the_time_since_the_start(now: float, rates: dict[str, float]) -> None:
    hours = DeliveryHistory(now=0.0)
    assert hours.rates(SIEM, {"taken": 120, "delivered": 60}, now=now) == rates


def test_rates_are_of_the_last_one_to_two_minutes() -> None:
    hours = DeliveryHistory(now=0.0)
    for minute in range(1, 5):
        add(hours, minute, siem=measured(minute * 60, minute * 6))
    # The last sample but one was at three minutes.
    assert hours.rates(SIEM, {"taken": 270, "delivered": 24}, now=270.0) == {"taken": 1.0, "delivered": 0.067}
    assert hours.rates(SIEM, {"taken": 180, "delivered": 18}, now=270.0) == NO_RATES


def test_the_hours_of_1000_destinations_take_5_mb_and_a_sample_of_them_50_ms() -> None:
    names = [f"destination-{number}" for number in range(1_000)]
    hours, seconds = DeliveryHistory(now=0.0), []
    tracemalloc.start()
    try:
        for minute in range(1, MOST + 2):
            found = {("acme", name): measured(minute * 1_000, queued=1) for name in names}
            begins = time.process_time()
            hours.add(found, at=START + minute * MINUTE, now=minute * 60.0)
            seconds.append(time.process_time() - begins)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 5_000_000
    assert min(seconds) < 0.05


@pytest.mark.anyio
async def test_the_manager_samples_every_destination_and_shows_rates(tmp_path: Path) -> None:
    with sinks.listening() as sink:
        async with managing(tmp_path) as manager:
            await manager.change(routes(sending(sink), webhook("closed")))
            await manager.take(PROJECT, await reading.read(bodies.test_request("a line", at=1), json=False))
            await until(lambda: sink.records == ["a line"])
            await until(lambda: manager.shown(PROJECT, "siem", answers=False)["counts"]["delivered"] == 1)
            await until(lambda: manager.shown(PROJECT, "closed", answers=False)["counts"]["taken"] == 1)
            rates = manager.shown(PROJECT, "siem", answers=False)["rates"]
            await manager.sample()
            await manager.take(PROJECT, LOGS)
            await until(lambda: manager.shown(PROJECT, "closed", answers=False)["counts"]["taken"] == 4)
            await manager.sample()
            sent, closed = manager.history(PROJECT, "siem"), manager.history(PROJECT, "closed")
            listed = {one["destination"]: one["rates"] for one in manager.all(PROJECT, answers=False)["deliveries"]}
            assert manager.history(PROJECT, "unknown") == manager.history("other", "siem") == []
    assert (sent[0]["taken"], sent[0]["delivered"]) == (1, 1)
    assert [(one["taken"], one["queued"], one["oldestSeconds"]) for one in closed] == [(1, 1, 0), (3, 4, 0)]
    assert (rates["taken"] > 0.0, rates["delivered"] > 0.0) == (True, True)
    assert (listed["closed"]["taken"] > 0.0, listed["closed"]["delivered"]) == (True, 0.0)


@pytest.mark.anyio
async def test_a_schedule_samples_at_each_interval(tmp_path: Path) -> None:
    async with managing(tmp_path) as manager:
        await manager.change(routes(webhook("siem")))
        async with scheduled(Job("delivery-history", 0.01, manager.sample)):
            await until(lambda: len(manager.history(PROJECT, "siem")) > 1)
