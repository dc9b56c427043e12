"""Delivery windows: a daemon that sends inside of them alone, and keeps the rest.

Schedules are made of the present time, so that nothing here waits for a window, but for what is marked slow.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests import daemons
from tests.daemons import Daemon
from tests.delivery.lines import Line
from tests.servers import sinks
from tests.servers.sinks import Sink

CLOSED_SAYS = "Outside of its delivery window; records are queued until it opens."
ELSEWHERE = "Asia/Kathmandu"  # 5:45 before UTC, so that an hour's window never is the same hour there
A_MINUTE = 75.0  # seconds that a window may need to open, and then some


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    settings = {"log": {"level": "debug"}}
    with daemons.running(tmp_path_factory.mktemp("daemon"), settings=settings) as running:
        yield running


@pytest.fixture
def line(daemon: Daemon, sink: Sink) -> Line:
    return Line(daemon, sink)


def open_now(*, timezone: str = "UTC", ahead: int = 0) -> str:
    """A schedule whose window opens daily at the minute that it is now, or so many minutes later."""
    at = datetime.now(ZoneInfo(timezone)) + timedelta(minutes=ahead)
    return f"{at.minute} {at.hour} * * *"


def closed_now() -> str:
    """One whose windows open on a day half a year away."""
    month = (datetime.now(UTC).month + 5) % 12 + 1
    return f"0 0 1 {month} *"


@pytest.mark.parametrize("on_disk", [True, False], ids=["on disk", "in memory"])
def test_a_closed_window_queues_and_an_open_one_delivers(line: Line, sink: Sink, on_disk: bool) -> None:
    line.begin(delivery_schedule=closed_now(), persistent_queue_enabled=on_disk)
    line.sent("canary-body one")
    line.sent("canary-body two")
    with sinks.listening() as another:
        beside = Line(line.daemon, another).begin()
        beside.sent("canary-body beside")
        beside.arrives("canary-body beside")
    shown = line.becomes(lambda found: found["queue"]["batches"] == 2, "both are queued")
    assert (shown["state"], shown["message"]) == ("closed", CLOSED_SAYS)
    assert (shown["window"]["open"], shown["window"]["until"]) == (False, None)
    assert datetime.fromisoformat(shown["window"]["next"]) > datetime.now(UTC)
    assert sink.received == []

    line.set(delivery_schedule=open_now())
    line.arrives("canary-body one", "canary-body two")
    shown = line.becomes(lambda found: found["window"]["open"], "it is open")
    assert timedelta(0) < datetime.fromisoformat(shown["window"]["until"]) - datetime.now(UTC) <= timedelta(hours=1)
    line.becomes(lambda found: found["state"] == "idle", "all is delivered")


def test_without_a_schedule_again_what_waited_for_a_window_is_sent(line: Line, sink: Sink) -> None:
    line.begin(delivery_schedule=closed_now())
    line.sent("canary-body")
    line.becomes(lambda found: found["state"] == "closed", "it is closed")
    assert sink.received == []
    line.set(delivery_schedule="")
    line.arrives("canary-body")
    assert line.becomes(lambda found: found["window"] is None, "there is no window")["message"] == ""


def test_the_time_zone_says_when_a_window_opens(line: Line, sink: Sink) -> None:
    there = open_now(timezone=ELSEWHERE)
    line.begin(delivery_schedule=there)
    line.sent("canary-body")
    line.becomes(lambda found: found["state"] == "closed", "by the clock of UTC it is closed")
    assert sink.received == []
    line.set(delivery_timezone=ELSEWHERE)
    line.arrives("canary-body")


def test_what_failed_waits_for_the_next_window_also_after_a_restart(line: Line, sink: Sink) -> None:
    sink.script(sinks.says(500), sinks.says(200))
    line.begin(delivery_schedule=open_now(), retry_on_failure_initial_interval=60, retry_on_failure_max_interval=60)
    line.sent("canary-body")
    line.becomes(lambda found: found["queue"]["waiting"] == 1, "it waits for another attempt")
    line.set(delivery_schedule=closed_now())
    shown = line.becomes(lambda found: found["state"] == "closed", "it is closed")
    assert (shown["queue"]["batches"], shown["queue"]["waiting"], shown["message"]) == (1, 1, CLOSED_SAYS)
    line.daemon.restart()  # a new process would send at once
    line.becomes(lambda found: found["state"] == "closed", "it is closed still")
    assert len(sink.received) == 1
    line.set(delivery_schedule=open_now())
    line.arrives("canary-body")
    first, second = sink.received
    assert (first.header("X-Service-Attempt"), second.header("X-Service-Attempt")) == ("1", "1")
    assert first.header("X-Service-Delivery-Id") == second.header("X-Service-Delivery-Id")


def test_without_a_queue_a_closed_window_refuses_and_a_test_goes_through_it(line: Line, sink: Sink) -> None:
    line.begin(delivery_schedule=closed_now(), sending_queue_enabled=False)
    answer = line.answered("canary-body")
    assert answer.status == 503
    assert int(answer.headers["retry-after"]) >= 1
    assert f"The delivery window of {line.name} is closed." in str(answer.body)
    assert sink.received == []
    told = line.daemon.post(f"/v1/destinations/{line.name}/delivery/test", {}).body["test"]
    assert (told["delivered"], len(sink.accepted)) == (True, 1)


@pytest.mark.slow
def test_a_window_opens_and_closes_by_itself(line: Line, sink: Sink) -> None:
    ahead = 1 if datetime.now(UTC).second < 50 else 2  # so that it is closed at first
    line.begin(delivery_schedule=open_now(ahead=ahead), delivery_window=1)
    opens = datetime.fromisoformat(line.becomes(lambda found: found["state"] == "closed", "closed")["window"]["next"])
    line.sent("canary-body before")
    daemons.until(lambda: sink.accepted or None, "it is sent when the window opens", seconds=A_MINUTE)
    assert datetime.now(UTC) >= opens
    line.arrives("canary-body before")
    closed = daemons.until(
        lambda: found if (found := line.shown()) and found["state"] == "closed" else None, "closed", seconds=A_MINUTE
    )
    assert datetime.fromisoformat(closed["window"]["next"]) == opens + timedelta(days=1)
    line.sent("canary-body after")
    shown = line.becomes(lambda found: found["queue"]["batches"] == 1, "it is queued")
    assert (shown["state"], len(sink.received)) == ("closed", 1)
