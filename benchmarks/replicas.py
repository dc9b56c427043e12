"""PostgreSQL beside SQLite, and three replicas: what they cost, and how long a failure or a removed key is felt.

The server is a real one, on this machine's disk, with `fsync`. Both engines run by turns, each with one daemon.
"""

import contextlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from benchmarks import corpus, delivery_pacing, one_change, processes
from benchmarks.asking import Connection
from benchmarks.daemons import Daemon, resource, until_read
from benchmarks.figures import Figure
from tests import daemons
from tests.postgresql import chaos_checks, clusters
from tests.postgresql.chaos_faults import TakeOvers
from tests.postgresql.clusters import Cluster
from tests.postgresql.servers import Server

APPLY_LIMIT, GET_LIMIT = 5.0, 3.0  # times SQLite's
CHANGE_LIMIT_MS = 1_000.0
IDLE_LIMIT_PERCENT = 10.0  # of one core, three replicas together
TAKE_OVER_LIMIT, REVOKED_LIMIT = 60.0, 2.0  # seconds
ROUNDS = 3
FILES, REQUESTS = 1_000, 3_000  # of GET one
REPOSITORIES, INTERVAL, SETTLE_SECONDS = 20, "60s", 30.0
KILLS, KEYS = 5, 10
HELD_SECONDS = 30.0
JSON = "application/json"


def measure(*, resources: int, files: int, seconds: float) -> list[Figure]:
    """All of it; `resources` are applied at once, `files` are in the repository of which one changes."""
    # Not in memory, as for tests: the disk is part of it.
    os.environ.setdefault("POSTGRESQL_TESTS", tempfile.gettempdir())
    server = Server().start()
    try:
        return [
            _applied(server, resources=resources),
            _changed(server, files=files),
            *_got(server),
            *_replicas(server, seconds=seconds),
        ]
    finally:
        server.remove()


