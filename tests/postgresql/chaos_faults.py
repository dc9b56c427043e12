"""Faults of a cluster during a chaos run: kills, restarts of PostgreSQL, stopped processes; and starting again.

One thread does the faults of a plan, one starts each replica again that ended, and one reads the leases, to see for how
long a repository has no living holder.
"""

import contextlib
import os
import random
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import NamedTuple

import psycopg

from tests.daemons import Daemon
from tests.postgresql import clusters
from tests.postgresql.clusters import Cluster
from tests.postgresql.servers import Server
from tests.servers import processes

SOON_SECONDS, LATE_SECONDS = (1.0, 4.0), 25.0  # until a killed replica is started again
LATE_SHARE = 0.2  # longer than a lease lasts, so that another replica takes over
STEP_SECONDS = 0.1
CONNECTIONS = "select count(*) from pg_stat_activity where datname = %s"
LEASES = "select repository, holder, number, until::text from lease"


class Plan(NamedTuple):
    """The faults of a run, spread over its seconds."""

    kills: int
    restarts: int
    stops: int
    seconds: float
    stop_seconds: float
    seed: int = 20261128


class _Due(NamedTuple):
    at: float  # seconds from the beginning
    kind: str


class Supervisor(threading.Thread):
    """Starts each replica again some time after it ended. `by_themselves` has the last words of those not killed."""

    def __init__(self, cluster: Cluster, *, seed: int) -> None:
        super().__init__(name="supervisor", daemon=True)
        self.by_themselves: list[str] = []
        self._cluster = cluster
        self._random = random.Random(seed)  # noqa: S311 - pauses, no secret
        self._killed: set[int] = set()
        self._due: dict[int, float] = {}
        self._is_ended = threading.Event()
        self._lock = threading.Lock()

    def run(self) -> None:
        """Look ten times a second."""
        while not self._is_ended.wait(STEP_SECONDS):
            self._look()

    def end(self) -> None:
        """Start nothing more."""
        self._is_ended.set()
        self.join(10)

    def kill(self, number: int) -> None:
        """Kill a replica with all that it started, as a power cut would."""
        with self._lock:
            self._killed.add(number)
            self._cluster.replicas[number].process.send_signal(signal.SIGKILL)

    def _look(self) -> None:
        for number, replica in enumerate(self._cluster.replicas):
            with self._lock:
                if replica.process.poll() is None:
                    continue
                if number not in self._due:
                    self._due[number] = time.monotonic() + self._pause(number)
                elif time.monotonic() >= self._due[number]:
                    del self._due[number]
                    replica.launch()

    def _pause(self, number: int) -> float:
        replica = self._cluster.replicas[number]
        if number not in self._killed:
            last = replica.log.read_text(errors="replace").splitlines()[-1:]
            self.by_themselves.append(f"replica {number}: {replica.process.poll()}: {last}")
            return SOON_SECONDS[0]
        self._killed.discard(number)
        is_late = self._cluster.server is not None and self._random.random() < LATE_SHARE
        return LATE_SECONDS if is_late else self._random.uniform(*SOON_SECONDS)


