"""Replicas behind nginx, on a real PostgreSQL and under load, while processes are killed: nothing acknowledged is lost.

`python -m tests.postgresql.chaos` takes about twelve minutes and prints a table; `--kills`, `--seconds` and others make
it shorter. With `--sqlite` there is one daemon on SQLite, to see that the load and the checks are right.
"""

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests import daemons
from tests.daemons import COMMAND, Daemon
from tests.postgresql import chaos_load, clusters
from tests.postgresql.chaos_faults import Faults, Plan, Supervisor, TakeOvers
from tests.postgresql.chaos_load import Applies, Commits, Load, Records, SignIns, Source
from tests.postgresql.clusters import Caller, Cluster
from tests.postgresql.servers import Server
from tests.servers import sinks
from tests.servers.sinks import Sink

FULL = Plan(kills=100, restarts=10, stops=3, seconds=600.0, stop_seconds=30.0)
COMMITTERS, APPLIERS, SENDERS, PEOPLE = 5, 3, 2, 12
RECORDS_PROJECT = "records"
TAKE_OVER_LIMIT, REVOKED_LIMIT = 60.0, 2.0  # seconds
REVOKED_KEYS = 5
CALM_SECONDS = 3.0
ENDED_SECONDS = 180.0
DELIVERED_SECONDS = 120.0


