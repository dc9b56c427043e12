"""The edges of the pure rules, each with what it is there for."""

import random
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reconciler.delivery import batches
from reconciler.delivery import retry as delivery_retry
from reconciler.delivery.breaker import SendEnvironment
from reconciler.delivery.queue.contract import Batch
from reconciler.delivery.retry import RetryDecision
from reconciler.model.routes import Retry
from tests.delivery.exporter.queues import ListQueue
from tests.delivery.exporter.worlds import BEGAN, bodies, destination, exporting, put, sent, sources
from tests.servers import sinks
from tests.servers.certificates import Authority

pytestmark = pytest.mark.anyio

CHANCE = random.Random(7)  # noqa: S311


# The longest time: at most so much is spent, and all of it may be


@pytest.mark.parametrize(
    ("spent", "decision"),
    [(294.0, RetryDecision(5.0, 299.0)), (295.0, RetryDecision(5.0, 300.0)), (295.001, None), (300.0, None)],
)
def test_the_longest_time_is_used_to_its_very_end_and_no_further(spent: float, decision: RetryDecision | None) -> None:
    always_five = Retry(initial_interval=100.0, max_interval=5.0, max_elapsed=300.0)

    assert delivery_retry.decide_retry(always_five, attempts=9, spent=spent, retry_after=0.0, chance=CHANCE) == decision


def test_what_the_endpoint_asked_for_does_not_count_at_the_very_end_either() -> None:
    retry = Retry(initial_interval=100.0, max_interval=5.0, max_elapsed=300.0)

    assert delivery_retry.decide_retry(
        retry, attempts=9, spent=300.0, retry_after=60.0, chance=CHANCE
    ) == RetryDecision(60.0, 300.0)


# Dividing


def test_a_part_that_arrives_lets_the_rest_be_divided_further() -> None:
    whole = batches.send_batch(batches.Lease(Batch(1, 1024, 100, BEGAN)))
    for _ in range(whole.credit.left):
        assert whole.divide()
    assert whole.divide() == []

    whole.halve()[0].record_arrival()  # 512 records: enough to find one among as many
    assert [bool(whole.divide()) for _ in range(12)] == [True] * 11 + [False]


async def test_many_poison_records_of_one_batch_take_no_neighbour_along() -> None:
    queue = ListQueue()
    poison = range(50, 1000, 101)  # ten of them: a tenth as many parts could be found without what arrived
    with sinks.listening() as sink:
        sink.choose(lambda request: sinks.says(400 if b"bad" in request.body else 200))
        async with exporting(destination(sink.port, retry=Retry(enabled=False)), queue) as exporter:
            await put(queue, [f"bad-{number}" if number in poison else f"{number}" for number in range(1000)])
            await sent(exporter)

    assert sorted(sink.records) == [number for number in range(1000) if number not in poison]
    dead = [text for _, payload in queue.dead.values() for text in bodies(payload)]
    assert sorted(dead) == sorted(f"bad-{number}" for number in poison)


# Certificates are held against the clock that the outlet was given


async def test_an_expired_client_certificate_is_told_by_the_clock_of_the_outlet(tmp_path: Path) -> None:
    ours, theirs = Authority.make(tmp_path / "ours"), Authority.make(tmp_path / "theirs")
    server = ours.issue().context()
    server.load_verify_locations(theirs.bundle)
    server.verify_mode = ssl.CERT_REQUIRED
    client = ours.issue(name="client")
    folder = tmp_path / "secrets" / "acme"
    folder.mkdir(parents=True)
    for name, path in {"ca": ours.bundle, "cert": client.chain, "key": client.key}.items():
        (folder / f"{name}.pem").write_text(path.read_text())
    later = datetime.now(UTC) + timedelta(days=30)
    environment = SendEnvironment(random=CHANCE, clock=lambda: int(later.timestamp() * 1000))
    with sinks.listening(tls=server) as sink:
        wanted = destination(
            sink.port,
            scheme="https",
            ca_file="ca.pem",
            mutual_tls=True,
            cert_file="cert.pem",
            key_file="key.pem",
        )
        secrets = sources(tmp_path / "secrets")
        async with exporting(wanted, None, environment=environment, secrets=secrets) as exporter:
            told = await exporter.test()

    assert "the client certificate in `cert_file` expired on " in told.message
