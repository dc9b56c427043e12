"""Log lines: one record is one line, whoever wrote what is in it."""

import asyncio
import contextvars
import io
import json
import logging
import sys
import threading
import warnings
from collections.abc import Iterator

import pytest

from reconciler.model import log_context
from reconciler.ops import logging as ops_logging
from tests import hostile_text

SHOWN = (
    r"e\x1b]0;evil\x07\x1b[2J\x9b31m\u202e\n06:12:00 forged\r\u2028\u2029\x85\U000e0041\U000e0042\u200b\u2066\xad"
    r"\ufeff\x7f"
)


@pytest.fixture(autouse=True)
def _kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore after each test what a process sets up once."""
    root = logging.getLogger()
    before = (
        root.handlers[:],
        root.level,
        {name: logging.getLogger(name).level for name in (*ops_logging.OURS, *ops_logging.LIBRARIES)},
    )
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    yield
    logging.captureWarnings(False)
    root.handlers[:], root.level = before[0], before[1]
    for name, level in before[2].items():
        logging.getLogger(name).setLevel(level)


def lines(stream: io.StringIO) -> list[str]:
    """The lines without the time."""
    assert hostile_text.unseen(stream.getvalue()) == []
    assert stream.getvalue().endswith("\n")
    return [line[9:] if line[0].isdigit() else line for line in stream.getvalue().removesuffix("\n").split("\n")]


def set_up(style: str) -> io.StringIO:
    stream = io.StringIO()
    ops_logging.set_up(level="info", style=style, stream=stream)
    return stream


def fail() -> None:
    raise ValueError(hostile_text.EVERYTHING)


class Failing:
    """An object that fails when nothing refers to it any more, which is when nobody waits for it."""

    def __del__(self) -> None:
        fail()


@pytest.mark.parametrize("name", ["reconciler.git", "api.errors", "uvicorn.error", "asyncio", "anything"])
def test_a_record_of_anybody_is_one_line(name: str) -> None:
    stream = set_up("text")
    logging.getLogger(name).error("%s", hostile_text.EVERYTHING)
    assert lines(stream) == [f"error: {SHOWN}"]


def test_a_trace_stays_beneath_its_record() -> None:
    stream = set_up("text")
    try:
        fail()
    except ValueError:
        logging.getLogger("reconciler").exception("It met a fault.")
    logging.getLogger("reconciler").error("It met one.", extra={"fields": {"trace": "a\n06:12:00 error: forged\x1b"}})
    head, *trace, second, first_line, last_line = lines(stream)
    assert (head, second) == ("error: It met a fault.", "error: It met one.")
    assert trace[0] == "  Traceback (most recent call last):"
    assert trace[-1].startswith("  06:12:00 forged\\r")
    assert all(line.startswith("  ") for line in trace)
    assert (first_line, last_line) == ("  a", "  06:12:00 error: forged\\x1b")


def test_json_lines_are_lossless() -> None:
    stream = set_up("json")
    fields = {"path": hostile_text.EVERYTHING, "folder": "\udc9b", "counts": {"created": 1}}
    try:
        fail()
    except ValueError:
        logging.getLogger("reconciler").exception("%s", hostile_text.EVERYTHING, extra={"fields": fields})
    (line,) = lines(stream)
    record = json.loads(line)
    assert record["message"] == hostile_text.EVERYTHING
    assert {name: record[name] for name in fields} == fields
    assert record["trace"].endswith(f"ValueError: {hostile_text.EVERYTHING}")


@pytest.mark.parametrize("style", ["text", "json"])
def test_a_record_that_cannot_be_written_is_missed_without_its_text(
    style: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = set_up(style)
    logging.getLogger("reconciler.git").error("%d files", hostile_text.EVERYTHING)
    (line,) = lines(stream)
    told = line.removeprefix("error: ") if style == "text" else json.loads(line)["message"]
    assert told == "A record of reconciler.git was lost."
    assert capsys.readouterr() == ("", "")


def test_what_python_prints_by_itself_is_a_record() -> None:
    stream = set_up("json")
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    Failing()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(False)
        logging.captureWarnings(True)  # pytest has taken the place of what it replaced
        warnings.warn(hostile_text.EVERYTHING, stacklevel=1)
    ended, unraisable, warning = map(json.loads, lines(stream))
    assert ended["message"] == "A thread ended with a fault of the program."
    assert unraisable["message"] == "A fault of the program where nobody waits."
    assert ended["trace"].endswith(hostile_text.EVERYTHING)
    assert unraisable["trace"].endswith(hostile_text.EVERYTHING)
    assert (warning["logger"], hostile_text.EVERYTHING in warning["message"]) == ("py.warnings", True)


REQUEST, RUN = "01KAH30ZPT8Q1X2Y3Z4A5B6C7D", "01KAH30ZPT8Q1X2Y3Z4A5B6C7E"


def test_a_line_says_which_run_or_request_it_belongs_to() -> None:
    def tell() -> None:
        log_context.REQUEST.set(REQUEST)
        logging.getLogger("api").info("Within a request.")
        with log_context.bind_run(RUN):
            logging.getLogger("reconciler").info("Within a run.")
            logging.getLogger("uvicorn.error").error("A library's.")
            logging.getLogger("reconciler").info("It says so itself.", extra={"fields": {"run": "another"}})
        logging.getLogger("api").info("Behind it.")
        log_context.unbound().run(logging.getLogger("reconciler").info, "Nobody's.")

    stream = set_up("json")
    contextvars.copy_context().run(tell)
    told = [json.loads(line) for line in lines(stream)]
    assert [(one["message"], one.get("request"), one.get("run")) for one in told] == [
        ("Within a request.", REQUEST, None),
        ("Within a run.", None, RUN),
        ("A library's.", None, RUN),
        ("It says so itself.", None, "another"),
        ("Behind it.", REQUEST, None),
        ("Nobody's.", None, None),
    ]
    stream = set_up("text")
    contextvars.copy_context().run(tell)
    assert lines(stream)[:3] == [
        f"Within a request. [request {REQUEST}]",
        f"Within a run. [run {RUN}]",
        f"error: A library's. [run {RUN}]",
    ]


def test_what_is_begun_within_a_run_belongs_to_it() -> None:
    stream = set_up("json")
    log = logging.getLogger("reconciler")

    async def later() -> None:
        await asyncio.sleep(0)
        log.info("A task.")
        await asyncio.to_thread(log.info, "A thread.")

    async def run() -> None:
        with log_context.bind_run(RUN):
            task = asyncio.create_task(later())
            outliving = asyncio.create_task(later(), context=log_context.unbound())
        await asyncio.gather(task, outliving)

    asyncio.run(run())
    told = sorted((one["message"], one.get("run", "")) for one in map(json.loads, lines(stream)))
    assert told == [("A task.", ""), ("A task.", RUN), ("A thread.", ""), ("A thread.", RUN)]
