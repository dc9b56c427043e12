"""Metrics of the service: their names and the sources of their values; those of delivery are in `delivery_metrics`."""

import contextlib
import platform
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from reconciler.delivery.status import DeliveryFigures
from reconciler.git.faults import RepositoryState
from reconciler.git.remotes.remote import RemoteCall, RemoteTally
from reconciler.model.clock import Clock
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications.board import Board
from reconciler.notifications.outbox import AlertTally, Outbox
from reconciler.ops import delivery_metrics, traffic
from reconciler.ops.metric_families import Sample, counter, gauge, histogram
from reconciler.ops.traffic import Traffic
from reconciler.reconcile.repositories import Repositories
from reconciler.replicas.contact import Contact
from reconciler.replicas.following import Following
from reconciler.store.contract import Store
from reconciler.store.records import StoreFigures
from reconciler.version import __version__

# Metrics of calls to remotes.

LOOKS = counter("reconciler_git_looks_total", "Polls of remotes.")
FETCHES = counter("reconciler_git_fetches_total", "Fetches from remotes.")
FAILURES = counter(
    "reconciler_git_failures_total",
    "Polls and fetches that failed, by the state that the repository gets; `other` if none.",
    "call",
    "state",
)

SETTLED = frozenset(
    {RepositoryState.READY, RepositoryState.NEVER_READ, RepositoryState.PRUNE_HELD, RepositoryState.SUSPENDED}
)  # no call ends in one of these states
KINDS = tuple(
    (call, state)
    for call in RemoteCall
    for state in (*(each.value for each in RepositoryState if each not in SETTLED), "")
)


def git_steps(tally: RemoteTally) -> Iterator[Sample]:
    """Yield the samples of remotes. Failures of each kind begin at 0, because a counter that is first seen as 1 has not
    grown.
    """
    yield Sample(LOOKS, tally.calls[RemoteCall.LOOK])
    yield Sample(FETCHES, tally.calls[RemoteCall.FETCH])
    for call, state in sorted({*KINDS, *tally.failures}):
        yield Sample(FAILURES, tally.failures[call, state], (call, state or "other"))


# Metrics of the service's main process, under the names that every client library gives them, and of the program.
#
# Source of the names: "Writing client libraries" of the Prometheus documentation, "Process metrics".

PROCESS = Path("/proc/self")
BEGAN = time.time()  # of this module, which the start of the process loads

CPU = counter("process_cpu_seconds_total", "Processor time of the main process, all threads.")
RESIDENT = gauge("process_resident_memory_bytes", "Its resident memory.")
VIRTUAL = gauge("process_virtual_memory_bytes", "Its virtual memory.")
FILES = gauge("process_open_fds", "Its open files.")
MOST_FILES = gauge("process_max_fds", "The limit of its open files.")
STARTED = gauge("process_start_time_seconds", "When it started, in Unix seconds.")
BUILD = gauge("reconciler_build_info", "1; the labels say which program this is.", "python", "version")


def process_steps() -> Iterator[Sample]:
    """Yield the samples of the process."""
    yield Sample(CPU, time.process_time())
    with contextlib.suppress(OSError):  # where there is no /proc
        virtual, resident, *_ = map(int, (PROCESS / "statm").read_text().split())
        files = len(list((PROCESS / "fd").iterdir()))
        yield Sample(RESIDENT, resident * resource.getpagesize())
        yield Sample(VIRTUAL, virtual * resource.getpagesize())
        yield Sample(FILES, files - 1)  # without the descriptor of this read
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        yield Sample(MOST_FILES, soft)
    yield Sample(STARTED, BEGAN)
    yield Sample(BUILD, 1, (platform.python_version(), __version__))


# Metrics of repositories and their runs.

RUN_OF_ONE = ("project", "repository")

RUNS = counter(
    "reconciler_runs_total", "Recorded runs, by outcome. A poll that finds nothing new is not a run.", "outcome"
)
RUN_SECONDS = histogram("reconciler_run_duration_seconds", "How long these runs took.")
STATE = gauge(
    "reconciler_repository_state",
    "1 for the present state of a repository. Other states have no sample.",
    *RUN_OF_ONE,
    "state",
)
FAILING = gauge(
    "reconciler_repository_failing",
    "1 while the last poll of a repository failed, also if only the store could not be written; otherwise 0.",
    *RUN_OF_ONE,
)
SUCCEEDED = gauge(
    "reconciler_repository_last_success_timestamp_seconds",
    "When a poll last succeeded and left the repository ready. Absent until the first such poll.",
    *RUN_OF_ONE,
)
RESOURCES = gauge(
    "reconciler_repository_resources",
    "Resources of the last run that read something, by kind and status. Absent until the first such run.",
    *RUN_OF_ONE,
    "kind",
    "status",
)


