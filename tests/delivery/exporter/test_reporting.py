"""Dead letters in the log: each record is told of once, in few lines."""

import pytest

from reconciler.delivery.queue.contract import FinalFailure, Reason
from reconciler.delivery.reporting import TELL_SECONDS, SendReport
from tests.delivery.exporter.worlds import Time

pytestmark = pytest.mark.anyio


def died(cause: str) -> FinalFailure:
    return FinalFailure(Reason.NO_RETRY, 1, 1, cause)


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


def test_a_stream_of_dead_letters_makes_a_line_now_and_then(
    time: Time, report: SendReport, caplog: pytest.LogCaptureFixture
) -> None:
    for second in range(100):
        time.advance(float(second))
        report.buried(2, died("Again."))
    assert told(caplog)[:2] == [line(2, "Again."), line(20, "Again.")]
    assert len(told(caplog)) == 100 / TELL_SECONDS
