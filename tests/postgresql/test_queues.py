"""Queues of several replicas: all of them in one answer, acted on where they are, and handed over by one that stops."""

import contextlib
import http.client
import json
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import daemons
from tests.daemons import COMMAND, KEY, Answer, Daemon
from tests.delivery import endpoints, webhooks
from tests.delivery.endpoints import Endpoint, Mood
from tests.postgresql.servers import Database
from tests.servers import processes

pytestmark = pytest.mark.providers

NAMES = ("replica-0", "replica-1", "replica-2")
LETTERS = f"{webhooks.PATH}/dead-letters"
SECONDS = 60.0
BIG = "x" * 4_000


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with endpoints.endpoint(random.Random(1)) as listening:  # noqa: S311
        listening.mood = Mood.DOWN
        yield listening


def replica(folder: Path, name: str, database: Database, **delivery: object) -> Daemon:
    """One replica, which has its address before it starts."""
    port = processes.free_port()
    return Daemon(
        folder / name,
        settings={
            "listen": f"127.0.0.1:{port}",
            "store": {"url": database.url, "workerUrl": database.worker_url},
            "replica": {"name": name, "url": f"http://127.0.0.1:{port}"},
            "delivery": {"drainTimeout": "10s", **delivery},
            "auth": {"type": "none"},
        },
    )


@contextlib.contextmanager
def running(folder: Path, database: Database, **delivery: object) -> Iterator[list[Daemon]]:
    replicas = [replica(folder, name, database, **delivery) for name in NAMES]
    try:
        for one in replicas:
            one.start()
        for one in replicas:
            daemons.until(partial(knows_all, one), "the replicas know each other")
        yield replicas
    finally:
        for one in replicas:
            daemons.end(one)


def knows_all(daemon: Daemon) -> bool | None:
    return known(daemon).keys() == set(NAMES) or None


def known(daemon: Daemon) -> dict[str, str | None]:
    """The instances in an answer, with their problems."""
    answer = daemon.get("/v1/deliveries")
    return {one["instance"]: one["problem"] for one in (answer.body or {}).get("instances", ())}


def prepare(replicas: list[Daemon], endpoint: Endpoint, **parameters: object) -> str:
    """Deliver from all of them; a key that may send."""
    soon = {"retry_on_failure_initial_interval": 1, "retry_on_failure_max_interval": 1, **parameters}
    key = webhooks.deliver(replicas[0], endpoint.port, sending_queue_queue_size=100_000, **soon)
    for one in replicas:
        daemons.until(partial(routed, one), "it has the routes")
    return key


def routed(daemon: Daemon) -> bool | None:
    answer = daemon.get(f"{webhooks.PATH}?instance={daemon.config.parent.name}")
    return (answer.status == 200 and bool(answer.body["delivery"]["configurations"])) or None


def send(daemon: Daemon, key: str, *numbers: int) -> None:
    answer = webhooks.post(daemon, key, [{"stringValue": f"record {number}"} for number in numbers])
    assert answer.status == 200, answer


def delivery(daemon: Daemon) -> dict[str, Any]:
    answer = daemon.get(webhooks.PATH)
    assert answer.status == 200, answer
    return dict(answer.body["delivery"])


def by_instance(daemon: Daemon) -> dict[str, int]:
    """The queued records of each instance."""
    parts = delivery(daemon)["instances"]
    return {one["instance"]: one["delivery"]["queue"]["records"] for one in parts}


def page(daemon: Daemon, path: str) -> str:
    """A page of the console, for a person of the replica's machine."""
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 200, text
        return text


def act(daemon: Daemon, action: str, body: object = None, query: str = "") -> Answer:
    content = b"" if body is None else json.dumps(body).encode()
    return daemon.request("POST", f"{webhooks.PATH}/{action}{query}", content)


def command(daemon: Daemon, *arguments: str) -> "subprocess.CompletedProcess[str]":
    server = ["--server", f"http://127.0.0.1:{daemon.port}", "--api-key", KEY]
    return subprocess.run(
        [COMMAND, "queue", *arguments, *server], capture_output=True, text=True, check=False, timeout=SECONDS
    )