def run_steps(repositories: Repositories) -> Iterator[Sample]:
    """Yield the samples of runs; with several replicas, of the repositories that this one follows."""
    for outcome, number in repositories.tally.runs.items():
        yield Sample(RUNS, number, (outcome,))
    yield Sample(RUN_SECONDS, repositories.tally.seconds)
    every = [((one.watched.project, one.watched.name), one) for one in repositories.followed()]
    every.sort(key=lambda pair: pair[0])
    for names, one in every:
        yield Sample(STATE, 1, (*names, one.memory.shown.state))
    for names, one in every:
        yield Sample(FAILING, int(one.memory.fault is not None), names)
    for names, one in every:
        if one.memory.succeeded is not None:
            yield Sample(SUCCEEDED, one.memory.succeeded.timestamp(), names)
    for names, one in every:
        for kind, statuses in one.memory.planned.items():
            for status, number in statuses.items():
                yield Sample(RESOURCES, number, (*names, kind, status))


# Metrics of the store.

STORE_SECONDS = histogram(
    "reconciler_store_commit_duration_seconds", "How long commits took, with the wait for earlier ones."
)
STORE_FAILURES = counter(
    "reconciler_store_commit_failures_total",
    "Commits that stored nothing. `moved`: an approval of deletions that are no longer held; `fault`: the disk or the "
    "file.",
    "reason",
)
FILE = gauge("reconciler_store_file_bytes", "Size of the store's file.")
LOG = gauge("reconciler_store_wal_bytes", "Size of its write-ahead log.")


def store_steps(figures: StoreFigures) -> Iterator[Sample]:
    """Yield the samples of the store."""
    yield Sample(STORE_SECONDS, figures.commits.seconds)
    yield Sample(STORE_FAILURES, figures.commits.failed, ("fault",))
    yield Sample(STORE_FAILURES, figures.commits.moved, ("moved",))
    for family, value in ((FILE, figures.file), (LOG, figures.log)):
        if value is not None:
            yield Sample(family, value)


# Metrics of a store that several replicas share.

REVISION = gauge("reconciler_store_revision", "The revision of the store: changes of resources so far.")
CONTACT = gauge(
    "reconciler_store_contact_age_seconds", "Seconds since the database answered this replica. PostgreSQL alone."
)
BEHIND = gauge(
    "reconciler_store_notices_behind",
    "Changes of other replicas that this one has read and not applied yet. PostgreSQL alone.",
)


def replica_steps(store: Store, following: Following | None, contact: Contact | None) -> Iterator[Sample]:
    """Yield the samples of a store that several replicas share."""
    yield Sample(REVISION, store.known_revision)
    if contact is not None:
        yield Sample(CONTACT, contact.seconds)
    if following is not None:
        yield Sample(BEHIND, following.behind)


# Metrics of notifications, and of the alerts that go out about them.

OF_A_TARGET = ("target",)

OPEN_NOTIFICATIONS = gauge(
    "reconciler_notifications_open",
    "Open notifications, by type and severity. Absent if there are none.",
    "type",
    "severity",
)
ALERTS_SENT = counter("reconciler_alerts_sent_total", "Alerts that the target accepted.", *OF_A_TARGET)
ALERTS_FAILED = counter("reconciler_alerts_failed_attempts_total", "Failed attempts to send an alert.", *OF_A_TARGET)
ALERTS_GIVEN_UP = counter(
    "reconciler_alerts_given_up_total",
    "Alerts that were given up: refused, or an hour old.",
    *OF_A_TARGET,
)
ALERTS_WAITING = gauge("reconciler_alerts_waiting", "Alerts that are still to be sent.", *OF_A_TARGET)


def notification_steps(
    found: Mapping[tuple[NotificationType, Severity], int], targets: Sequence[AlertTally] = ()
) -> Iterator[Sample]:
    """Yield the samples of notifications. `found` counts open ones by type and severity."""
    for (type_, severity), number in sorted(found.items()):
        if number:
            yield Sample(OPEN_NOTIFICATIONS, number, (type_.value, severity.value))
    ordered = sorted(targets, key=lambda one: one.target)
    for family, values in (
        (ALERTS_SENT, [one.sent for one in ordered]),
        (ALERTS_FAILED, [one.failed for one in ordered]),
        (ALERTS_GIVEN_UP, [one.given_up for one in ordered]),
        (ALERTS_WAITING, [one.waiting for one in ordered]),
    ):
        for one, value in zip(ordered, values, strict=True):
            yield Sample(family, value, (one.target,))


# The sources of all metrics. docs/metrics.md names each family.


@dataclass(frozen=True, slots=True)
class MetricSources:
    """The sources of all metrics. `in_flight` counts requests in progress by caller."""

    traffic: Traffic
    in_flight: Mapping[str, int]
    store: Store
    repositories: Repositories
    deliveries: Callable[[], DeliveryFigures]
    board: Board
    outbox: Outbox | None
    clock: Clock
    following: Following | None = None
    contact: Contact | None = None

    async def samples(self) -> Iterator[Sample]:
        """Yield all samples. The sources are read while samples are taken."""
        now = int(self.clock().timestamp() * 1000)
        delivered = await delivery_metrics.delivery_steps(self.deliveries(), now=now)
        return chain(
            run_steps(self.repositories),
            git_steps(self.repositories.remote_tally),
            store_steps(self.store.figures()),
            replica_steps(self.store, self.following, self.contact),
            traffic.request_steps(self.traffic, self.in_flight),
            delivered,
            notification_steps(self.board.open, () if self.outbox is None else self.outbox.tallies()),
            process_steps(),
        )
