"""Until a daemon has read the routes after a change, records go by the old ones for a short while, except to what was
changed.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import daemons
from tests.daemons import Daemon
from tests.delivery import lines
from tests.delivery.lines import Line
from tests.servers import sinks

MANY = 150  # Configurations, so that reading the routes takes longer than stopping the worker
TRIES = 100


def test_records_go_by_the_old_routes_for_a_while_except_to_what_changed(tmp_path: Path) -> None:
    with (
        daemons.running(tmp_path, has_real_reader=True) as daemon,
        sinks.listening() as sink,
        sinks.listening() as other,
    ):
        line, changing = Line(daemon, sink).begin(), Line(daemon, other).begin()
        lines.apply(daemon, *(never(line, number) for number in range(MANY)))
        with stopped_before_the_routes_are_read(daemon, changing):
            line.sent("by the old route")
            line.arrives("by the old route")
            refused = changing.send("to what is disabled")
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert daemon.get("/v1/deliveries").status == 200
            reason = daemons.until(lambda: late(line), "the old routes are too old")
            assert reason == "The service is reading the project's Configurations; try again."
        daemons.until(lambda: line.send("by the new route").status == 200 or None, "the routes are read")
        daemons.until(lambda: "by the new route" in sink.records or None, "it arrives")
        daemons.until(lambda: "partialSuccess" in changing.send("nobody's").body or None, "nobody takes it")
        assert other.records == []


def late(line: Line) -> str | None:
    """Why a record is refused; None as long as it is taken."""
    answer = line.send("by the old route")
    return str(answer.body["message"]) if answer.status == 503 else None


def never(line: Line, number: int) -> dict[str, Any]:
    """A Configuration whose route takes nothing here."""
    spec = {
        "sources": [{"type": "otlp"}],
        "destinations": [{"name": line.name}],
        "selector": {"matchLabels": {"line": f"never-{number}"}},
    }
    return lines.resource("Configuration", f"never-{number}", spec)


@contextmanager
def stopped_before_the_routes_are_read(daemon: Daemon, line: Line) -> Iterator[None]:
    """Disable the destination of a line, and stop the worker before it has read what that changes."""
    reader = daemon.reader()
    for _ in range(TRIES):
        disabled = {"type": "webhook", "disabled": True, "parameters": [{"name": "hostname", "value": "127.0.0.1"}]}
        lines.apply(daemon, lines.resource("Destination", line.name, disabled))
        os.kill(reader, signal.SIGSTOP)
        try:
            if line.send("whose routes are not read").status == 503:
                yield
                return
        finally:
            os.kill(reader, signal.SIGCONT)
        line.set()
        line.becomes(lambda found: found["configurations"] == [line.name], "it is routed to")
    raise AssertionError("The worker was always faster.")
