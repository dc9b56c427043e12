"""Two replicas share sessions, keys, access and the revision: what one does, the other knows."""

import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import psycopg
import pytest

from tests import daemons
from tests.daemons import Answer, until
from tests.postgresql.replicas import Replica
from tests.postgresql.servers import Database
from tests.servers import processes

pytestmark = pytest.mark.providers

REMOVED_SECONDS = 2.0
PASSWORD = "canary-password-of-una-0123456789"
ROUNDS = 15
STOPPED_SECONDS = 4.0  # longer than what counts as contact


class Pair(NamedTuple):
    """Two replicas of one service."""

    one: Replica
    two: Replica


@pytest.fixture
def pair(tmp_path: Path, database: Database) -> Iterator[Pair]:
    started = Pair(*(Replica(name, tmp_path, database=database, port=processes.free_port()) for name in Pair._fields))
    try:
        for replica in started:
            replica.start()
        yield started
    finally:
        for replica in started:
            replica.kill()


def make_key(replica: Replica, name: str, **fields: Any) -> tuple[str, str]:
    """The id and the text of a new key."""
    answer = replica.post("/v1/api-keys", {"name": name, "role": "user", "project": "default", **fields})
    assert answer.status in (200, 201), answer.body
    return answer.body["apiKey"]["id"], answer.body["apiKey"]["key"]


def asked_with(replica: Replica, key: str, path: str = "/v1/resources/Destination") -> Answer:
    return replica.ask("GET", path, None, {"Authorization": f"Bearer {key}"})


def _is_refused(replica: Replica, key: str) -> bool | None:
    return asked_with(replica, key).status == 401 or None


def sign_in(replica: Replica) -> str:
    """The cookie of a new session."""
    form = urlencode({"name": "una", "password": PASSWORD, "back": "/"}).encode()
    origin = f"http://{replica.host}:{replica.port}"
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": origin}
    answer = replica.ask("POST", "/sign-in", form, headers)
    assert answer.status == 303
    return answer.headers["set-cookie"].partition(";")[0]


def browsed(replica: Replica, cookie: str) -> int:
    return replica.ask("GET", "/v1/resources/Destination", None, {"Cookie": cookie}).status


def make_una(replica: Replica) -> None:
    answer = replica.post("/v1/users", {"name": "una", "password": PASSWORD})
    assert answer.status in (200, 201), answer.body
    answer = replica.request("PUT", "/v1/projects/default/members/una", b'{"role": "user"}')
    assert answer.status in (200, 201, 204), answer.body


def test_a_key_that_one_made_opens_the_other_at_once_and_is_removed_everywhere(pair: Pair) -> None:
    for number in range(ROUNDS):
        made, key = make_key(pair.one, f"key-{number}")
        assert asked_with(pair.two, key).status == 200
        assert pair.two.delete(f"/v1/api-keys/{made}").status in (200, 204)
        assert asked_with(pair.two, key).status == 401
        removed = time.monotonic()
        until(partial(_is_refused, pair.one, key), "it is removed", seconds=REMOVED_SECONDS)
        assert time.monotonic() - removed < REMOVED_SECONDS


def test_a_person_and_a_session_are_known_to_both_at_once_and_end_on_both(pair: Pair) -> None:
    make_una(pair.one)
    cookie = sign_in(pair.two)
    assert (browsed(pair.one, cookie), browsed(pair.two, cookie)) == (200, 200)
    other = sign_in(pair.one)
    assert browsed(pair.two, other) == 200
    assert pair.one.delete("/v1/projects/default/members/una").status in (200, 204)
    assert browsed(pair.one, other) in (401, 404)
    until(lambda: browsed(pair.two, other) == 401 or None, "the session has ended", seconds=REMOVED_SECONDS)


def test_a_session_survives_the_death_of_its_replica(pair: Pair) -> None:
    make_una(pair.one)
    cookie = sign_in(pair.one)
    pair.one.kill()
    assert browsed(pair.two, cookie) == 200
    pair.one.start()
    assert browsed(pair.one, cookie) == 200


