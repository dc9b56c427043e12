"""The checks after a run under load: everything acknowledged is there, once and in order, at each replica.

`Report` is the table of a run, with all that may not be. Which faults there were is in `chaos`.
"""

import contextlib
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests import daemons
from tests.daemons import COMMAND, Daemon
from tests.postgresql import chaos_load
from tests.postgresql.chaos_load import Loads
from tests.postgresql.clusters import Caller, Cluster
from tests.servers.sinks import Sink

DELIVERED_SECONDS = 120.0
REVOKED_LIMIT = 2.0  # seconds


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


def add_loads(report: Report, loads: Loads, cluster: Cluster) -> None:
    shown = sorted(second for one in loads.commits for second in one.seconds)
    report.add(
        "commits, each shown whole", len(shown), f"until shown: median {_middle(shown):.2f} s, {_most(shown):.2f} s"
    )
    report.add("applies acknowledged", sum(len(one.acknowledged) for one in loads.applies))
    report.add("sign-ins", len(loads.sign_ins.cookies))
    report.add("log records acknowledged", sum(len(one.acknowledged) for one in loads.records))
    failed = sorted(loads.failed().items())
    told = ", ".join(
        f"{count} of {method} {status or 'none'} {code}".strip() for (method, status, code), count in failed
    )
    report.add("answers", sum(one.answers for one in loads.all()), f"failed, and tried again: {told or 'none'}")
    report.add("requests that nginx gave to another replica", len(cluster.balancer.tries()))
    report.wrong += [sentence for one in loads.all() for sentence in one.wrong]


def check_versions(report: Report, loads: Loads, cluster: Cluster) -> None:
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


def check_sessions(report: Report, loads: Loads, cluster: Cluster) -> None:
    for replica in cluster.replicas:
        with Caller(replica.port) as caller:
            valid = [loads.sign_ins.look(cookie, caller) == 200 for cookie in loads.sign_ins.cookies]
        if not all(valid):
            report.wrong.append(f"{valid.count(False)} of {len(valid)} sessions are not valid any more")
    report.add("sessions valid at each replica", len(loads.sign_ins.cookies))


def check_records(report: Report, loads: Loads, sink: Sink) -> None:
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


def check_audit(report: Report, cluster: Cluster) -> None:
    command = [str(COMMAND), "audit", "verify", "--config", str(cluster.replicas[0].config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    told = (done.stdout + done.stderr).splitlines()[:1]
    report.add("the audit's chain", "verified" if done.returncode == 0 else "BROKEN", " ".join(told))
    if done.returncode != 0:
        report.wrong.append(f"the audit's chain: {' '.join(told)}")


def revoked(cluster: Cluster, times: int) -> list[float]:
    """Remove keys at one replica after the other; the seconds until each replica refuses each of them."""
    with contextlib.ExitStack() as stack:
        callers = [stack.enter_context(Caller(one.port)) for one in cluster.replicas]
        return [second for number in range(times) for second in _revoked(cluster, callers, number)]


def _revoked(cluster: Cluster, callers: Sequence[Caller], number: int) -> list[float]:
    body = {"name": f"removed-{number}", "role": "viewer", "project": "default"}
    made = cluster.post("/v1/api-keys", body)
    assert made.status == 201, made.status
    headers = {"Authorization": f"Bearer {made.body['apiKey']['key']}"}

    def statuses() -> list[int]:
        return [one.ask("GET", "/v1/me", headers=headers).status for one in callers]

    daemons.until(lambda: set(statuses()) == {200}, "each replica knows the key")
    removed = callers[number % len(callers)].ask("DELETE", f"/v1/api-keys/{made.body['apiKey']['id']}")
    begun = time.monotonic()
    assert removed.status == 204, removed
    first: dict[int, float] = {}
    while len(first) < len(callers):
        for which, status in enumerate(statuses()):
            if status == 401:
                first.setdefault(which, time.monotonic() - begun)
        assert time.monotonic() - begun < REVOKED_LIMIT * 10, f"a removed key is taken: {first}"
    return [*first.values()]


def _history(replica: Daemon, name: str, *, project: str) -> list[tuple[int, str]]:
    """The versions of a resource with their descriptions, oldest first."""
    found = [one["metadata"] for one in replica.history("Destination", name, project=project)]
    return [(one["version"], one["description"]) for one in reversed(found)]


def _middle(found: Sequence[float]) -> float:
    return sorted(found)[len(found) // 2] if found else 0.0


def _most(found: Sequence[float]) -> float:
    return max(found, default=0.0)
