"""Log lines as text or JSON.

Every record, also of libraries, passes the one handler here. It escapes text that could control a terminal or forge a
record.
"""

import json
import logging
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import TextIO

from reconciler.model import log_context
from reconciler.model.clock import rfc3339
from reconciler.model.text import visible, visible_block, visible_json

log = logging.getLogger(__name__)

OURS = ("reconciler", "api")
# The levels of libraries. The HTTP server would warn of every client that does not speak HTTP, which nobody can correct
# here.
LIBRARIES = {"uvicorn": logging.ERROR}


class TextFormatter(logging.Formatter):
    """Formats records as text: `06:12:00 warning: telemetry: … [run 01KAH30ZPT8Q1X2Y3Z4A5B6C7D]`. The trace of an error
    is in the next lines, indented.
    """

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        ids = "".join(f" [{name} {identifier}]" for name, identifier in _belongs().items())
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        line = f"{time} {level}{visible(record.getMessage())}{ids}"
        trace = self.formatException(record.exc_info) if record.exc_info else getattr(record, "fields", {}).get("trace")
        return line if not trace else f"{line}\n{visible_block(str(trace))}"


class JsonFormatter(logging.Formatter):
    """Formats records as one JSON object in each line: `time`, `level`, `logger`, `message`, the `request` or `run` in
    progress, then the fields of the record.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": rfc3339(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= _belongs()
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return visible_json(json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=str))


def _belongs() -> dict[str, str]:
    """Return the ids of the request and the run in whose context the line is logged."""
    ids = {"request": log_context.REQUEST.get(), "run": log_context.RUN.get()}
    return {name: identifier for name, identifier in ids.items() if identifier}


class LogHandler(logging.StreamHandler[TextIO]):
    """Writes records."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        """Report that a record could not be written, without its arguments."""
        lost = logging.makeLogRecord(
            {
                "name": __name__,
                "levelname": "ERROR",
                "levelno": logging.ERROR,
                "msg": f"A record of {record.name} was lost.",
            }
        )
        with suppress(OSError, ValueError):  # the stream itself is broken or closed
            self.stream.write(self.format(lost) + self.terminator)
            self.flush()


def set_up(*, level: str, style: str, stream: TextIO = sys.stderr) -> None:
    """Send log lines to a stream, and also Python's own messages: warnings and faults of threads.

    `level` is debug, info, warning or error; `style` is auto, text or json.
    """
    as_text = style == "text" or (style == "auto" and stream.isatty())
    handler = LogHandler(stream)
    handler.setFormatter(TextFormatter() if as_text else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    sys.unraisablehook = _unraisable
    threading.excepthook = _ended_thread
    for name, worth in LIBRARIES.items():
        logging.getLogger(name).setLevel(worth)
    set_level(level)


def _unraisable(fault: "sys.UnraisableHookArgs") -> None:
    log.error("A fault of the program where nobody waits.", exc_info=fault.exc_value)


def _ended_thread(fault: threading.ExceptHookArgs) -> None:
    if not isinstance(fault.exc_value, SystemExit):
        log.error("A thread ended with a fault of the program.", exc_info=fault.exc_value)


def set_level(level: str) -> None:
    """Change the level of our own lines; libraries keep theirs."""
    for name in OURS:
        logging.getLogger(name).setLevel(level.upper())