def test_all_queues_are_in_one_answer_and_each_is_acted_on_where_it_is(
    tmp_path: Path, database: Database, endpoint: Endpoint
) -> None:
    with running(tmp_path, database) as replicas:
        key = prepare(replicas, endpoint)
        for number, one in enumerate(replicas):
            send(one, key, *range(number + 1))
        for one in replicas:
            assert known(one) == dict.fromkeys(NAMES)
            assert by_instance(one) == {"replica-0": 1, "replica-1": 2, "replica-2": 3}
            assert delivery(one)["queue"]["records"] == 6
        table = command(replicas[1], "status").stdout
        assert [line.split()[:2] for line in table.splitlines()[:4]] == [
            ["DESTINATION", "INSTANCE"],
            *(["siem", name] for name in NAMES),
        ]

        def discarded() -> bool:
            # A batch that is being sent at this moment stays.
            assert act(replicas[0], "discard", {"what": "queue"}, "?instance=replica-2").status == 200
            return by_instance(replicas[1])["replica-2"] < 3

        daemons.until(discarded, "that one alone is discarded")
        assert [by_instance(replicas[1])[name] for name in NAMES[:2]] == [1, 2]

        replicas[2].process.send_signal(signal.SIGSTOP)
        try:
            problem = known(replicas[0])["replica-2"]
            assert problem is not None
            assert problem.startswith("The replica replica-2")
            assert set(by_instance(replicas[0])) == {"replica-0", "replica-1"}
            for path in ("/", "/delivery", f"/delivery/default/{webhooks.NAME}", "/problems"):
                assert "The replica replica-2 did not answer in time" in page(replicas[0], path)
            told = command(replicas[0], "status")
            assert "replica-2 is missing: The replica replica-2" in told.stderr
        finally:
            replicas[2].process.send_signal(signal.SIGCONT)
        daemons.until(lambda: known(replicas[0]) == dict.fromkeys(NAMES) or None, "it is back")
        replicas[2].kill()
        assert known(replicas[0])["replica-2"] is not None
        endpoint.mood = Mood.WELL
        replicas[2].start()
        daemons.until(lambda: sum(by_instance(replicas[0]).values()) == 0 or None, "all is delivered")


def test_dead_letters_say_their_instance_and_are_replayed_there(
    tmp_path: Path, database: Database, endpoint: Endpoint
) -> None:
    endpoint.says = 422, "no"
    with running(tmp_path, database) as replicas:
        key = prepare(replicas, endpoint, retry_on_failure_enabled=False)
        for number, one in enumerate(replicas):
            send(one, key, number)
        daemons.until(lambda: delivery(replicas[0])["deadLetters"]["batches"] == len(NAMES) or None, "all are dead")
        letters = replicas[0].get(LETTERS).body["deadLetters"]
        assert sorted(one["instance"] for one in letters) == [*NAMES]
        endpoint.says, endpoint.mood = None, Mood.WELL
        assert all(f"on {name}" in page(replicas[0], f"/delivery/default/{webhooks.NAME}") for name in NAMES)
        chosen = next(one for one in letters if one["instance"] == "replica-1")
        assert act(replicas[0], "replay", {"batch": chosen["id"]}).body == {"replayed": {"batches": 1, "records": 1}}
        daemons.until(lambda: endpoint.delivered == Counter([1]) or None, "that one is delivered")
        answer = act(replicas[2], "replay")
        assert answer.body["replayed"] == {"batches": 2, "records": 2}
        assert [one["instance"] for one in answer.body["instances"]] == [*NAMES]
        daemons.until(lambda: endpoint.delivered == Counter(range(3)) or None, "all are delivered")
        assert act(replicas[0], "test").body["test"]["delivered"] is True
        events = replicas[0].get("/v1/audit-events?project=default").body["events"]
        assert sum(one["action"] == "replayed" for one in events) == 3


