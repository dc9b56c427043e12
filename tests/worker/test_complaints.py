"""The worker's standard error: lines of the daemon's log, so many and so long as it bears."""

import asyncio
import sys

import pytest

from reconciler.worker import process
from reconciler.worker.client import WorkerClient
from reconciler.worker.process import WorkerLog
from tests import hostile_text

SAYS = "The worker said: "
SHOUTS = f"import sys; sys.stderr.write({hostile_text.EVERYTHING!r}); sys.exit({hostile_text.CLEAR!r})"


def said(*parts: bytes, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what is logged of a stream that comes in these parts."""
    log = WorkerLog()
    for part in (*parts, b"\n"):
        log.feed(part)
    return [message.removeprefix(SAYS) for message in caplog.messages]


def test_each_line_is_a_record(caplog: pytest.LogCaptureFixture) -> None:
    assert said(b"one\ntw", b"o\n\n\xff\nthree", caplog=caplog) == ["one", "two", "\\xff", "three"]


def test_a_long_line_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    found = said(b"a" * 9_000 + b"\nb", caplog=caplog)
    assert max(map(len, found)) == WorkerLog.LONGEST_BYTES
    assert "".join(found).count("a") <= 9_000
    assert found[-1] == "b"


def test_of_very_many_lines_the_first_are_told(caplog: pytest.LogCaptureFixture) -> None:
    found = said(b"x\n" * 100_000, caplog=caplog)
    assert found == ["x"] * (WorkerLog.MOST_LINES - 1) + ["x; what else it says is not logged"]


@pytest.mark.anyio
async def test_a_child_that_shouts_and_ends_is_heard_in_the_log_alone(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    reader = WorkerClient(command=(sys.executable, "-I", "-c", SHOUTS))
    await reader.start()
    shouted = f"{hostile_text.EVERYTHING}{hostile_text.CLEAR}"

    def told() -> str:
        found = (one.getMessage() for one in caplog.records if one.name == process.__name__)
        return "\n".join(message.removeprefix(SAYS) for message in found if message.startswith(SAYS))

    for _ in range(1_000):
        if told() == shouted:
            break
        await asyncio.sleep(0.01)
    await reader.stop()
    assert told() == shouted
    assert capfd.readouterr() == ("", "")
