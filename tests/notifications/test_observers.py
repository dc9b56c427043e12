"""Observers: from which moment on a cause is told, and when it is over."""

import resource
import shutil
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.delivery import tls
from reconciler.delivery.lanes import Lane
from reconciler.delivery.queue.contract import Depth
from reconciler.delivery.reporting import DeliveryCounts, ExporterState, SendFailure
from reconciler.delivery.secrets import SecretDirectory, SecretSources
from reconciler.delivery.status import DeliveryFigures
from reconciler.model.directory import Directory, Project
from reconciler.model.errors import OPEN_FILES
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.model.routes import Buffering, Destination, Endpoint
from reconciler.notifications import certificates, observers, service_observers
from reconciler.notifications.models import Cause, Finding, Observation
from reconciler.store.contract import StoreFault
from reconciler.store.records import Attention, CommitFigures, DeprecatedRow, ResourceChange, Some, StoreFigures
from tests import entries
from tests.api.parts import Moment
from tests.servers.certificates import Authority

pytestmark = pytest.mark.anyio

PLENTY = 1 << 40


def end_of(file: Path) -> datetime:
    span = tls.certificate_span(file.read_text())
    assert span is not None
    return span.until


@dataclass
class Deliveries:
    """Delivery that stands still until a test changes it."""

    lanes: list[Lane] = field(default_factory=list)
    unrouted: dict[str, int] = field(default_factory=dict)
    spare: int = PLENTY
    projects: tuple[str, ...] = ("default",)

    def figures(self) -> DeliveryFigures:
        return DeliveryFigures(self.lanes, DeliveryCounts(), self.unrouted, self.spare, 0)

    def followed(self) -> tuple[str, ...]:
        return self.projects


def lane(
    clock: Moment,
    *,
    depth: Depth | None = None,
    state: ExporterState = ExporterState.SENDING,
    failing: float | None = None,
) -> Lane:
    """The lane of a destination whose requests have been failing for so many seconds."""
    at = int(clock().timestamp() * 1000)
    failure = SendFailure(at, 503, "The destination siem answered 503.", b"canary-answer")
    failing_since = None if failing is None else at - int(failing * 1000)
    shown = SimpleNamespace(state=state, last_success=None, last_failure=failure, failing_since=failing_since)
    exporter: Any = SimpleNamespace(shown=lambda: shown, is_up=state is not ExporterState.DOWN)
    queue: Any = SimpleNamespace(depth=lambda: depth or Depth())
    destination = Destination(name="siem", endpoint=Endpoint(host="a.example"), buffering=Buffering(max_batches=100))
    return Lane("default", "siem", "disk x", destination, queue, exporter)


def brief(look: Observation) -> list[tuple[str, str, Severity, bool]]:
    """Of each finding its type, subject and severity, and whether it only keeps what is open."""
    return [(one.cause.type.value, one.cause.subject, one.severity, one.fading) for one in look.findings]


def looked_at(look: Observation) -> list[str]:
    """The projects that were looked at."""
    return sorted(look.projects or ())


def delivering(deliveries: Deliveries, clock: Moment) -> observers.DeliveryObserver:
    return observers.DeliveryObserver(deliveries.figures, deliveries.followed, clock=clock)


@pytest.fixture
def clock() -> Moment:
    return Moment()


def long_there(deliveries: Deliveries, clock: Moment) -> observers.DeliveryObserver:
    """An observer that began so long ago that what was before its start counts no more."""
    observer = delivering(deliveries, clock)
    clock.pass_(minutes=15)
    return observer


@pytest.mark.parametrize(
    ("thousands", "expected"),
    [
        (59, []),
        (60, [("QueueNearlyFull", "siem", Severity.WARNING, True)]),
        (79, [("QueueNearlyFull", "siem", Severity.WARNING, True)]),
        (80, [("QueueNearlyFull", "siem", Severity.WARNING, False)]),
        (99, [("QueueNearlyFull", "siem", Severity.WARNING, False)]),
        (100, [("QueueNearlyFull", "siem", Severity.ERROR, False)]),
    ],
)
async def test_a_queue_is_nearly_full_before_it_is_full(clock: Moment, thousands: int, expected: list[object]) -> None:
    deliveries = Deliveries([lane(clock, depth=Depth(batches=1, records=thousands * 1000))])
    observer = long_there(deliveries, clock)
    found = [one for one in brief(await observer.observe()) if one[0] == "QueueNearlyFull"]
    assert found == expected