@dataclass(slots=True)
class Report:
    """The table of a run, and all that may not be."""

    rows: list[tuple[str, str, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(self, what: str, found: object, beside: str = "") -> None:
        """Add a row."""
        self.rows.append((what, str(found), beside))

    def limited(self, what: str, seconds: Sequence[float], limit: float) -> None:
        """Add a row for the longest of some times, which has a limit."""
        most = max(seconds, default=0.0)
        middle = sorted(seconds)[len(seconds) // 2] if seconds else 0.0
        self.add(what, f"{most:.2f} s", f"limit {limit:g} s; median {middle:.2f} s of {len(seconds)}")
        if most > limit:
            self.wrong.append(f"{what}: {most:.2f} s")

    def table(self) -> str:
        """Return all of it as Markdown."""
        lines = ["| what | found | beside |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in self.rows)]
        return "\n".join([*lines, *(f"WRONG: {one}" for one in self.wrong)])


@dataclass(slots=True)
class Loads:
    """All clients of a run."""

    commits: list[Commits]
    applies: list[Applies]
    sign_ins: SignIns
    records: list[Records]

    def all(self) -> list[Load]:
        """Return each of them."""
        return [*self.commits, *self.applies, self.sign_ins, *self.records]


def run(folder: Path, plan: Plan, *, server: Server | None) -> Report:
    """Do the faults of a plan under load; what was found."""
    sources = [Source(folder, number=number) for number in range(COMMITTERS)]
    repositories = [daemons.watched(one.project, one.repository.path, project=one.project) for one in sources]
    report = Report()
    with (
        sinks.listening() as sink,
        clusters.running(folder, server=server, repositories=repositories) as cluster,
    ):
        loads = _begun(cluster, sources, sink, every=plan.seconds / 200)
        begun = time.monotonic()
        with _faults(cluster, plan) as faults:
            faults.run()
            report.add("seconds of faults", f"{time.monotonic() - begun:.0f}")
            cluster.until_ready()
        time.sleep(CALM_SECONDS)
        for load in loads.all():
            load.end()
        for load in loads.all():
            load.ended(seconds=ENDED_SECONDS)
        _add_faults(report, faults)
        _add_loads(report, loads, cluster)
        _check_versions(report, loads, cluster)
        _check_sessions(report, loads, cluster)
        _check_records(report, loads, sink)
        _check_audit(report, cluster)
        report.limited("a removed key, until each replica refuses it", revoked(cluster, REVOKED_KEYS), REVOKED_LIMIT)
    return report


def _begun(cluster: Cluster, sources: Sequence[Source], sink: Sink, *, every: float) -> Loads:
    """Make what the clients need, and start them."""
    people = [f"person-{number}" for number in range(PEOPLE)]
    for name in people:
        made = cluster.post("/v1/users", {"name": name, "password": chaos_load.PASSWORD})
        assert made.status == 201, made
    for project in (RECORDS_PROJECT, *(f"api-{number}" for number in range(APPLIERS))):
        made = cluster.post("/v1/projects", {"name": project})
        assert made.status == 201, made
    applied = cluster.post("/v1/apply", {"resources": chaos_load.delivering(sink)}, project=RECORDS_PROJECT)
    assert applied.status == 202, applied
    for replica in cluster.replicas:
        chaos_load.until_routed(replica.port, project=RECORDS_PROJECT)
    port = cluster.balancer.port
    loads = Loads(
        [Commits(one, port) for one in sources],
        [Applies(number, port) for number in range(APPLIERS)],
        SignIns(port, people, every=every),
        [Records(number, port, project=RECORDS_PROJECT) for number in range(SENDERS)],
    )
    for load in loads.all():
        load.start()
    return loads


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
        report.wrong += [f"nobody took over {name}" for name in faults.take_overs.open()]


def _add_loads(report: Report, loads: Loads, cluster: Cluster) -> None:
    shown = sorted(second for one in loads.commits for second in one.seconds)
    report.add(
        "commits, each shown whole", len(shown), f"until shown: median {_middle(shown):.2f} s, {_most(shown):.2f} s"
    )
    report.add("applies acknowledged", sum(len(one.acknowledged) for one in loads.applies))
    report.add("sign-ins", len(loads.sign_ins.cookies))
    report.add("log records acknowledged", sum(len(one.acknowledged) for one in loads.records))
    answers = sum((one.answers for one in loads.all()), Counter[int]())
    bad = ", ".join(f"{status or 'none'}: {answers[status]}" for status in sorted(answers) if not 200 <= status < 500)
    report.add("answers", answers.total(), f"failed: {bad or 'none'}")
    report.add("requests that nginx gave to another replica", len(cluster.balancer.tries()))
    report.wrong += [sentence for one in loads.all() for sentence in one.wrong]


def _check_versions(report: Report, loads: Loads, cluster: Cluster) -> None:
    """Each version is there that was acknowledged, once and in order, and the same of all resources of a change."""
    wrong, versions = report.wrong, 0
    for name, project, names, texts in [
        *((one.source.project, one.source.project, one.source.names(), one.source.texts()) for one in loads.commits),
        *((one.name, one.project, one.names(), one.texts()) for one in loads.applies),
    ]:
        found = [_history(cluster.replicas[0], resource, project=project) for resource in names]
        versions += sum(map(len, found))
        if any(history != found[0] for history in found):
            wrong.append(f"{name}: resources of one change differ: {[len(one) for one in found]}")
        numbers = [number for number, _ in found[0]]
        if numbers != [*range(1, len(numbers) + 1)]:
            wrong.append(f"{name}: versions are not gapless: {numbers[-20:]}")
        # One more may be there whose acknowledgement did not arrive.
        stored = [text for _, text in found[0]]
        if stored[: len(texts)] != texts or len(stored) > len(texts) + 1:
            wrong.append(f"{name}: {len(texts)} were acknowledged, stored are {len(stored)}: {stored[-3:]}")
        for replica in cluster.replicas[1:]:
            if _history(replica, names[0], project=project) != found[0]:
                wrong.append(f"{name}: another replica shows another history")
    for one in loads.applies:
        if one.acknowledged != [[number] * chaos_load.GROUP for number in range(1, len(one.acknowledged) + 1)]:
            wrong.append(f"{one.name}: an apply got another version than its own")
    report.add("versions stored, gapless", versions)


def _check_sessions(report: Report, loads: Loads, cluster: Cluster) -> None:
    for replica in cluster.replicas:
        caller = Caller(replica.port)
        valid = [loads.sign_ins.look(cookie, caller) == 200 for cookie in loads.sign_ins.cookies]
        if not all(valid):
            report.wrong.append(f"{valid.count(False)} of {len(valid)} sessions are not valid any more")
    report.add("sessions valid at each replica", len(loads.sign_ins.cookies))


def _check_records(report: Report, loads: Loads, sink: Sink) -> None:
    acknowledged = {text for one in loads.records for text in one.acknowledged}

    def arrived() -> bool:
        return acknowledged <= set(sink.records)

    with contextlib.suppress(AssertionError):
        daemons.until(arrived, "all records arrive", seconds=DELIVERED_SECONDS)
    counted = Counter(sink.records)
    lost = [text for text in acknowledged if text not in counted]
    again = sum(count - 1 for count in counted.values())
    report.add("log records at the endpoint", len(counted), f"{again} more came again; {len(lost)} are lost")
    if lost:
        report.wrong.append(f"{len(lost)} acknowledged records are lost: {sorted(lost)[:5]}")


def _check_audit(report: Report, cluster: Cluster) -> None:
    command = [str(COMMAND), "audit", "verify", "--config", str(cluster.replicas[0].config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    told = (done.stdout + done.stderr).splitlines()[:1]
    report.add("the audit's chain", "verified" if done.returncode == 0 else "BROKEN", " ".join(told))
    if done.returncode != 0:
        report.wrong.append(f"the audit's chain: {' '.join(told)}")


def revoked(cluster: Cluster, times: int) -> list[float]:
    """Remove keys at one replica after the other; the seconds until each replica refuses each of them."""
    callers = [Caller(one.port) for one in cluster.replicas]
    seconds: list[float] = []
    for number in range(times):
        body = {"name": f"removed-{number}", "role": "viewer", "project": "default"}
        made = cluster.post("/v1/api-keys", body)
        assert made.status == 201, made.status
        headers = {"Authorization": f"Bearer {made.body['apiKey']['key']}"}

        def statuses(headers: Mapping[str, str] = headers) -> list[int]:
            return [one.ask("GET", "/v1/me", headers=headers).status for one in callers]

        def is_known(ask: Callable[[], list[int]] = statuses) -> bool:
            return set(ask()) == {200}

        daemons.until(is_known, "each replica knows the key")
        removed = callers[number % len(callers)].ask("DELETE", f"/v1/api-keys/{made.body['apiKey']['id']}")
        begun = time.monotonic()
        assert removed.status == 204, removed
        first: dict[int, float] = {}
        while len(first) < len(callers):
            for which, status in enumerate(statuses()):
                if status == 401:
                    first.setdefault(which, time.monotonic() - begun)
            assert time.monotonic() - begun < REVOKED_LIMIT * 10, f"a removed key is taken: {first}"
        seconds += first.values()
    return seconds


def _history(replica: Daemon, name: str, *, project: str) -> list[tuple[int, str]]:
    """The versions of a resource with their descriptions, oldest first."""
    found = [one["metadata"] for one in replica.history("Destination", name, project=project)]
    return [(one["version"], one["description"]) for one in reversed(found)]


def _middle(found: Sequence[float]) -> float:
    return sorted(found)[len(found) // 2] if found else 0.0


def _most(found: Sequence[float]) -> float:
    return max(found, default=0.0)


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