def test_a_replica_that_stops_hands_its_queue_over_and_nothing_is_lost(
    tmp_path: Path, database: Database, endpoint: Endpoint
) -> None:
    with running(tmp_path, database, handOver=True) as replicas:
        key = prepare(replicas, endpoint)
        for number in range(20):
            send(replicas[0], key, *range(number * 10, number * 10 + 10))
        assert by_instance(replicas[1]) == {"replica-0": 200, "replica-1": 0, "replica-2": 0}
        assert replicas[0].stop() == 0
        assert not [*(replicas[0].state / "queues").glob("*/*/*.seg")] or peeked(replicas[0]) == Counter()
        daemons.until(lambda: sum(by_instance(replicas[1]).values()) == 200 or None, "others have it")
        daemons.until(lambda: "replica-0" not in known(replicas[1]) or None, "it left")
        endpoint.mood = Mood.WELL
        daemons.until(lambda: set(endpoint.delivered) == set(range(200)) or None, "all is delivered")


def test_nothing_is_lost_when_a_replica_is_killed_that_takes_over(
    tmp_path: Path, database: Database, endpoint: Endpoint
) -> None:
    with running(tmp_path, database, handOver=True) as replicas:
        key = prepare(replicas, endpoint)
        for number in range(200):
            bodies = [{"stringValue": f"record {number * 20 + one} {BIG}"} for one in range(20)]
            assert webhooks.post(replicas[0], key, bodies).status == 200
        replicas[0].process.send_signal(signal.SIGTERM)
        daemons.until(lambda: size(replicas[1]) > 1_000 or None, "it hands over")
        replicas[1].kill()
        assert replicas[0].stop(seconds=SECONDS) == 0
        kept = [peeked(one) for one in replicas]
        assert set().union(*kept) | set(endpoint.delivered) == set(range(4_000))
        assert "Of the queue of siem in the project default, another instance has" in replicas[0].output()


def size(daemon: Daemon) -> int:
    """The bytes of its queue files."""
    return sum(path.stat().st_size for path in (daemon.state / "queues").glob("*/*/*.seg"))


def test_without_other_replicas_the_queue_stays(tmp_path: Path, database: Database, endpoint: Endpoint) -> None:
    alone = replica(tmp_path, NAMES[0], database, handOver=True)
    try:
        alone.start()
        key = prepare([alone], endpoint)
        send(alone, key, 1, 2, 3)
        assert alone.stop() == 0
        assert "stays on this disk" in alone.output()
        assert peeked(alone) == Counter([1, 2, 3])
    finally:
        daemons.end(alone)


def peeked(daemon: Daemon) -> Counter[int]:
    """The records in the files of a replica."""
    peek = [str(COMMAND), "queue", "peek", webhooks.NAME, "--state-dir", str(daemon.state), "--bodies", "-o", "json"]
    peek += ["--limit", "1000000"]
    told = subprocess.run(peek, capture_output=True, check=False, timeout=SECONDS).stdout
    return Counter(int(number) for number in endpoints.NUMBER.findall(told))


def test_what_a_dead_replica_left_is_moved_to_a_living_one(
    tmp_path: Path, database: Database, endpoint: Endpoint
) -> None:
    with running(tmp_path, database) as replicas:
        key = prepare(replicas, endpoint)
        send(replicas[0], key, *range(30))
        replicas[0].kill()
        there = f"http://127.0.0.1:{replicas[1].port}"
        move = [str(COMMAND), "queue", "move", "--from", str(replicas[0].state), "--to", there, "--api-key", KEY]
        moved = subprocess.run(move, capture_output=True, text=True, check=False, timeout=SECONDS)
        assert (moved.returncode, moved.stderr) == (0, "")
        assert by_instance(replicas[2])["replica-1"] == 30
        endpoint.mood = Mood.WELL
        daemons.until(lambda: set(endpoint.delivered) == set(range(30)) or None, "all is delivered")
        assert json.dumps(known(replicas[1])["replica-0"])