def test_attempts_with_unknown_keys_are_refused_without_asking_the_database_each_time(pair: Pair) -> None:
    made, _ = make_key(pair.one, "some")
    unknown = f"rck_{'a' * 12}_{'b' * 43}"
    ends: list[int] = []

    def attempt() -> None:
        for _ in range(20):
            ends.append(asked_with(pair.two, unknown).status)

    threads = [threading.Thread(target=attempt) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends == [401] * 160
    assert made


def test_a_client_that_sends_the_revision_back_never_reads_an_older_state(pair: Pair) -> None:
    """Writers on both replicas; readers alternate between them."""
    is_over = threading.Event()
    faults: list[str] = []
    reads = itertools.count()
    lock = threading.Lock()

    def write(replica: Replica, name: str) -> None:
        for number in range(ROUNDS):
            found = replica.apply(daemons.asked(name, f"{number} {os.urandom(4).hex()}"))
            assert found[0]["status"] in ("created", "configured"), found

    def read(name: str) -> None:
        revision, version = "0", 0
        for replica in itertools.cycle(pair):
            if is_over.is_set():
                return
            shown = {"Authorization": f"Bearer {replica.key}", "X-Revision": revision}
            answer = replica.ask("GET", f"/v1/resources/Destination/{name}", None, shown)
            found = answer.body["resource"]["metadata"]["version"] if answer.status == 200 else 0
            after = answer.headers["x-revision"]
            with lock:
                next(reads)
                if answer.status not in (200, 404) or found < version or int(after) < int(revision):
                    faults.append(f"{answer.status}: {found} after {version}, {after} after {revision}")
            revision, version = after, found

    readers = [threading.Thread(target=read, args=(name,)) for name in ("a", "b", "a", "b")]
    writers = [threading.Thread(target=write, args=one) for one in ((pair.one, "a"), (pair.two, "b"))]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    is_over.set()
    for thread in readers:
        thread.join()
    assert (faults, next(reads) > ROUNDS) == ([], True)


def test_what_one_wrote_the_other_shows_with_the_revision_of_the_answer(pair: Pair) -> None:
    for number in range(ROUNDS):
        writer, reader = (pair.one, pair.two) if number % 2 else (pair.two, pair.one)
        body = json.dumps({"resources": [daemons.asked("x", f"text {number}")]}).encode()
        written = writer.request("POST", "/v1/apply", body)
        shown = {"Authorization": f"Bearer {reader.key}", "X-Revision": written.headers["x-revision"]}
        answer = reader.ask("GET", "/v1/resources/Destination/x", None, shown)
        assert (answer.status, answer.body["resource"]["metadata"]["version"]) == (200, number + 1)


def test_a_replica_that_was_stopped_and_missed_changes_reads_everything_again(pair: Pair, database: Database) -> None:
    make_una(pair.one)
    removed, old = make_key(pair.one, "old")
    assert asked_with(pair.two, old).status == 200
    pair.one.apply(daemons.asked("kept", "before"))
    assert pair.two.get("/v1/resources/Destination/kept").status == 200
    os.kill(pair.two.process.pid, signal.SIGSTOP)
    try:
        assert pair.one.delete(f"/v1/api-keys/{removed}").status == 204
        _, new = make_key(pair.one, "new")
        cookie = sign_in(pair.one)
        pair.one.apply(daemons.asked("kept", "after"))
        with psycopg.connect(database.admin_url, autocommit=True) as admin:
            admin.execute("delete from notice")
        time.sleep(STOPPED_SECONDS)
    finally:
        os.kill(pair.two.process.pid, signal.SIGCONT)
    until(partial(_is_refused, pair.two, old), "the removed key is refused", seconds=REMOVED_SECONDS)
    until(lambda: pair.two.get("/readyz").status == 200 or None, "it is in contact again")
    assert (asked_with(pair.two, new).status, browsed(pair.two, cookie)) == (200, 200)
    found = pair.two.get("/v1/resources/Destination/kept").body["resource"]
    assert found["metadata"]["version"] == 2
    assert any("everything is read again" in line for line in pair.two.messages())
