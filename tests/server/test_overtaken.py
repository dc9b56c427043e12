"""Small changes go on while a large commit is planned, and do not have it planned again."""

import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests import daemons
from tests.daemons import Daemon, destination, watched
from tests.projects import resource
from tests.repositories import Repository

FILES = 2_000
FEWEST = 5  # small changes while the commit is planned, which takes a second or more
SECONDS = 5.0  # that a small change takes at most, on a machine with much else to do
DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # of a ULID
TIME_DIGITS = 10


class Writer:
    """Somebody who creates one small resource after another through the API."""

    def __init__(self, daemon: Daemon) -> None:
        self.written: list[dict[str, Any]] = []
        self.seconds: list[float] = []
        self._daemon = daemon
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            begun = time.monotonic()
            [update] = self._daemon.apply(resource("Destination", f"small-{number}", type="otlp"))
            self.seconds.append(time.monotonic() - begun)
            assert update["status"] == "created"
            self.written.append(update["resource"])


@pytest.mark.slow
def test_small_changes_all_the_time_leave_a_large_commit_its_one_plan(tmp_path: Path) -> None:
    source = Repository.init(tmp_path / "source")
    for number in range(FILES):
        source.write(f"{number % 20}/{number}.yaml", destination(f"large-{number}"))
    head = source.commit()
    with daemons.running(tmp_path / "daemon") as daemon:
        with Writer(daemon) as writer:
            daemons.until(lambda: writer.written, "somebody writes")
            daemon.follow(watched("telemetry", source.path))
            run = daemon.run_of("telemetry", head)
        assert (run["outcome"], run["counts"]) == ("succeeded", {"created": FILES})
        # New ids hold the time at which their plan began: what is stored is of a plan beside which others wrote.
        begun = {planned_at(daemon.resource("Destination", f"large-{number}")) for number in (0, FILES - 1)}
        assert len(begun) == 1
        ended = milliseconds(run["finishedAt"])
        meanwhile = [
            one for one in writer.written if min(begun) < milliseconds(one["metadata"]["dateModified"]) < ended
        ]
        assert len(meanwhile) >= FEWEST
        assert max(writer.seconds) < SECONDS
        assert len(daemon.resources("Destination")) == FILES + len(writer.written)
        assert [one["id"] for one in daemon.runs("telemetry")] == [run["id"]]


def planned_at(found: dict[str, Any] | None) -> int:
    """When the plan began that created a resource, in milliseconds of Unix time."""
    assert found is not None
    told = 0
    for digit in found["metadata"]["id"][:TIME_DIGITS]:
        told = told * len(DIGITS) + DIGITS.index(digit)
    return told


def milliseconds(at: str) -> int:
    """An instant of the API's as Unix time."""
    return round(datetime.fromisoformat(at).timestamp() * 1000)
