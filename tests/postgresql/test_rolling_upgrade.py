"""A rolling upgrade: replicas are replaced one after the other by a build with one more migration, under load."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.version import __version__
from tests import daemons
from tests.daemons import COMMAND
from tests.postgresql import builds, chaos_checks, chaos_load, clusters, servers
from tests.postgresql.chaos_checks import Report
from tests.postgresql.chaos_load import Loads, Source
from tests.postgresql.clusters import Cluster
from tests.postgresql.servers import Server
from tests.servers import sinks

pytestmark = pytest.mark.providers

REPOSITORIES = 3
MIXED_SECONDS = 30.0
REFUSED = 8  # requests at most, for each replica that is replaced


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return builds.later(tmp_path_factory.mktemp("later"))


@pytest.fixture
def server(shared_server: Server) -> Iterator[Server]:
    yield shared_server
    shared_server.drop(clusters.DATABASE)


def versions(cluster: Cluster) -> list[str]:
    return [str(one.get("/v1/version").body) for one in cluster.replicas]


def worker_reads(server: Server, table: str) -> bool:
    with server.admin(clusters.DATABASE) as connection:
        query = "select has_table_privilege(%s, %s, 'select')"
        return connection.execute(query, [servers.WORKER, table]).fetchone() == (True,)


def all_go_on(loads: Loads) -> None:
    """Wait until each client has done something more from beginning to end."""

    def done() -> list[int]:
        return [
            *(len(one.seconds) for one in loads.commits),
            *(len(one.acknowledged) for one in loads.applies),
            *(len(one.acknowledged) for one in loads.records),
            len(loads.sign_ins.cookies),
        ]

    before = done()
    daemons.until(
        lambda: all(now > then for now, then in zip(done(), before, strict=True)),
        "each client goes on",
        seconds=MIXED_SECONDS,
    )


def test_the_later_build_is_one(later: Path) -> None:
    told = subprocess.run([later, "version"], capture_output=True, text=True, timeout=60, check=True)
    assert builds.VERSION in told.stdout


def test_replicas_are_replaced_one_after_the_other_and_nobody_notices(
    server: Server, later: Path, tmp_path: Path
) -> None:
    sources = [Source(tmp_path, number=number) for number in range(REPOSITORIES)]
    repositories = [daemons.watched(one.project, one.repository.path, project=one.project) for one in sources]
    report = Report()
    with (
        sinks.listening() as sink,
        clusters.running(tmp_path, server=server, repositories=repositories) as cluster,
    ):
        loads = chaos_load.begin(cluster, sources, sink, sign_in_every=1.0)
        begun = time.monotonic()
        all_go_on(loads)
        cluster.replace(0, program=later)
        assert versions(cluster) == [builds.VERSION, __version__, __version__]
        all_go_on(loads)
        cluster.replace(1, program=COMMAND)  # one of the version before starts on the newer store, too
        all_go_on(loads)
        assert worker_reads(server, builds.READABLE)  # still, for the later one
        for number in (1, 2):
            cluster.replace(number, program=later)
            all_go_on(loads)
        assert versions(cluster) == [builds.VERSION] * 3
        report.add("seconds of the upgrade", f"{time.monotonic() - begun:.0f}")
        loads.end()
        chaos_checks.add_loads(report, loads, cluster)
        chaos_checks.check_versions(report, loads, cluster)
        chaos_checks.check_sessions(report, loads, cluster)
        chaos_checks.check_records(report, loads, sink)
        chaos_checks.check_audit(report, cluster)
    print(report.table())
    assert report.wrong == [], report.table()
    # A write of a connection that ends with its replica, and records before a replica knows its routes: nginx does not
    # send them again, their clients do.
    failed = loads.failed()
    assert {method for method, _, _ in failed} <= {"POST"}, report.table()
    assert failed.total() <= REFUSED * 4, report.table()