@pytest.mark.parametrize(
    ("state", "failing", "is_told"),
    [
        (ExporterState.DOWN, 0.0, True),
        (ExporterState.WAITING, 29.0, False),
        (ExporterState.WAITING, 30.0, True),
        (ExporterState.SENDING, 30.0, True),
        (ExporterState.SENDING, None, False),
        (ExporterState.WAITING, None, False),
        (ExporterState.IDLE, 99.0, False),
        (ExporterState.CLOSED, 99.0, False),
    ],
)
async def test_an_endpoint_fails_when_it_is_down_or_has_taken_nothing_for_a_while(
    clock: Moment, state: ExporterState, failing: float | None, is_told: bool
) -> None:
    deliveries = Deliveries()
    observer = long_there(deliveries, clock)
    deliveries.lanes.append(lane(clock, state=state, failing=failing))
    look = await observer.observe()
    assert brief(look) == ([("DeliveryFailing", "siem", Severity.ERROR, False)] if is_told else [])
    assert "canary" not in repr(look)


async def test_of_an_endpoint_that_fails_the_last_failure_is_told(clock: Moment) -> None:
    look = await long_there(Deliveries([lane(clock, state=ExporterState.DOWN)]), clock).observe()
    assert [(one.title, one.details) for one in look.findings] == [
        ("Nothing gets through to the destination siem", "The destination siem answered 503.")
    ]


async def test_dead_letters_are_told_as_long_as_there_are_some(clock: Moment) -> None:
    deliveries = Deliveries([lane(clock, depth=Depth(dead_batches=2)), lane(clock, depth=Depth(dead_batches=1))])
    look = await long_there(deliveries, clock).observe()
    [found] = look.findings
    assert (found.cause.type, found.details) == (
        NotificationType.DEAD_LETTERS,
        "3 batches of log records could not be delivered.",
    )


@pytest.mark.parametrize(
    ("depth", "expected"),
    [
        (Depth(damaged=(Path("a"), Path("b"))), (Severity.WARNING, "Damaged files: 2. Lost batches: 0.")),
        (Depth(damaged=(Path("a"),), lost=3), (Severity.ERROR, "Damaged files: 1. Lost batches: 3.")),
        (Depth(lost=1), (Severity.ERROR, "Damaged files: 0. Lost batches: 1.")),
        (Depth(), None),
    ],
)
async def test_damaged_queue_files_and_lost_batches_are_told(clock: Moment, depth: Depth, expected: object) -> None:
    look = await delivering(Deliveries([lane(clock, depth=depth)]), clock).observe()
    found = [one for one in look.findings if one.cause.type is NotificationType.QUEUE_DAMAGED]
    assert [(one.severity, one.details) for one in found] == ([] if expected is None else [expected])


async def test_too_many_open_files_are_told_until_there_are_fewer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    folder = tmp_path / "open"
    folder.mkdir()
    observer = service_observers.OpenFilesObserver(folder)
    told = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    try:
        for number in (50, 92, 99, 80, 60):
            for path in folder.iterdir():
                path.unlink()
            for one in range(number + 1):  # and the folder itself
                (folder / str(one)).touch()
            look = await observer.observe()
            told.append([(one.fading, one.details) for one in look.findings])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    details = [f"It has {percent} percent or more of 100 open." for percent in (90, 90, 80)]
    assert told == [[], [(False, details[0])], [(False, details[1])], [(True, details[2])], []]
    assert caplog.messages == [f"Of 100 files that the service may open, 92 are: {OPEN_FILES}."]


async def test_records_for_nobody_are_told_until_none_came_for_a_while(clock: Moment) -> None:
    deliveries = Deliveries(unrouted={"default": 40})
    observer = delivering(deliveries, clock)
    told = [("LogsUnrouted", "", Severity.WARNING, False)]
    assert brief(await observer.observe()) == told
    clock.pass_(minutes=14)
    assert brief(await observer.observe()) == told
    deliveries.unrouted["default"] = 41
    assert brief(await observer.observe()) == told
    clock.pass_(minutes=15)
    assert brief(await observer.observe()) == []


async def test_of_a_project_whose_routes_are_not_known_yet_nothing_is_said(clock: Moment) -> None:
    deliveries = Deliveries([lane(clock, state=ExporterState.DOWN)], {"default": 1}, projects=("other",))
    look = await long_there(deliveries, clock).observe()
    assert (look.projects, look.findings) == (frozenset({"other"}), ())


async def test_what_a_service_that_just_started_cannot_know_ends_nothing(clock: Moment) -> None:
    deliveries = Deliveries([lane(clock, depth=Depth(batches=1))])
    observer = delivering(deliveries, clock)
    waiting = ("DeliveryFailing", "siem", Severity.ERROR, True)
    assert brief(await observer.observe()) == [waiting, ("LogsUnrouted", "", Severity.WARNING, True)]
    clock.pass_(minutes=15)
    assert brief(await observer.observe()) == [waiting]
    deliveries.lanes[:] = [lane(clock)]
    assert brief(await observer.observe()) == []


