"""Dead letters in the log: each record is told of once, soon, and in few lines."""

import logging

import pytest

from reconciler.delivery.queue.contract import Obituary, Reason
from reconciler.delivery.reporting import TELL_SECONDS, SendReport
from reconciler.model.routes import Retry
from tests.delivery.exporter.queues import ListQueue
from tests.delivery.exporter.worlds import Time, destination, exporting, put, sent
from tests.servers import sinks

pytestmark = pytest.mark.anyio


def died(cause: str) -> Obituary:
    return Obituary(Reason.NO_RETRY, 1, 1, cause)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "dead letter" in record.getMessage()]


def line(records: int, cause: str) -> str:
    if records == 1:
        return f"1 record for siem in the project acme is a dead letter: {cause}"
    return f"{records} records for siem in the project acme are dead letters: {cause}"


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def report(time: Time) -> SendReport:
    return SendReport(time.environment(), project="acme", name="siem")


def test_the_last_dead_letters_of_a_burst_are_told_without_another(
    time: Time, report: SendReport, caplog: pytest.LogCaptureFixture
) -> None:
    report.buried(1, died("First."))
    assert told(caplog) == [line(1, "First.")]
    time.now = 5.0
    for _ in range(999):
        report.buried(1, died("Then."))
    assert len(told(caplog)) == 1
    assert time.advance(TELL_SECONDS)
    assert told(caplog) == [line(1, "First."), line(999, "Then.")]


def test_what_was_told_is_not_told_again_and_nothing_is_told_of_nothing(
    time: Time, report: SendReport, caplog: pytest.LogCaptureFixture
) -> None:
    report.buried(3, died("First."))
    while time.advance(3600.0):
        pass
    assert time.next is None
    report.buried(4, died("Much later."))
    report.stop()
    assert told(caplog) == [line(3, "First."), line(4, "Much later.")]
    assert report.counts.dead == 7


def test_a_stream_of_dead_letters_makes_a_line_now_and_then(
    time: Time, report: SendReport, caplog: pytest.LogCaptureFixture
) -> None:
    for second in range(100):
        while time.advance(float(second)):
            pass
        report.buried(2, died("Again."))
    report.stop()
    assert sum(int(text.split()[0]) for text in told(caplog)) == 200
    assert len(told(caplog)) <= 100 / TELL_SECONDS + 2


def test_what_died_is_told_before_it_is_told_to_be_queued_again(
    time: Time, report: SendReport, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    report.buried(1, died("Down."))
    report.buried(5, died("Down."))
    report.replayed(6, 6)
    while time.advance(3600.0):
        pass
    report.stop()
    queued_again = "Of siem in the project acme, 6 dead letters (6 records) are queued again."
    assert told(caplog) == [line(1, "Down."), line(5, "Down."), queued_again]


async def test_what_is_not_told_yet_is_told_when_sending_stops(time: Time, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    queue = ListQueue()
    with sinks.listening() as sink:
        sink.script(sinks.says(415))
        wanted = destination(sink.port, retry=Retry(enabled=False))
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            for texts in (["1"], ["2", "3"], ["4"]):
                await put(queue, texts)
                await sent(exporter)
            assert len(told(caplog)) == 1
    assert [text.split()[0] for text in told(caplog)] == ["1", "3"]
