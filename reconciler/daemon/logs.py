"""How log lines look: a sentence with fields, as text on a terminal, else as JSON, one object a line."""

import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

import msgspec

from reconciler.clock import rfc3339

OURS = ("reconciler", "api")
# What libraries may say. The HTTP server warns of every client that speaks no HTTP, which is nobody's to mend here.
LIBRARIES = {"uvicorn": logging.ERROR, "watchfiles": logging.WARNING}
CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), 127, *range(128, 160))}  # a log line is one line


class Text(logging.Formatter):
    """`06:12:00 warning telemetry: …` for a person."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        line = f"{time} {level}{record.getMessage().translate(CONTROL)}"
        trace = self.formatException(record.exc_info) if record.exc_info else getattr(record, "fields", {}).get("trace")
        return line if not trace else f"{line}\n{trace}"


class Json(logging.Formatter):
    """One object a line: `time`, `level`, `logger`, `message`, then the fields of the record."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": rfc3339(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def set_up(*, level: str, style: str, stream: TextIO = sys.stderr) -> None:
    """Send log lines to a stream. `level` is debug, info, warning or error; `style` is auto, text or json."""
    as_text = style == "text" or (style == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Text() if as_text else Json())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name, worth in LIBRARIES.items():
        logging.getLogger(name).setLevel(worth)
    set_level(level)


def set_level(level: str) -> None:
    """Change the level of our own lines; libraries keep theirs."""
    for name in OURS:
        logging.getLogger(name).setLevel(level.upper())