class Stored:
    """A store that counts, fails and tells as a test says."""

    def __init__(self) -> None:
        self.commits = CommitFigures()
        self.fault: StoreFault | None = None
        self.faulty = ["acme", "default"]
        self.asked: list[str] = []
        self.found = Attention(Some(0, ()), ())

    async def revision(self) -> int:
        if self.fault is not None:
            raise self.fault
        return 1

    def figures(self) -> StoreFigures:
        return StoreFigures(self.commits, None, None)

    async def directory(self) -> Directory:
        return Directory(projects={name: Project(name, created_at="") for name in ("acme", "default")})

    async def attention(self, project: str, *, named: int) -> Attention:
        assert named > 0
        if self.fault is not None and project in self.faulty:
            raise self.fault
        self.asked.append(project)
        return self.found


async def test_a_store_that_cannot_be_written_is_told_until_something_is_written(clock: Moment) -> None:
    stored: Any = Stored()
    observer = service_observers.StoreObserver(stored, unwritten=str, clock=clock)
    assert brief(await observer.observe()) == []
    stored.commits.failed += 1
    told = [("StoreDegraded", "", Severity.CRITICAL, False)]
    assert [brief(await observer.observe()), brief(await observer.observe())] == [told, told]
    stored.commits.seconds.note(0.1)
    assert brief(await observer.observe()) == []
    stored.commits.failed += 1
    assert brief(await observer.observe()) == told
    clock.pass_(minutes=10)
    assert brief(await observer.observe()) == []


async def test_a_store_that_cannot_be_read_is_told_as_long_as_it_cannot(clock: Moment) -> None:
    stored: Any = Stored()
    observer = service_observers.StoreObserver(stored, unwritten=str, clock=clock)
    stored.fault = StoreFault("The store could not be read.")
    look = await observer.observe()
    assert [one.details for one in look.findings] == ["The store could not be read."]
    stored.fault = None
    assert brief(await observer.observe()) == []


async def test_notifications_that_cannot_be_written_are_told_as_long_as_they_cannot(clock: Moment) -> None:
    stored: Any = Stored()
    why = ["", "The notifications could not be written.", ""]
    observer = service_observers.StoreObserver(stored, unwritten=lambda: why.pop(0), clock=clock)
    assert brief(await observer.observe()) == []
    look = await observer.observe()
    assert [one.details for one in look.findings] == ["The notifications could not be written."]
    assert brief(await observer.observe()) == []


async def test_a_project_is_looked_at_when_the_service_starts_and_after_it_changed() -> None:
    stored: Any = Stored()
    observer = observers.ConfigurationObserver(stored, monotonic=lambda: 0.0)
    assert looked_at(await observer.observe()) == ["acme", "default"]
    assert looked_at(await observer.observe()) == []
    observer.heard(ResourceChange("telemetry", project="acme"))
    observer.heard(ResourceChange("telemetry", project="acme"))
    observer.heard(ResourceChange(None, changed=False, project="default"))
    assert looked_at(await observer.observe()) == ["acme"]
    stored.fault = StoreFault("The store could not be read.")
    observer.heard(ResourceChange(None, project="default"))
    with pytest.raises(StoreFault):
        await observer.observe()
    stored.fault = None
    assert looked_at(await observer.observe()) == ["default"]


async def test_a_look_that_fails_at_a_later_project_loses_none_of_those_before_it() -> None:
    stored: Any = Stored()
    stored.faulty, stored.fault = ["default"], StoreFault("The store could not be read.")
    observer = observers.ConfigurationObserver(stored, monotonic=lambda: 0.0)
    with pytest.raises(StoreFault):
        await observer.observe()
    stored.fault = None
    assert looked_at(await observer.observe()) == ["acme", "default"]


async def test_a_project_that_takes_long_is_left_twenty_times_as_long() -> None:
    stored: Any = Stored()
    times = iter([0.0, 1.0, 1.0, 1.0, 20.9, 21.0, 21.0])
    observer = observers.ConfigurationObserver(stored, monotonic=lambda: next(times))
    await observer.observe()
    observer.heard(ResourceChange(None, project="acme"))
    assert looked_at(await observer.observe()) == []
    assert looked_at(await observer.observe()) == ["acme"]


async def test_what_is_incomplete_and_what_is_deprecated_is_told() -> None:
    stored: Any = Stored()
    old = DeprecatedRow("SourceType", "old", "Use new.", Some(2, ("Source a", "Source b")))
    stored.found = Attention(Some(7, ("a", "b")), (old,), Some(1, ("c",)), Some(1, ("Source s",)))
    look = await observers.ConfigurationObserver(stored, monotonic=lambda: 0.0).observe()
    assert [(*one.cause[:2], one.title, one.details) for one in look.findings if one.cause.project == "acme"] == [
        (
            NotificationType.CONFIGURATION_INCOMPLETE,
            "",
            "Incomplete: 8 resources of the project acme",
            "Configuration a, Configuration b, Source s and 5 more.",
        ),
        (
            NotificationType.DELIVERY_STALE,
            "",
            "Not delivering by the present version: 1 resource of the project acme",
            "c.",
        ),
        (
            NotificationType.RESOURCE_DEPRECATED,
            "SourceType old",
            "SourceType old is deprecated and in use",
            "Used by Source a, Source b. Use new.",
        ),
    ]