class TakeOvers(threading.Thread):
    """Reads who holds each repository, and for how long nobody did who lives."""

    def __init__(self, server: Server) -> None:
        super().__init__(name="take-overs", daemon=True)
        self.seconds: list[float] = []
        self.most_connections = 0
        self._server = server
        self._rows: dict[str, tuple[str, int, str]] = {}
        self._orphans: dict[str, tuple[float, tuple[str, int, str]]] = {}
        self._is_ended = threading.Event()
        self._lock = threading.Lock()

    def run(self) -> None:
        """Read again and again, also after PostgreSQL was restarted."""
        while not self._is_ended.is_set():
            with contextlib.suppress(psycopg.Error), self._server.admin(clusters.DATABASE) as connection:
                while not self._is_ended.wait(STEP_SECONDS):
                    rows = connection.execute(LEASES).fetchall()
                    self._note({name: (holder, number, until) for name, holder, number, until in rows})
                    (connections,) = connection.execute(CONNECTIONS, [clusters.DATABASE]).fetchone() or (0,)
                    self.most_connections = max(self.most_connections, connections)
            self._is_ended.wait(STEP_SECONDS)

    def end(self) -> None:
        """Read no more."""
        self._is_ended.set()
        self.join(10)

    def gone(self, holder: str) -> None:
        """Begin to count for all that this replica holds, which is not there any more."""
        now = time.monotonic()
        with self._lock:
            for name, row in self._rows.items():
                if row[0] == holder:
                    self._orphans.setdefault(name, (now, row))

    def holds(self, holder: str) -> bool:
        """True if this replica holds a repository."""
        with self._lock:
            return any(row[0] == holder for row in self._rows.values())

    def open(self) -> list[str]:
        """Return what nobody has taken over yet."""
        with self._lock:
            return sorted(self._orphans)

    def _note(self, rows: dict[str, tuple[str, int, str]]) -> None:
        now = time.monotonic()
        with self._lock:
            self._rows = rows
            for name, (since, row) in [*self._orphans.items()]:
                if name in rows and rows[name] != row:  # only who lives writes it
                    del self._orphans[name]
                    self.seconds.append(now - since)


@dataclass(slots=True)
class Faults:
    """Does the faults of a plan; `done` counts them."""

    cluster: Cluster
    supervisor: Supervisor
    take_overs: TakeOvers | None
    plan: Plan
    done: dict[str, int] = field(default_factory=lambda: {"kill": 0, "restart": 0, "stop": 0})
    _stopped: dict[int, tuple[float, list[int]]] = field(default_factory=dict)

    def run(self) -> None:
        """Do all of them, each at its time."""
        source = random.Random(self.plan.seed)  # noqa: S311 - reproducible faults, no secret
        begun = time.monotonic()
        for due in self._due(source):
            while (rest := begun + due.at - time.monotonic()) > 0:
                self._continue()
                time.sleep(min(rest, STEP_SECONDS))
            if due.kind == "kill":
                self._kill(source)
            elif due.kind == "stop":
                self._stop(source)
            elif self.cluster.server is not None:
                self.cluster.server.restart("immediate" if self.done["restart"] % 2 else "fast")
            self.done[due.kind] += 1
        while self._stopped or time.monotonic() < begun + self.plan.seconds:
            self._continue()
            time.sleep(STEP_SECONDS)

    def _due(self, source: random.Random) -> list[_Due]:
        """Spread each kind evenly over the time, and move each fault a little."""
        found = []
        for kind, times in (("kill", self.plan.kills), ("restart", self.plan.restarts), ("stop", self.plan.stops)):
            each = self.plan.seconds / max(1, times)
            found += [_Due((number + source.random()) * each, kind) for number in range(times)]
        return sorted(found)

    def _kill(self, source: random.Random) -> None:
        number = self._chosen(source)
        self.supervisor.kill(number)
        self._gone(number)

    def _stop(self, source: random.Random) -> None:
        number = self._chosen(source)
        process = self.cluster.replicas[number].process.pid
        members = [process, *processes.descendants(process)]
        for one in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGSTOP)
        self._stopped[number] = (time.monotonic() + self.plan.stop_seconds, members)
        self._gone(number)

    def _gone(self, number: int) -> None:
        if self.take_overs is not None:
            self.take_overs.gone(clusters.name(number))

    def _chosen(self, source: random.Random) -> int:
        """A replica that runs, as soon as one does; none that is stopped."""
        while True:
            found = [number for number, one in enumerate(self.cluster.replicas) if self._runs(number, one)]
            if found:
                return source.choice(found)
            self._continue()
            time.sleep(STEP_SECONDS)

    def _runs(self, number: int, replica: Daemon) -> bool:
        return number not in self._stopped and replica.process.poll() is None

    def _continue(self) -> None:
        for number, (until, members) in [*self._stopped.items()]:
            if time.monotonic() >= until:
                for one in members:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(one, signal.SIGCONT)
                del self._stopped[number]
