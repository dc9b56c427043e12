"""examples/replicas/nginx.conf: retries of what is safe, streams at once, the sizes of bodies, who the client is."""

import http.client
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.postgresql import balancers
from tests.postgresql.balancers import Balancer
from tests.servers import sinks
from tests.servers.sinks import Sink

pytestmark = pytest.mark.providers

MIB = 1 << 20


class Front(NamedTuple):
    """nginx, and three servers in place of replicas."""

    balancer: Balancer
    replicas: list[Sink]

    def ask(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> int:
        """One request; the status."""
        connection = http.client.HTTPConnection("127.0.0.1", self.balancer.port, timeout=30)
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()

    def received(self) -> int:
        """The number of requests that reached a replica."""
        return sum(len(one.received) for one in self.replicas)


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    with ExitStack() as stack:
        replicas = [stack.enter_context(sinks.listening()) for _ in range(3)]
        balancer = stack.enter_context(balancers.running(tmp_path, [one.port for one in replicas]))
        yield Front(balancer, replicas)


def test_a_read_goes_to_the_next_replica_when_one_is_gone_or_says_503(front: Front) -> None:
    front.replicas[0].refuse()
    front.replicas[1].script(sinks.says(503))
    assert [front.ask("GET", "/v1/resources/Destination") for _ in range(6)] == [200] * 6


def test_a_read_goes_to_the_next_replica_when_one_dies_before_its_answer(front: Front) -> None:
    for one in front.replicas[:2]:
        one.script(sinks.reset())
    assert [front.ask("GET", "/v1/resources/Destination") for _ in range(6)] == [200] * 6


def test_a_write_that_a_replica_may_have_read_is_not_sent_again(front: Front) -> None:
    for one in front.replicas:
        one.script(sinks.reset())
    assert front.ask("POST", "/v1/apply", b"{}") == 502
    assert front.received() == 1
    for one in front.replicas:
        one.script(sinks.says(503))
    assert front.ask("POST", "/v1/apply", b"{}") == 503
    assert front.received() == 2


def test_an_answer_of_all_replicas_comes_through(front: Front) -> None:
    for one in front.replicas:
        one.script(sinks.says(503))
    assert [front.ask("GET", "/v1/resources/Destination") for _ in range(3)] == [503] * 3


def test_a_write_goes_to_another_replica_when_one_takes_no_connections(front: Front) -> None:
    for one in front.replicas[:2]:
        one.refuse()
    assert [front.ask("POST", "/v1/apply", b"{}") for _ in range(6)] == [200] * 6
    assert front.received() == 6


@pytest.mark.parametrize(
    ("path", "mebibytes", "status"),
    [("/v1/apply", 7, 200), ("/v1/apply", 9, 413), ("/v1/logs", 19, 200), ("/v1/logs", 21, 413)],
)
def test_bodies_have_the_sizes_that_the_service_takes(front: Front, path: str, mebibytes: int, status: int) -> None:
    assert front.ask("POST", path, b" " * (mebibytes * MIB)) == status


def test_the_service_sees_the_client_and_the_host(front: Front) -> None:
    front.ask("GET", "/v1/me", headers={"Host": "telemetry.example:8443", "X-Forwarded-For": "203.0.113.9"})
    (request,) = (one for replica in front.replicas for one in replica.received)
    assert request.header("Host") == "telemetry.example:8443"
    assert request.header("X-Forwarded-For") == "203.0.113.9, 127.0.0.1"


def test_events_come_at_once(front: Front) -> None:
    for one in front.replicas:
        one.script(sinks.endless(chunk=b":\n\n", every=5.0))
    connection = http.client.HTTPConnection("127.0.0.1", front.balancer.port, timeout=30)
    begun = time.monotonic()
    connection.request("GET", "/v1/events")
    assert connection.getresponse().read(3) == b":\n\n"
    assert time.monotonic() - begun < 4.0
    connection.close()


def test_the_metrics_of_one_replica_are_not_shown(front: Front) -> None:
    assert front.ask("GET", "/metrics") == 404
    assert front.received() == 0
