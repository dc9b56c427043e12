"""Replicas and PostgreSQL are killed, restarted and stopped under load: nothing acknowledged is lost (`chaos`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgresql import chaos
from tests.postgresql.chaos_faults import Plan
from tests.postgresql.servers import Server

SHORT = Plan(kills=5, restarts=2, stops=1, seconds=40.0, stop_seconds=6.0)


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server of its own, since it is restarted."""
    server = Server()
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.mark.providers
def test_nothing_acknowledged_is_lost(own_server: Server, tmp_path: Path) -> None:
    report = chaos.run(tmp_path, SHORT, server=own_server)
    assert report.wrong == [], report.table()


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_in_a_hundred_kills(own_server: Server, tmp_path: Path) -> None:
    report = chaos.run(tmp_path, chaos.FULL, server=own_server)
    print(report.table())
    assert report.wrong == [], report.table()