def first_of_each(look: Observation) -> list[Finding]:
    """The findings that count: of each cause the first."""
    found: dict[Cause, Finding] = {}
    for one in look.findings:
        found.setdefault(one.cause, one)
    return [*found.values()]


def watching(
    folder: Path,
    clock: Moment,
    *,
    certificate: Path | None = None,
    authorities: Path | None = None,
    deliveries: Deliveries | None = None,
    **trusted: Path | None,
) -> certificates.CertificateObserver:
    """An observer of these files; repositories trust the authorities in some, by name."""
    watched = [
        entries.watched(name, "https://git.example/r", credentials={"ca_file": file}) for name, file in trusted.items()
    ]
    reconcilers: list[Any] = [SimpleNamespace(watched=one) for one in watched]
    deliveries = deliveries or Deliveries()
    return certificates.CertificateObserver(
        lambda: reconcilers,
        deliveries.figures,
        deliveries.followed,
        secrets=SecretSources({}, (), SecretDirectory(folder)),
        clock=clock,
        certificate=certificate,
        authorities=authorities,
    )


@pytest.mark.parametrize(
    ("passed", "expected"),
    [
        (timedelta(days=-15), None),
        (timedelta(days=-13), Severity.WARNING),
        (timedelta(days=1), Severity.ERROR),
    ],
)
async def test_certificates_are_told_of_in_time(
    tmp_path: Path, clock: Moment, passed: timedelta, expected: Severity | None
) -> None:
    authority = Authority.make(tmp_path / "secrets" / "default")
    made = authority.issue(name="client")
    endpoint = Endpoint(
        host="a.example", mutual_tls=True, ca_file="authority.pem", cert_file="client.pem", key_file="client.key"
    )
    destination = Destination(name="siem", endpoint=endpoint)
    deliveries = Deliveries([Lane("default", "siem", "disk x", destination, None, None)])
    bundle = tmp_path / "bundle.pem"
    shutil.copy(authority.bundle, bundle)
    ends = end_of(made.chain)
    clock.instant = ends + passed
    observer = watching(
        tmp_path / "secrets",
        clock,
        certificate=made.chain,
        authorities=authority.bundle,
        deliveries=deliveries,
        a=bundle,
        b=None,
        c=bundle,
        d=authority.bundle,
    )
    found = first_of_each(await observer.observe())
    subjects = [str(made.chain), str(authority.bundle), str(bundle), "siem cert_file", "siem ca_file"]
    assert [(one.cause.subject, one.severity) for one in found] == (
        [] if expected is None else [(subject, expected) for subject in subjects]
    )
    assert [one.title.partition(" expire")[0] for one in found[2:3]] == (
        [] if expected is None else ["The last authority in `credentials.caFile` of the repository a"]
    )


async def test_files_are_read_again_after_a_while(tmp_path: Path, clock: Moment) -> None:
    authority, deliveries = Authority.make(tmp_path), Deliveries()
    old, new = (authority.issue(name=name).chain for name in ("old", "new"))
    file = tmp_path / "listener.pem"
    shutil.copy(old, file)
    clock.instant = end_of(old)
    observer = watching(tmp_path, clock, certificate=file, deliveries=deliveries)
    assert len((await observer.observe()).findings) == 1
    file.write_text("")
    assert not (await observer.observe()).findings[0].fading
    clock.pass_(seconds=certificates.EVERY.total_seconds() - 1)
    assert not (await observer.observe()).findings[0].fading
    clock.pass_(seconds=1)
    assert (await observer.observe()).findings[0].fading
    shutil.copy(new, file)
    clock.pass_(seconds=-1)  # a clock that was set back keeps nothing from being read
    assert not (await observer.observe()).findings[0].fading


async def test_after_a_reload_certificates_are_looked_at_at_once(tmp_path: Path, clock: Moment) -> None:
    authority = Authority.make(tmp_path)
    old, new = (authority.issue(name=name).chain for name in ("old", "new"))
    ends = end_of(old)
    clock.instant = ends
    observer = watching(tmp_path, clock, certificate=old)

    async def subjects() -> list[str]:
        return [subject for _, subject, _, _ in brief(await observer.observe())]

    assert await subjects() == [str(old)]
    observer.again(certificate=new)
    assert await subjects() == [str(new)]
    observer.again(certificate=None)
    assert await subjects() == [str(new)]