def _engines(server: Server, name: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield each engine with its settings; PostgreSQL's has a fresh database."""
    yield "SQLite", {}
    database = server.database(name)
    yield "PostgreSQL", {"store": {"url": database.url, "workerUrl": database.worker_url}}


@contextlib.contextmanager
def _both(server: Server, name: str, repository: Path | None = None) -> Iterator[tuple[Daemon, Daemon]]:
    """A daemon on SQLite and one on PostgreSQL."""
    with tempfile.TemporaryDirectory() as temporary, contextlib.ExitStack() as stack:
        watched = [] if repository is None else [daemons.watched("bench", repository)]
        sqlite, postgresql = (
            stack.enter_context(
                daemons.running(Path(temporary) / engine, repositories=watched, settings=settings, is_started=True)
            )
            for engine, settings in _engines(server, name)
        )
        yield sqlite, postgresql


def _applied(server: Server, *, resources: int) -> Figure:
    """Apply so many new resources at once, by turns."""
    times: list[tuple[float, float]] = []
    with _both(server, "applied") as both:
        for number in range(ROUNDS):
            body = {"resources": [resource(f"r{number}-{one:06d}", "first") for one in range(resources)]}
            sqlite, postgresql = (_seconds_of_apply(one, body) for one in both)
            times.append((sqlite, postgresql))
    sqlite, postgresql = (statistics.median(one) for one in zip(*times, strict=True))
    ratio = statistics.median(ours / other for other, ours in times)
    return Figure(
        f"apply of {resources:,} resources, PostgreSQL",
        f"{postgresql:.2f} s",
        f"limit {APPLY_LIMIT:g} times SQLite's, {sqlite:.2f} s",
        f"{ratio / APPLY_LIMIT:.2f}",
    )


def _seconds_of_apply(running: Daemon, body: object) -> float:
    text = json.dumps(body).encode()
    request = delivery_pacing.request("POST", "/v1/apply", key=running.key, body=text, content_type=JSON)
    with Connection(running.port) as connection:
        begun = time.perf_counter()
        answer = connection.ask(request)
        seconds = time.perf_counter() - begun
    if answer.status != 202 or b'"created"' not in answer.body:
        raise RuntimeError(f"nothing was created: {answer.head.decode()}")
    return seconds


def _changed(server: Server, *, files: int) -> Figure:
    database = server.database("changed")
    settings = {"store": {"url": database.url, "workerUrl": database.worker_url}}
    times = one_change.times(files=files, settings=settings)
    return Figure(
        f"one file of {files:,} changed, PostgreSQL, 95th percentile of {one_change.COMMITS}",
        f"{times.p95:.0f} ms, median {times.p50:.0f} ms",
        f"limit {CHANGE_LIMIT_MS:.0f} ms",
        f"{times.p95 / CHANGE_LIMIT_MS:.2f}",
    )


def _got(server: Server) -> list[Figure]:
    """GET the same resource again and again, and each of many in turn; on one connection, by turns."""
    with tempfile.TemporaryDirectory() as temporary:
        repository = Path(temporary) / "corpus.git"
        corpus.make(repository, files=FILES)
        with _both(server, "got", repository) as both:
            for one in both:
                until_read(one, files=FILES)
            return [
                _got_of("the same one", both, [FILES // 2]),
                _got_of(f"{FILES:,} in turn", both, list(range(FILES))),
            ]


def _got_of(what: str, both: tuple[Daemon, Daemon], numbers: list[int]) -> Figure:
    rounds = [[_seconds_of_get(one, numbers) for one in both] for _ in range(ROUNDS)]
    sqlite, postgresql = (statistics.median(one) * 1e6 for one in zip(*rounds, strict=True))
    ratio = statistics.median(ours / other for other, ours in rounds)
    return Figure(
        f"GET one, {what}, PostgreSQL",
        f"{postgresql:.0f} µs",
        f"limit {GET_LIMIT:g} times SQLite's, {sqlite:.0f} µs",
        f"{ratio / GET_LIMIT:.2f}",
    )


def _seconds_of_get(running: Daemon, numbers: list[int]) -> float:
    requests = [
        delivery_pacing.request("GET", f"/v1/resources/Destination/{corpus.name(number)}", key=running.key)
        for number in numbers
    ]
    with Connection(running.port) as connection:
        for request in requests[:100]:
            connection.ask(request)
        begun = time.perf_counter()
        for number in range(REQUESTS):
            if connection.ask(requests[number % len(requests)]).status != 200:
                raise RuntimeError("a resource is not there")
        return (time.perf_counter() - begun) / REQUESTS


def _replicas(server: Server, *, seconds: float) -> list[Figure]:
    """Three replicas behind nginx that follow twenty repositories: idle, then killed."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        names = [f"r{number:02d}" for number in range(REPOSITORIES)]
        for name in names:
            corpus.make(folder / f"{name}.git", files=10)
        watched = [
            daemons.watched(name, folder / f"{name}.git", interval=INTERVAL, project=f"p-{name}") for name in names
        ]
        with clusters.running(folder / "cluster", server=server, repositories=watched) as cluster:
            for name in names:
                until_read(cluster.replicas[0], name, files=10)
            time.sleep(SETTLE_SECONDS)
            return [
                *_idle(cluster, server, seconds=seconds),
                _most("a key removed, until each of three replicas refuses it", _revoked(cluster), REVOKED_LIMIT),
                _most(
                    "a replica killed, until others hold its repositories",
                    _taken_over(cluster, server),
                    TAKE_OVER_LIMIT,
                ),
            ]


def _idle(cluster: Cluster, server: Server, *, seconds: float) -> list[Figure]:
    members = [one.process.pid for one in cluster.replicas]

    def used() -> tuple[float, float]:
        return sum(map(processes.cpu_seconds, members)), processes.cpu_seconds(server.process_id)

    before, begun = used(), time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - begun
    ours, servers = (100 * (now - then) / passed for now, then in zip(used(), before, strict=True))
    memory = sum(processes.pss_mb_of_all(processes.family(one)) for one in members)
    what = f"three idle replicas with {REPOSITORIES} repositories at {INTERVAL}"
    return [
        Figure(
            f"{what}, CPU over {seconds:.0f} s",
            f"{ours:.1f} % of a core",
            f"limit {IDLE_LIMIT_PERCENT:g} %; their PostgreSQL {servers:.1f} %",
            f"{ours / IDLE_LIMIT_PERCENT:.2f}",
        ),
        Figure(f"{what}, memory", f"{memory:.0f} MB", "all their processes", "-"),
        Figure(f"{what}, connections of PostgreSQL", str(_connections(server)), "no limit", "-"),
    ]


def _connections(server: Server) -> int:
    with server.admin() as connection:
        query = "select count(*) from pg_stat_activity where datname = %s"
        (number,) = connection.execute(query, [clusters.DATABASE]).fetchone() or (0,)
        return int(number)


def _revoked(cluster: Cluster) -> list[float]:
    return chaos_checks.revoked(cluster, KEYS)


def _taken_over(cluster: Cluster, server: Server) -> list[float]:
    """Kill a replica, wait until all that it held has another holder, and start it again; several times."""
    watch = TakeOvers(server)
    watch.start()
    try:
        for number in range(KILLS):
            which = number % len(cluster.replicas)
            daemons.until(partial(watch.holds, clusters.name(which)), "it holds some", seconds=HELD_SECONDS)
            cluster.replicas[which].kill()
            watch.gone(clusters.name(which))
            daemons.until(lambda: not watch.open(), "all has another holder", seconds=2 * TAKE_OVER_LIMIT)
            cluster.replicas[which].start()
            cluster.until_ready()
    finally:
        watch.end()
    return watch.seconds


def _most(what: str, seconds: list[float], limit: float) -> Figure:
    most, middle = max(seconds), statistics.median(seconds)
    beside = f"limit {limit:g} s; median {middle:.2f} s of {len(seconds)}"
    return Figure(what, f"{most:.2f} s", beside, f"{most / limit:.2f}")
