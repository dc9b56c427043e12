"""The whole daemon, killed at any moment while records come and go: none that was accepted is missing.

Every record has a number. A client keeps the numbers of requests that were answered with 200; the endpoint those that
it took; what is queued and what is dead is read from the files of the daemon that is gone.
"""

import contextlib
import http.client
import itertools
import json
import random
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests import daemons
from tests.daemons import COMMAND, Daemon
from tests.delivery import endpoints, webhooks
from tests.delivery.endpoints import Endpoint, Mood

SEED = 20261122
LONGEST_LIFE = 0.8  # seconds from the first record that is accepted to the end
EARLY = 5  # one life of so many may end while the daemon starts
SENDERS = 4
POISONED = 100  # one request of so many is refused for ever
ANSWER_SECONDS = 20.0
DRAIN_SECONDS = 60.0


class Sender(threading.Thread):
    """Sends records with numbers of its own for as long as it may."""

    def __init__(self, daemon: Daemon, key: str, numbers: Iterator[int], chance: random.Random) -> None:
        super().__init__(name="sender")
        self.receiver = daemon
        self.key = key
        self.numbers = numbers
        self.chance = chance
        self.accepted: set[int] = set()
        self.sent: set[int] = set()
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.is_set():
            mine = list(itertools.islice(self.numbers, self.chance.randint(1, 20)))
            self.sent.update(mine)
            poison = " poison" if self.chance.randrange(POISONED) == 0 else ""
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self._post([f"record {number}{poison}" for number in mine]) == 200:
                    self.accepted.update(mine)
                    continue
            self.done.wait(0.02)

    def _post(self, texts: list[str]) -> int:
        body = webhooks.request([{"stringValue": text} for text in texts])
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        connection = http.client.HTTPConnection("127.0.0.1", self.receiver.port, timeout=ANSWER_SECONDS)
        with contextlib.closing(connection):
            connection.request("POST", "/v1/logs", body, headers)
            answer = connection.getresponse()
            told = answer.read()
            # Whoever is told that a part was refused has not been promised anything here.
            assert answer.status != 200 or json.loads(told or b"{}") == {}, told
            return answer.status


@contextlib.contextmanager
def sending(daemon: Daemon, key: str, chance: random.Random) -> Iterator[list[Sender]]:
    numbers = itertools.count()  # its `next` is one step of the interpreter: threads may share it
    senders = [Sender(daemon, key, numbers, random.Random(chance.random())) for _ in range(SENDERS)]  # noqa: S311
    for sender in senders:
        sender.start()
    try:
        yield senders
    finally:
        for sender in senders:
            sender.done.set()
        for sender in senders:
            sender.join()


@pytest.mark.slow
@pytest.mark.parametrize("kills", [300])
def test_killed_at_any_moment_it_has_every_record_that_it_accepted(tmp_path: Path, kills: int) -> None:
    chance = random.Random(SEED)  # noqa: S311 - moments and faults, no secret
    daemon = Daemon(tmp_path / "daemon")
    with endpoints.endpoint(random.Random(SEED)) as endpoint:  # noqa: S311
        try:
            daemon.start()
            key = prepare(daemon, endpoint)
            with sending(daemon, key, chance) as senders:
                daemons.until(lambda: len(endpoint.delivered) > 0 or None, "records arrive")
                for _ in range(kills):
                    daemon.kill()
                    live(daemon, senders, chance)
                daemon.kill()
                daemon.start()
                endpoint.mood = Mood.DOWN
                daemons.until(lambda: webhooks.delivery(daemon)["queue"]["records"] > 0 or None, "something is queued")
            assert daemon.stop() == 0
            accepted = set().union(*(sender.accepted for sender in senders))
            sent = set().union(*(sender.sent for sender in senders))
            account(daemon, endpoint, accepted, sent)
            endpoint.mood, endpoint.is_picky = Mood.WELL, False
            daemon.start()
            run_empty(daemon)
            assert accepted - endpoint.delivered.keys() == set()
            assert endpoint.delivered.keys() - sent == set()
            assert daemon.stop() == 0
        finally:
            daemons.end(daemon)
    assert len(accepted) > kills


def live(daemon: Daemon, senders: Sequence[Sender], chance: random.Random) -> None:
    """Start it, and let it be for a random while: now and then it dies before it listens."""
    life = chance.uniform(0, LONGEST_LIFE)
    if chance.randrange(EARLY) == 0:
        daemon.launch()
    else:
        known = accepted_by(senders)
        daemon.start()
        daemons.until(lambda: accepted_by(senders) > known, "records are accepted again")
    time.sleep(life)


def accepted_by(senders: Sequence[Sender]) -> int:
    return sum(len(sender.accepted) for sender in senders)


def prepare(daemon: Daemon, endpoint: Endpoint) -> str:
    """A webhook that gives up soon, and has room for all; a key that may send."""
    return webhooks.deliver(
        daemon,
        endpoint.port,
        retry_on_failure_initial_interval=1,
        retry_on_failure_max_interval=1,
        retry_on_failure_max_elapsed_time=2,
        sending_queue_queue_size=1_000_000,
    )


def account(daemon: Daemon, endpoint: Endpoint, accepted: set[int], sent: set[int]) -> None:
    """Accepted is delivered, queued or dead, record by record; and nothing came out of nowhere."""
    queued, dead = peeked(daemon), peeked(daemon, "--dead")
    assert queued | dead  # what was there when it stopped
    kept = endpoint.delivered.keys() | queued | dead
    assert accepted - kept == set()
    assert kept - sent == set()


def peeked(daemon: Daemon, *options: str) -> set[int]:
    """The numbers of the records in the files of a daemon that is gone."""
    command: list[str | Path] = [COMMAND, "queue", "peek", webhooks.NAME, "--state-dir", daemon.state]
    command += ["--bodies", "--limit", "10000000", *options]
    told = subprocess.run([*command, "-o", "json"], capture_output=True, check=True, timeout=ANSWER_SECONDS).stdout
    return {int(number) for number in endpoints.NUMBER.findall(told)}


def run_empty(daemon: Daemon) -> None:
    """Have everything sent, the dead letters too."""

    def is_empty() -> bool | None:
        now = webhooks.delivery(daemon)
        if now["deadLetters"]["batches"]:
            answer = daemon.request("POST", f"{webhooks.PATH}/replay")
            assert answer.status == 200, answer
            return None
        return not now["queue"]["batches"] or None

    daemons.until(is_empty, "everything is delivered", seconds=DRAIN_SECONDS)
    assert webhooks.delivery(daemon)["queue"]["quarantined"] == 0
