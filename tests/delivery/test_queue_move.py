"""`reconciler queue move` between real daemons: every record of the one is with the other, whoever is killed."""

import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import daemons
from tests.daemons import COMMAND, KEY, Daemon
from tests.delivery import endpoints, webhooks
from tests.delivery.endpoints import Endpoint, Mood

BIG = "x" * 2_000
SECONDS = 60.0


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with endpoints.endpoint(random.Random(1)) as listening:  # noqa: S311
        listening.mood = Mood.DOWN
        yield listening


def prepared(folder: Path, endpoint: Endpoint) -> tuple[Daemon, str]:
    """A daemon with the webhook, and a key that may send."""
    daemon = Daemon(folder).start()
    soon = {"retry_on_failure_initial_interval": 1, "retry_on_failure_max_interval": 1}
    return daemon, webhooks.deliver(daemon, endpoint.port, sending_queue_queue_size=100_000, **soon)


def fill(daemon: Daemon, key: str, *, requests: int, records: int) -> None:
    for number in range(requests):
        texts = [f"record {number * records + one} {BIG}" for one in range(records)]
        assert webhooks.post(daemon, key, [{"stringValue": text} for text in texts]).status == 200


def command(source: Daemon, target: Daemon, *options: str) -> list[str]:
    there = f"http://127.0.0.1:{target.port}"
    return [str(COMMAND), "queue", "move", "--from", str(source.state), "--to", there, "--api-key", KEY, *options]


def move(source: Daemon, target: Daemon, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(source, target, *options), capture_output=True, text=True, check=False, timeout=SECONDS
    )


def numbers(daemon: Daemon, *options: str) -> Counter[int]:
    """The records in the files of a daemon, each as often as it is there."""
    peek = [str(COMMAND), "queue", "peek", webhooks.NAME, "--state-dir", str(daemon.state), "--bodies", "-o", "json"]
    told = subprocess.run([*peek, "--limit", "1000000", *options], capture_output=True, check=False, timeout=SECONDS)
    assert told.returncode == 0 or b"there is no queue" in told.stderr, told.stderr
    return Counter(int(number) for number in endpoints.NUMBER.findall(told.stdout))


def size(daemon: Daemon) -> int:
    """The bytes of its queue files."""
    return sum(path.stat().st_size for path in (daemon.state / "queues").glob("*/*/*.seg"))


def begin_to_move(source: Daemon, target: Daemon) -> "subprocess.Popen[bytes]":
    """Start the command, and wait until something arrives or it ends."""
    before = size(target)
    moving = subprocess.Popen(command(source, target), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    daemons.until(lambda: size(target) > before or moving.poll() is not None or None, "it moves")
    return moving


def test_a_stopped_daemons_queue_becomes_that_of_another_one(tmp_path: Path, endpoint: Endpoint) -> None:
    source, key = prepared(tmp_path / "a", endpoint)
    target, _ = prepared(tmp_path / "b", endpoint)
    try:
        fill(source, key, requests=3, records=3)
        refused = move(source, target)
        assert refused.returncode == 1
        assert "uses the state directory" in refused.stderr
        source.stop()
        queued = numbers(source)
        assert queued == Counter(range(9))
        nobody = move(source, target, "other")
        assert (nobody.returncode, nobody.stdout, nobody.stderr) == (0, "", "there is no such queue\n")
        moved = move(source, target)
        assert (moved.returncode, moved.stderr) == (0, "")
        assert moved.stdout == "siem (default): 3 batches (9 records) moved\n"
        assert not [*(source.state / "queues").glob("*/*")]
        assert webhooks.delivery(target)["queue"]["records"] == 9
        endpoint.mood = Mood.WELL
        daemons.until(lambda: endpoint.delivered == queued or None, "all is delivered")
    finally:
        daemons.end(source)
        daemons.end(target)


def test_what_the_target_refuses_stays_and_is_told(tmp_path: Path, endpoint: Endpoint) -> None:
    source, key = prepared(tmp_path / "a", endpoint)
    target, _ = prepared(tmp_path / "b", endpoint)
    try:
        fill(source, key, requests=1, records=2)
        source.stop()
        refused = move(source, target, "--api-key", "wrong")
        assert refused.returncode == 1
        assert "siem (default): 0 batches (0 records) moved" in refused.stdout
        assert "1 batch left; the service does not accept the API key" in refused.stderr
        target.stop()
        gone = move(source, target)
        assert (gone.returncode, "cannot reach" in gone.stderr) == (1, True)
        assert numbers(source) == Counter(range(2))
    finally:
        daemons.end(source)
        daemons.end(target)


@pytest.mark.slow
def test_nothing_is_lost_when_the_command_or_the_target_is_killed_again_and_again(
    tmp_path: Path, endpoint: Endpoint
) -> None:
    chance = random.Random(20261128)  # noqa: S311
    source, key = prepared(tmp_path / "a", endpoint)
    target, _ = prepared(tmp_path / "b", endpoint)
    try:
        fill(source, key, requests=60, records=500)  # 60 MB
        source.stop()
        every = numbers(source)
        assert every == Counter(range(30_000))
        interrupted, target_kills = 0, 0
        while True:
            moving = begin_to_move(source, target)
            time.sleep(chance.uniform(0, 0.1))
            if interrupted % 2:
                moving.kill()
                moving.wait()
            else:
                target.kill()
                target_kills += 1
            if moving.wait(SECONDS) == 0:
                break
            interrupted += 1
            if target.process.poll() is not None:
                target.start()
        assert interrupted > 3
        assert not [*(source.state / "queues").glob("*/*")]
        target.stop()
        found = numbers(target)
        twice = sum(found.values()) - len(found)
        assert set(found) == set(every)
        assert twice <= target_kills * (4 << 20) // len(BIG) + 500 * target_kills  # a request for each kill
    finally:
        daemons.end(source)
        daemons.end(target)
