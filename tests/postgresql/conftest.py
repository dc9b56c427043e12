"""Fixtures: one server of PostgreSQL for each process of the tests, and a fresh database for each test."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.postgresql.servers import Database, Server

_numbers = count(1)


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Server]:
    """The server of this process of the tests, on its socket. A test that stops it starts it again."""
    server = Server()
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture
def server(shared_server: Server) -> Server:
    """The shared server, running whatever the test before did to it."""
    if not shared_server.is_running:
        shared_server.start()
    return shared_server


@pytest.fixture
def database(server: Server) -> Iterator[Database]:
    """A fresh database, which goes with the test."""
    made = server.database(f"test_{next(_numbers)}")
    yield made
    if server.is_running:
        server.drop(made.name)
