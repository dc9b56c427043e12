"""A replica that cannot reach the database stops writing at once, and serving within half a minute."""

import contextlib
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import daemons
from tests.daemons import Answer, Daemon, until
from tests.postgresql.replicas import Replica
from tests.postgresql.servers import Server
from tests.repositories import Repository
from tests.servers import processes, relays

pytestmark = pytest.mark.providers

PROMPT_SECONDS = 5.0  # a check each second, two seconds for its answer, and a slow machine
WELL_SECONDS = 15.0
STALE_SECONDS = 30.0
PATHS = (
    "/v1/resources/Destination/kept",
    "/v1/resources/Destination",
    "/v1/repositories",
    "/v1/api/notifications",
    "/v1/deliveries",
)


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server of one test, which it stops."""
    server = Server()
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture
def replica(tmp_path: Path, own_server: Server) -> Iterator[Replica]:
    database = own_server.database("estate")
    source = Repository.init(tmp_path / "source")
    source.write("followed.yaml", daemons.destination("followed"))
    commit = source.commit()
    repositories = [daemons.watched("telemetry", source.path)]
    replica = Replica("one", tmp_path, database=database, port=processes.free_port(), repositories=repositories)
    try:
        replica.start()
        replica.run_of("telemetry", commit)
        replica.apply(daemons.asked("kept"), daemons.asked("unread"))
        fill_memory(replica)
        yield replica
    finally:
        replica.kill()


def fill_memory(replica: Replica) -> None:
    """Ask for what the replica answers without contact only if it was asked before."""
    for path in PATHS:
        assert (path, replica.get(path).status) == (path, 200)


def timed(daemon: Daemon, method: str, path: str, body: bytes | None = None) -> tuple[Answer, float]:
    begun = time.monotonic()
    return daemon.request(method, path, body), time.monotonic() - begun


def lose(replica: Replica) -> None:
    """Wait until the replica knows that there is no contact."""
    until(lambda: replica.get("/readyz").status == 503 or None, "it is not ready", seconds=PROMPT_SECONDS)


def recover(replica: Replica) -> None:
    until(lambda: replica.get("/readyz").status == 200 or None, "it is ready again", seconds=WELL_SECONDS)
    assert replica.apply(daemons.asked("after"))[0]["status"] in ("created", "unchanged")
    answer = replica.get("/v1/resources/Destination")
    assert (answer.status, "x-stale" in answer.headers) == (200, False)


def check_stale(replica: Replica) -> None:
    """Check that memory is served and marked, and that other reads and every write fail at once with a sentence."""
    for path in PATHS:
        answer, seconds = timed(replica, "GET", path)
        assert (path, answer.status, int(answer.headers["x-stale"]) < STALE_SECONDS) == (path, 200, True)
        assert seconds < 1
    listed = [one["metadata"]["name"] for one in replica.get("/v1/resources/Destination").body["resources"]]
    assert listed in (["followed", "kept", "unread"], ["kept", "unread"])
    assert [one["state"] for one in replica.get("/v1/repositories").body["repositories"]] in ([], ["ready"])
    body = json.dumps({"resources": [daemons.asked("new")]}).encode()
    for method, path, sent in [
        ("POST", "/v1/apply", body),
        ("GET", "/v1/resources/Destination/unread", None),
        ("GET", "/v1/resources/Destination?limit=1", None),
        ("GET", "/v1/resources/Processor", None),
        ("GET", "/v1/audit-events", None),
    ]:
        answer, seconds = timed(replica, method, path, sent)
        assert (path, answer.status, answer.body["codes"]) == (path, 503, ["store-unavailable"])
        assert answer.body["errors"][0].startswith("PostgreSQL does not answer this replica")
        assert "retry-after" in answer.headers
        assert seconds < 3


def test_a_server_that_crashes_stops_writes_at_once_and_all_is_well_afterwards(
    replica: Replica, own_server: Server
) -> None:
    own_server.stop("immediate")
    lose(replica)
    check_stale(replica)
    own_server.start()
    recover(replica)


def test_a_server_that_hangs_is_as_good_as_gone(replica: Replica, own_server: Server) -> None:
    own_server.signal(signal.SIGSTOP)
    try:
        answer, seconds = timed(replica, "GET", "/v1/resources/Destination/unread")  # it waits, but not long
        assert (answer.status, seconds < PROMPT_SECONDS) == (503, True)
        lose(replica)
        check_stale(replica)
    finally:
        own_server.signal(signal.SIGCONT)
    recover(replica)


@pytest.mark.slow
def test_after_half_a_minute_nothing_is_served_and_everything_after_the_contact(
    replica: Replica, own_server: Server
) -> None:
    begun = time.monotonic()
    own_server.stop("immediate")
    lose(replica)
    path = PATHS[0]
    until(lambda: replica.get(path).status == 503 or None, "nothing is served", seconds=STALE_SECONDS + 5)
    assert STALE_SECONDS - 2 < time.monotonic() - begun < STALE_SECONDS + 3
    for method, asked in [("GET", one) for one in (*PATHS, "/v1/version", "/openapi.json")] + [("POST", "/v1/logs")]:
        answer = replica.request(method, asked, b"{}" if method == "POST" else None)
        assert (asked, answer.status) == (asked, 503)
        assert "has not reached the database for" in str(answer.body)
    shown = {"Authorization": f"Bearer {replica.key}"}
    always = [replica.status("GET", one, None, shown) for one in ("/livez", "/readyz", "/metrics")]
    assert always == [200, 503, 200]
    own_server.start()
    recover(replica)
    assert replica.get(path).status == 200


def test_a_network_that_swallows_everything_is_as_good_as_none(tmp_path: Path) -> None:
    server = Server(tcp=True)
    with contextlib.ExitStack() as opened:
        opened.callback(server.remove)
        database = server.start().database("estate")
        relay = opened.enter_context(relays.relayed(server.port))
        through = database._replace(
            url=database.url.replace(str(server.port), str(relay.port)),
            worker_url=database.worker_url.replace(str(server.port), str(relay.port)),
        )
        replica = Replica("one", tmp_path, database=through, port=processes.free_port())
        opened.callback(replica.kill)
        replica.start()
        replica.apply(daemons.asked("kept"), daemons.asked("unread"))
        fill_memory(replica)
        relay.swallow()
        answer, seconds = timed(replica, "GET", "/v1/resources/Destination/unread")
        assert (answer.status, seconds < PROMPT_SECONDS) == (503, True)
        lose(replica)
        check_stale(replica)
        relay.pass_on()
        recover(replica)
