"""Many connections at once: silent ones keep nobody out, and requests in progress are kept."""

import contextlib
import select
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.server import connections
from tests import daemons
from tests.daemons import Daemon
from tests.servers.certificates import Authority

LIVE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
SILENT, PROXY, OTHER = "127.0.0.2", "127.0.0.3", "127.0.0.4"
APPLY = b"POST /v1/apply HTTP/1.1\r\nHost: x\r\nContent-Length: 17\r\nAuthorization: Bearer %b\r\n\r\n"
HOOK = b"POST /hooks/telemetry HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon behind a proxy."""
    with daemons.running(tmp_path / "daemon", settings={"trustedProxies": [PROXY]}) as daemon:
        yield daemon


class Clients(contextlib.ExitStack):
    """Connections that end with the test."""

    def __init__(self, daemon: Daemon) -> None:
        super().__init__()
        self.daemon = daemon

    def open(self, address: str) -> socket.socket:
        """Open one, from an address of this machine."""
        place = (self.daemon.host, self.daemon.port)
        return self.enter_context(socket.create_connection(place, timeout=10, source_address=(address, 0)))

    def silent(self, count: int, *addresses: str) -> list[socket.socket]:
        """Open some that say nothing, from each address in its turn."""
        return [self.open(addresses[number % len(addresses)]) for number in range(count)]

    def is_live(self, address: str = OTHER) -> bool:
        """Return True when a new connection is answered."""
        return asked(self.open(address))


def asked(client: socket.socket) -> bool:
    """Return True when a connection is answered."""
    client.sendall(LIVE)
    answer = b""
    while not answer.endswith(b"}") and (piece := client.recv(1_000)):  # head and body may come apart
        answer += piece
    return answer.startswith(b"HTTP/1.1 200 ")


def closed(clients: list[socket.socket]) -> list[bool]:
    """Which of them the service has closed."""
    poll = select.poll()
    for client in clients:
        poll.register(client, select.POLLIN)
    ended = {number for number, _ in poll.poll(0)}
    return [client.fileno() in ended for client in clients]


def test_silent_connections_of_one_address_take_half_of_the_places_and_the_oldest_end(daemon: Daemon) -> None:
    with Clients(daemon) as clients:
        kept = clients.open(OTHER)
        assert asked(kept)
        few = connections.OF_ONE_ADDRESS
        silent = clients.silent(few + 50, SILENT)
        assert clients.is_live()
        daemons.until(lambda: sum(closed(silent)) == 50, "those over the limit are closed")
        assert closed(silent) == [True] * 50 + [False] * few
        assert asked(kept)
        assert clients.is_live(SILENT)  # it closes the oldest of its own


def test_a_trusted_proxy_may_have_more(daemon: Daemon) -> None:
    with Clients(daemon) as clients:
        silent = clients.silent(connections.OF_ONE_ADDRESS + 50, PROXY)
        assert clients.is_live()
        assert not any(closed(silent))


def test_a_trusted_proxy_may_have_more_where_ipv6_listens_too(tmp_path: Path) -> None:
    settings = {"listen": "[::]:0", "insecure": True, "trustedProxies": [PROXY]}
    with daemons.running(tmp_path / "daemon", settings=settings) as daemon, Clients(daemon) as clients:
        silent = clients.silent(connections.OF_ONE_ADDRESS + 50, PROXY)
        assert clients.is_live()
        assert not any(closed(silent))


def test_when_all_places_are_taken_the_oldest_without_a_request_ends(daemon: Daemon) -> None:
    with Clients(daemon) as clients:
        working = clients.open(OTHER)
        working.sendall(APPLY % daemon.key.encode())
        silent = clients.silent(connections.CONNECTIONS + 60, *(f"127.0.1.{number}" for number in range(1, 9)))
        assert clients.is_live()
        daemons.until(lambda: sum(closed(silent)) >= 62, "the oldest are closed")
        assert closed(silent) == [True] * 62 + [False] * (len(silent) - 62)
        working.sendall(b'{"resources": []}')
        assert working.recv(1_000).startswith(b"HTTP/1.1 202 ")


def test_bodies_that_do_not_arrive_keep_nobody_out(daemon: Daemon) -> None:
    with Clients(daemon) as clients:
        for client in clients.silent(connections.CONNECTIONS, *(f"127.0.1.{number}" for number in range(1, 9))):
            client.sendall(HOOK)
        assert clients.is_live()


def test_handshakes_that_do_not_begin_keep_nobody_out(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "authority")
    daemon = Daemon(tmp_path / "daemon", settings={"tls": authority.issue().settings()})
    daemon.tls = ssl.create_default_context(cafile=authority.bundle)
    try:
        daemon.start()
        with Clients(daemon) as clients:
            clients.silent(connections.CONNECTIONS + 60, *(f"127.0.1.{number}" for number in range(1, 9)))
            with daemon.tls.wrap_socket(clients.open(OTHER), server_hostname=daemon.host) as client:
                assert asked(client)
    finally:
        daemons.end(daemon)
