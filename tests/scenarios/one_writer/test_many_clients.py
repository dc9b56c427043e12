"""Fifty clients and Git change the same resources at once: every acknowledged version is in the history, once, without
a gap.
"""

import contextlib
import itertools
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import daemons
from tests.daemons import ANSWER_SECONDS, Daemon, asked, destination, watched
from tests.repositories import Repository
from tests.scenarios.one_writer import stored

SEED = 20261124
CLIENTS, KEYS = 50, 5  # one key may have 32 requests under way
SHARED = [f"shared-{number}" for number in range(20)]  # Git holds some of them in each commit
FROM_GIT = [f"git-{number}" for number in range(20)]
MOST_RESOURCES = 6  # of a request
STORED = ("created", "configured")
SETTLED_SECONDS = 60.0


class Acknowledged(NamedTuple):
    """A version as an answer tells it."""

    name: str
    version: int
    description: str


class Client:
    """Applies resources that others apply too, and now and then deletes some."""

    def __init__(self, daemon: Daemon, number: int, *, key: str) -> None:
        self._daemon, self._number, self._key = daemon, number, key
        self._chance = random.Random(SEED + number)  # noqa: S311 - names, no secret
        self.acknowledged: list[Acknowledged] = []
        self.statuses: Counter[str] = Counter()
        self.faults: list[object] = []

    def run(self, requests: int) -> None:
        """Send so many, one after the other, on one connection."""
        with contextlib.closing(HTTPConnection(self._daemon.host, self._daemon.port, timeout=ANSWER_SECONDS)) as one:
            for request in range(requests):
                names = self._chance.sample(SHARED, self._chance.randint(1, MOST_RESOURCES))
                deletes = self._chance.random() < 0.1
                resources = [asked(name, f"client {self._number} request {request}") for name in names]
                while not self._is_done(one, "delete" if deletes else "apply", resources):
                    pass

    def _is_done(self, connection: HTTPConnection, verb: str, resources: list[dict[str, Any]]) -> bool:
        """Send it once. False: it is to be sent again."""
        body = json.dumps({"resources": resources})
        connection.request("POST", f"/v1/{verb}", body, {"Authorization": f"Bearer {self._key}"})
        answer = connection.getresponse()
        told = json.loads(answer.read())
        if answer.status == 503 and "Retry-After" in answer.headers:
            self.statuses["busy"] += 1
            time.sleep(float(answer.headers["Retry-After"]))
            return False
        if answer.status != 202:
            self.faults.append((answer.status, told))
            return True
        for update in told["updates"]:
            self.statuses[update["status"]] += 1
            if update["status"] in STORED:
                metadata = update["resource"]["metadata"]
                self.acknowledged.append(Acknowledged(metadata["name"], metadata["version"], metadata["description"]))
        return True


class Git:
    """Commits that each hold every other resource of Git's own, and some of those that clients apply."""

    def __init__(self, folder: Path) -> None:
        self.source = Repository.init(folder)
        self._chance = random.Random(SEED)  # noqa: S311 - names, no secret
        self._number = itertools.count()
        self.held: dict[str, str] = {}  # what the latest commit holds: descriptions

    def commit(self) -> None:
        number = next(self._number)
        names = [*FROM_GIT[number % 2 :: 2], *self._chance.sample(SHARED, len(SHARED) // 4)]
        self.held = dict.fromkeys(names, f"commit {number}")
        for name in (*FROM_GIT, *SHARED):
            if name in self.held:
                self.source.write(f"{name}.yaml", destination(name, self.held[name]))
            else:
                (self.source.path / f"{name}.yaml").unlink(missing_ok=True)
        self.source.commit()


@contextlib.contextmanager
def sending(clients: list[Client], *, requests: int) -> Iterator[list[threading.Thread]]:
    """All clients at once; their requests are done when this ends."""
    threads = [threading.Thread(target=client.run, args=(requests,)) for client in clients]
    for thread in threads:
        thread.start()
    try:
        yield threads
    finally:
        for thread in threads:
            thread.join()


def keys(daemon: Daemon) -> list[str]:
    """Keys that may apply."""
    made = [
        daemon.post("/v1/api-keys", {"name": f"client-{number}", "role": "admin"}, project="default")
        for number in range(KEYS)
    ]
    return [str(answer.body["apiKey"]["key"]) for answer in made]


def check_history(daemon: Daemon, acknowledged: list[Acknowledged]) -> None:
    """Every acknowledged version is in the history as it was told, and no version was told twice."""
    histories = {
        name: {
            one["metadata"]["version"]: one["metadata"]["description"] for one in daemon.history("Destination", name)
        }
        for name in (*SHARED, *FROM_GIT)
    }
    for name, versions in histories.items():
        assert list(versions) == list(range(len(versions), 0, -1)), name
    assert max(Counter((one.name, one.version) for one in acknowledged).values()) == 1
    lost = [one for one in acknowledged if histories[one.name].get(one.version) != one.description]
    assert lost == []


def check_resources(daemon: Daemon, git: Git) -> None:
    """Git's are as its latest commit holds them."""
    found = {one["metadata"]["name"]: one for one in daemon.resources("Destination")}
    from_git = {
        name: one["metadata"]["description"] for name, one in found.items() if one["status"]["source"]["type"] == "git"
    }
    assert from_git == git.held


def write_at_once(folder: Path, *, requests: int) -> None:
    git = Git(folder / "source")
    git.commit()
    followed = watched("one", git.source.path, interval="1h", prune={"maxPercent": 100})
    with daemons.running(folder / "daemon", repositories=[followed], has_real_reader=True) as daemon:
        made = keys(daemon)
        clients = [Client(daemon, number, key=made[number % KEYS]) for number in range(CLIENTS)]
        with sending(clients, requests=requests) as threads:
            while any(thread.is_alive() for thread in threads):
                git.commit()
                time.sleep(0.05)
        head = git.source.head()
        daemons.until(lambda: daemon.repository("one")["commit"] == head, "it is applied", seconds=SETTLED_SECONDS)
        assert [fault for client in clients for fault in client.faults] == []
        check_history(daemon, [one for client in clients for one in client.acknowledged])
        check_resources(daemon, git)
        assert daemon.complaints() == []
        runs = daemon.runs("one")
        assert {run["outcome"] for run in runs} == {"succeeded"}
        assert daemon.stop() == 0
    statuses = sum((client.statuses for client in clients), Counter[str]())
    assert {"created", "configured", "deleted", "forbidden"} <= statuses.keys(), statuses
    stored.check(daemon, git.source, repository="one")
    stored.check_whole(daemon)


def test_fifty_clients_and_git_lose_nothing(tmp_path: Path) -> None:
    write_at_once(tmp_path, requests=2)


@pytest.mark.slow
def test_fifty_clients_and_git_lose_nothing_for_long(tmp_path: Path) -> None:
    write_at_once(tmp_path, requests=100)
