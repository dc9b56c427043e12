"""The log of a real daemon says of each line which request or run it belongs to."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import daemons
from tests.daemons import Daemon, Followed
from tests.repositories import Repository


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with daemons.running(tmp_path / "daemon", settings={"log": {"level": "debug"}}) as running:
        yield running


def line(daemon: Daemon, text: str) -> dict[str, Any]:
    """The last line with this text."""

    def look() -> dict[str, Any] | None:
        return next((one for one in reversed(daemon.lines()) if text in str(one["message"])), None)

    return daemons.until(look, f"the log says {text}")


def test_requests_and_runs_and_what_outlives_a_request(daemon: Daemon, tmp_path: Path) -> None:
    source = Repository.init(tmp_path / "source")
    source.write("a.yaml", daemons.destination("a"))
    source.commit()
    followed = Followed(daemon, source, name="telemetry")
    first = followed.head()
    told = line(daemon, "1 created")
    assert (told["run"], told.get("request")) == (first["id"], None)
    suspended = daemon.post("/v1/repositories/telemetry/suspend", {"reason": "an incident"})
    told = line(daemon, "is suspended by")
    assert (told["request"], told.get("run")) == (suspended.headers["x-request-id"], None)
    resumed = daemon.post("/v1/repositories/telemetry/resume", {})
    told = line(daemon, "is resumed by")
    assert (told["request"], told.get("run")) == (resumed.headers["x-request-id"], None)
    asked = daemon.finished(resumed.body["run"])
    told = line(daemon, "1 unchanged")
    assert (told["run"], told.get("request")) == (asked["id"], None)
    # The loop that the request started again goes on without it.
    source.write("b.yaml", daemons.destination("b"))
    later = daemon.run_of("telemetry", source.commit())
    told = line(daemon, f"telemetry at {later['commit'][:12]}")
    assert (told["run"], told.get("request")) == (later["id"], None)
    listening = line(daemon, "Listening on")
    assert "request" not in listening
    assert "run" not in listening
