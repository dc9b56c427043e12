"""docs/queues.md tells of an endpoint that refuses: its sessions are what the program says, but for times and host."""

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.cli import queue
from reconciler.delivery.reporting import ExporterState
from tests import daemons
from tests.cli.conftest import Program
from tests.delivery import endpoints, webhooks
from tests.delivery.endpoints import Endpoint, Mood
from tests.docs import pages, sessions

PAGE = pages.read(pages.ROOT / "docs/queues.md")
SESSIONS = pages.blocks(PAGE, "console")
CHANGING = re.compile(r"[0-9]{4}-[0-9-]{5}T[0-9:]{8}(?:\.[0-9]{3})?Z|[0-9]+\.[0-9]{2}(?= s$)", re.MULTILINE)
ADDRESS = "https://siem.example.org:443"
ANSWER = '{"error": "field `host` is missing"}'
BODIES: list[dict[str, object]] = [
    {"stringValue": "payment 4711 refused"},
    {
        "kvlistValue": {
            "values": [
                {"key": "message", "value": {"stringValue": "payment accepted"}},
                {"key": "amount", "value": {"intValue": "9223372036854775807"}},
            ]
        }
    },
]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with endpoints.endpoint(random.Random(1)) as endpoint:  # noqa: S311 - it does as it is told
        endpoint.says, endpoint.mood = (422, ANSWER), Mood.WELL
        yield endpoint


@pytest.fixture
def program(tmp_path: Path, endpoint: Endpoint) -> Iterator[Program]:
    """The program, and a service that has given up two records for the endpoint."""
    with daemons.running(tmp_path / "daemon") as daemon:
        key = webhooks.deliver(daemon, endpoint.port, retry_on_failure_enabled=False)
        assert webhooks.post(daemon, key, BODIES).body == {}
        daemons.until(lambda: webhooks.delivery(daemon)["deadLetters"]["batches"] or None, "there is a dead letter")
        address, state = f"http://127.0.0.1:{daemon.port}", str(daemon.state)
        environment = {"SERVICE_SERVER": address, "SERVICE_API_KEY": daemon.key, "SERVICE_STATE_DIR": state}
        (tmp_path / "here").mkdir()
        yield Program(tmp_path / "here", environment)


def said(program: Program, session: str, endpoint: Endpoint) -> str:
    """Return what the commands of a session say."""
    return still(sessions.told(program, session).replace(f"http://127.0.0.1:{endpoint.port}", ADDRESS))


def still(text: str) -> str:
    """The text without what another day would show."""
    return CHANGING.sub("#", text)


@pytest.mark.slow
def test_the_day_goes_as_it_is_told(program: Program, endpoint: Endpoint) -> None:
    refused, held, mended, after, _ = map(still, SESSIONS)
    assert said(program, SESSIONS[0], endpoint) == refused
    assert said(program, SESSIONS[1], endpoint) == held
    endpoint.says = None
    assert said(program, SESSIONS[2], endpoint) == mended
    daemons.until(lambda: said(program, SESSIONS[3], endpoint) == after, "everything is delivered")


def test_every_state_is_explained() -> None:
    rows = pages.table("| state |" + PAGE.partition("| state |")[2])
    states = [row["state"].strip("`") for row in rows]
    assert states == [*(state.value for state in ExporterState), queue.UNUSED, "orphaned"]


def test_the_commands_at_the_top_are_those_of_the_day() -> None:
    (top,) = pages.blocks(PAGE, "sh")
    told = "".join(SESSIONS)
    assert [command for command in top.splitlines() if f"$ {command}\n" not in told] == []
