"""Replicas behind nginx, on a real PostgreSQL and under load, while processes are killed: nothing acknowledged is lost.

`python -m tests.postgresql.chaos` takes about twelve minutes and prints a table; `--kills`, `--seconds` and others make
it shorter. With `--sqlite` there is one daemon on SQLite, to see that the load and the checks are right.
"""

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests import daemons
from tests.postgresql import chaos_checks, chaos_load, clusters
from tests.postgresql.chaos_checks import Report
from tests.postgresql.chaos_faults import Faults, Plan, Supervisor, TakeOvers
from tests.postgresql.chaos_load import Source
from tests.postgresql.clusters import Cluster
from tests.postgresql.servers import Server
from tests.servers import sinks

FULL = Plan(kills=100, restarts=10, stops=3, seconds=600.0, stop_seconds=30.0)
REPOSITORIES = 5
TAKE_OVER_LIMIT = 60.0  # seconds
REVOKED_KEYS = 5
CALM_SECONDS = 3.0


def run(folder: Path, plan: Plan, *, server: Server | None) -> Report:
    """Do the faults of a plan under load; what was found."""
    sources = [Source(folder, number=number) for number in range(REPOSITORIES)]
    repositories = [daemons.watched(one.project, one.repository.path, project=one.project) for one in sources]
    report = Report()
    with (
        sinks.listening() as sink,
        clusters.running(folder, server=server, repositories=repositories) as cluster,
    ):
        loads = chaos_load.begin(cluster, sources, sink, sign_in_every=plan.seconds / 200)
        begun = time.monotonic()
        with _faults(cluster, plan) as faults:
            faults.run()
            report.add("seconds of faults", f"{time.monotonic() - begun:.0f}")
            cluster.until_ready()
        time.sleep(CALM_SECONDS)
        loads.end()
        _add_faults(report, faults)
        chaos_checks.add_loads(report, loads, cluster)
        chaos_checks.check_versions(report, loads, cluster)
        chaos_checks.check_sessions(report, loads, cluster)
        chaos_checks.check_records(report, loads, sink)
        chaos_checks.check_audit(report, cluster)
        report.limited(
            "a removed key, until each replica refuses it",
            chaos_checks.revoked(cluster, REVOKED_KEYS),
            chaos_checks.REVOKED_LIMIT,
        )
    return report


@contextlib.contextmanager
def _faults(cluster: Cluster, plan: Plan) -> Iterator[Faults]:
    supervisor = Supervisor(cluster, seed=plan.seed)
    take_overs = None if cluster.server is None else TakeOvers(cluster.server)
    supervisor.start()
    if take_overs is not None:
        take_overs.start()
    try:
        yield Faults(cluster, supervisor, take_overs, plan)
        if take_overs is not None:
            with contextlib.suppress(AssertionError):  # the report says so
                daemons.until(lambda: not take_overs.open(), "all is taken over", seconds=TAKE_OVER_LIMIT)
    finally:
        supervisor.end()
        if take_overs is not None:
            take_overs.end()


def _add_faults(report: Report, faults: Faults) -> None:
    report.add("kills -9 of random replicas", faults.done["kill"])
    report.add("restarts of PostgreSQL, fast and immediate", faults.done["restart"])
    report.add(f"SIGSTOPs of {faults.plan.stop_seconds:g} s", faults.done["stop"])
    ended = faults.supervisor.by_themselves
    report.add("replicas that ended by themselves", len(ended), "; ".join(sorted(set(ended))[:3])[:300])
    if faults.take_overs is not None:
        seconds = faults.take_overs.seconds
        report.limited("a repository without a living holder", seconds, TAKE_OVER_LIMIT)
        report.add("connections of PostgreSQL, at most", faults.take_overs.most_connections)
        report.wrong += [f"nobody took over {name}" for name in faults.take_overs.open()]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.postgresql.chaos", description=__doc__)
    for name in ("kills", "restarts", "stops"):
        parser.add_argument(f"--{name}", type=int, default=getattr(FULL, name))
    for name in ("seconds", "stop-seconds"):
        parser.add_argument(f"--{name}", type=float, default=getattr(FULL, name.replace("-", "_")))
    parser.add_argument("--seed", type=int, default=FULL.seed)
    parser.add_argument("--sqlite", action="store_true", help="one daemon on SQLite")
    arguments = vars(parser.parse_args())
    server = None if arguments.pop("sqlite") else Server()
    try:
        with tempfile.TemporaryDirectory() as folder:
            report = run(Path(folder), Plan(**arguments), server=server and server.start())
    finally:
        if server is not None:
            server.remove()
    print(report.table())
    sys.exit(1 if report.wrong else 0)


if __name__ == "__main__":
    main()
