"""Observers of the service itself: disks, the store, open files, keys and certificates."""

import asyncio
import contextlib
import logging
import os
import resource
import ssl
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from reconciler.auth import changes
from reconciler.delivery import tls
from reconciler.delivery.lanes import Lane
from reconciler.delivery.secrets import SecretSources
from reconciler.delivery.status import DeliveryFigures
from reconciler.model import errors
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.directory import Directory
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.model.text import visible
from reconciler.notifications.models import Cause, Domain, Facts, Finding, Look
from reconciler.notifications.rendering import LISTED
from reconciler.reconcile.reconciler import Reconciler
from reconciler.reconcile.watched import WatchedRepository
from reconciler.settings import bounded_io
from reconciler.store.contract import Store, StoreFault

log = logging.getLogger(__name__)

# Disks that are nearly full: those of the store, mirrors, queues and `ops.db`.
#
# A disk that hangs keeps the look waiting, as it does the service itself.

LOW, ENOUGH = 128 << 20, 192 << 20  # spare bytes: a notification opens below, and ends above


class DiskObserver:
    """Looks at the file systems of some folders."""

    def __init__(self, folders: Sequence[Path], *, queues: Path, reserve: int) -> None:
        """`folders` hold what is kept, the most telling name of a disk first. Log records are refused once that of
        `queues`, which is one of them, has no more than `reserve` bytes.
        """
        self._folders = folders
        self._queues = queues
        self._reserve = reserve

    async def look(self) -> Look:
        """Each disk once."""
        return Look(Domain.DISK, tuple(await asyncio.to_thread(self._low)))

    def _low(self) -> list[Finding]:
        on: dict[int, list[Path]] = {}  # folders by disk
        for folder in self._folders:
            with contextlib.suppress(OSError):  # not made yet, or whoever needs it says what is wrong
                on.setdefault(folder.stat().st_dev, []).append(folder)
        findings: list[Finding] = []
        for folders in on.values():
            found = os.statvfs(folders[0])
            spare = found.f_bavail * found.f_frsize - self._reserve
            findings += low_disks(spare, folder=visible(str(folders[0])), has_queues=self._queues in folders)
        return findings


def low_disks(spare: int, *, folder: str, has_queues: bool) -> list[Finding]:
    """`spare` bytes may be written before the reserve is reached; below zero the disk is beyond it."""
    if spare >= ENOUGH:
        return []
    facts: Facts = {"beyond": int(spare < 0), "queues": int(has_queues), "folder": folder}
    severity = Severity.CRITICAL if spare < 0 else Severity.WARNING
    return [Finding(Cause(NotificationType.DISK_LOW, folder), severity, facts, fading=spare >= LOW)]


# The store: reads and writes that fail, notifications that could not be written, damaged versions and databases.

QUIET = timedelta(minutes=10)  # after the last change that could not be written, when none was tried since
EXAMINING_SECONDS = 24 * 3600.0  # between two looks through the whole store
AFTER_FAULT_SECONDS = 600.0
NAMED = 10  # damaged versions that a notification names
WRITE = "A change could not be written to the store; the log says why."


class StoreObserver:
    """Remembers what was counted at the last look."""

    def __init__(self, store: Store, *, unwritten: Callable[[], str], clock: Clock) -> None:
        """`unwritten` says why notifications could not be written beside it; empty when they could."""
        self._store = store
        self._unwritten = unwritten
        self._clock = clock
        self._failed = self._stored = 0
        self._failed_at: datetime | None = None  # None once something was written since

    async def look(self) -> Look:
        """Read something, and look at what was written."""
        now, commits = self._clock(), self._store.figures().commits
        failed, stored = commits.failed, sum(commits.seconds.counts)
        if failed > self._failed:
            self._failed_at = now
        elif stored > self._stored or (self._failed_at is not None and now - self._failed_at >= QUIET):
            self._failed_at = None
        self._failed, self._stored = failed, stored
        message = self._unwritten() if self._failed_at is None else WRITE
        try:
            await self._store.revision()
        except StoreFault as fault:
            message = fault.message
        finding = Finding(Cause(NotificationType.STORE_DEGRADED), Severity.CRITICAL, {"message": message})
        return Look(Domain.STORE, (finding,) if message else ())


class DamageObserver:
    """Reports damaged versions, whoever found them, and databases that a start set aside."""

    def __init__(self, store: Store, *, set_aside: Callable[[], Sequence[Path]]) -> None:
        """`set_aside` returns the damaged databases that are still there."""
        self._store = store
        self._set_aside = set_aside
        self._is_examined = False

    async def keep(self) -> None:
        """Look through the store now, and then again and again."""
        while True:
            seconds = EXAMINING_SECONDS
            try:
                await self._store.examine()
                self._is_examined = True
            except StoreFault as fault:
                log.warning("The store could not be looked through for damage. %s", fault.message)
                seconds = AFTER_FAULT_SECONDS
            await asyncio.sleep(seconds)

    async def look(self) -> Look:
        """Tell what is damaged now. Raises StoreFault."""
        aside = await asyncio.to_thread(self._set_aside)
        findings = [
            Finding(Cause(NotificationType.SESSIONS_LOST, visible(str(path))), Severity.ERROR) for path in aside
        ]
        found = await self._store.damaged()
        cause = Cause(NotificationType.STORE_DAMAGED)
        if found:
            names = tuple(
                f"{one.kind} {one.name} (version {one.version}, project {one.project})" for one in found[:NAMED]
            )
            findings.append(Finding(cause, Severity.CRITICAL, {"total": len(found), "names": names}))
        elif not self._is_examined:  # what an earlier start found may be there still
            findings.append(Finding(cause, Severity.CRITICAL, fading=True))
        return Look(Domain.DAMAGE, tuple(findings))


# Open files. At the limit nothing else says so: the event loop closes each new connection without a word.

DESCRIPTORS = Path("/proc/self/fd")
MANY, FEWER = 0.9, 0.75  # of the limit: a notification opens, and ends below


class OpenFilesObserver:
    """Compares the number of open files with the limit, and logs when there are too many."""

    def __init__(self, folder: Path = DESCRIPTORS) -> None:
        self._folder = folder
        self._is_told = False

    async def look(self) -> Look:
        """Count once."""
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most == resource.RLIM_INFINITY:
            return Look(Domain.OPEN_FILES, ())
        found = await asyncio.to_thread(self._count)
        share = 1.0 if found is None else min(found / most, 1.0)
        if share >= MANY and not self._is_told:
            log.error("Of %d files that the service may open, %d are: %s.", most, found or most, errors.OPEN_FILES)
        self._is_told = share >= (FEWER if self._is_told else MANY)
        if share < FEWER:
            return Look(Domain.OPEN_FILES, ())
        facts: Facts = {"percent": int(share * 10) * 10, "most": most}
        finding = Finding(Cause(NotificationType.TOO_MANY_OPEN_FILES), Severity.CRITICAL, facts, fading=share < MANY)
        return Look(Domain.OPEN_FILES, (finding,))

    def _count(self) -> int | None:
        """Return how many are open; None when not even the folder of them can be opened."""
        try:
            return sum(1 for _ in self._folder.iterdir()) - 1  # without the folder itself
        except OSError as problem:
            if errors.is_open_files(problem):
                return None
            raise


# Keys of projects and of the organization whose makers are no admins any more. A maker may know the key, so somebody
# should decide about it.


class KeyObserver:
    """Looks through the directory."""

    def __init__(self, directory: Callable[[], Directory], *, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock

    async def look(self) -> Look:
        """One finding for each maker in each project; the organization is the project that is empty."""
        findings = []
        for (project, maker), keys in changes.keys_to_review(self._directory(), now=rfc3339(self._clock())).items():
            facts: Facts = {"total": len(keys), "names": tuple(f"{key.name} ({key.id})" for key in keys[:LISTED])}
            findings.append(Finding(Cause(NotificationType.KEYS_TO_REVIEW, maker, project), facts=facts))
        return Look(Domain.KEYS, tuple(findings))


# Certificates that end soon. Files are read on a thread, every five minutes and at once after a reload.

SOON = timedelta(days=14)
EVERY = 300.0  # seconds
MOST_BYTES = 1 << 20  # of a file
RENEW = "Renew it and put the new one into the file; it is taken over by `systemctl reload reconciler`."
REPLACE = "Put the present authorities into the file."
RENEW_CLIENT = "Renew it and put the new one into the project's folder of secrets; it is used at the next request."
REPLACE_REPOSITORY = "Put the present authorities into the file; they are used at the next look."
REPLACE_CLIENT = "Put the present authority into the project's folder of secrets; it is used at the next request."


class ExpiringFile(NamedTuple):
    """A file with certificates: its cause and its name in a sentence, when it ends, and what to do then. `until` is
    None for a file that cannot be read: whoever needs it says so.
    """

    cause: Cause
    what: str
    until: datetime | None
    todo: str


class CertificateObserver:
    """Looks at files now and then: those of the settings, of repositories and of destinations."""

    def __init__(
        self,
        reconcilers: Callable[[], list[Reconciler]],
        figures: Callable[[], DeliveryFigures],
        followed: Callable[[], Collection[str]],
        *,
        secrets: SecretSources,
        clock: Clock,
        monotonic: Callable[[], float],
        certificate: Path | None = None,
        authorities: Path | None = None,
        every: float = EVERY,
    ) -> None:
        """`certificate` and `authorities` are files of the settings. `every` so many seconds all files are read."""
        self._reconcilers = reconcilers
        self._figures = figures
        self._followed = followed
        self._secrets = secrets
        self._clock = clock
        self._monotonic = monotonic
        self._certificate = certificate
        self._authorities = authorities
        self._every = every
        self._last: Look | None = None
        self._next = 0.0

    def again(self, *, certificate: Path | None) -> None:
        """Have the next look read all files. The listener's may be another; without one it shows the one it had."""
        self._certificate = certificate or self._certificate
        self._last = None

    async def look(self) -> Look:
        """The last look, or a new one when it is time, or another project is followed."""
        now, projects = self._monotonic(), frozenset({"", *self._followed()})
        if self._last is None or now >= self._next or self._last.projects != projects:
            self._next = now + self._every
            repositories = [one.watched for one in self._reconcilers()]
            lanes = [lane for lane in self._figures().lanes if lane.project in projects]
            findings = await asyncio.to_thread(self._read, repositories, lanes)
            self._last = Look(Domain.CERTIFICATES, findings, projects)
        return self._last

    def _read(self, repositories: Sequence[WatchedRepository], lanes: Sequence[Lane]) -> tuple[Finding, ...]:
        files = [*self._of_settings(), *_of_repositories(repositories), *self._of_destinations(lanes)]
        now = self._clock()
        findings = [found for file in files if (found := _finding(file, now)) is not None]
        # Of a file that the settings name in several places the worst counts, which comes first.
        findings.sort(key=lambda one: -1 if one.fading else one.severity.weight, reverse=True)
        return tuple(findings)

    def _of_settings(self) -> Iterator[ExpiringFile]:
        if self._certificate is not None:
            cause = Cause(NotificationType.CERTIFICATE_EXPIRING, visible(str(self._certificate)))
            yield ExpiringFile(cause, "The listener's certificate", _leaf(_text(self._certificate)), RENEW)
        if self._authorities is not None:
            cause = Cause(NotificationType.CERTIFICATE_EXPIRING, visible(str(self._authorities)))
            until = _last_authority(_text(self._authorities))
            yield ExpiringFile(cause, "The last authority of `outbound.caFile`", until, REPLACE)

    def _of_destinations(self, lanes: Sequence[Lane]) -> Iterator[ExpiringFile]:
        endpoints = {
            (lane.project, lane.name): lane.destination.endpoint for lane in lanes if lane.destination is not None
        }
        for (project, name), endpoint in sorted(endpoints.items()):
            try:
                files = tls.read_tls_file(endpoint, sources=self._secrets, project=project, authorities=None)
                certificate, authority = files.certificate, files.authority
            except tls.UnusableFile:  # nothing can be sent, which is told elsewhere, and nothing is known of the end
                certificate = authority = "unusable"
            if certificate:
                cause = Cause(NotificationType.CERTIFICATE_EXPIRING, f"{name} cert_file", project)
                what = f"The client certificate of the destination {name}"
                yield ExpiringFile(cause, what, _leaf(certificate), RENEW_CLIENT)
            if authority:
                cause = Cause(NotificationType.CERTIFICATE_EXPIRING, f"{name} ca_file", project)
                what = f"The last authority of the destination {name}"
                yield ExpiringFile(cause, what, _last_authority(authority), REPLACE_CLIENT)


def _of_repositories(repositories: Sequence[WatchedRepository]) -> Iterator[ExpiringFile]:
    """Yield each file that repositories trust once, with the name of the first of them. It is in the settings, so it is
    the organization's.
    """
    trusted: dict[Path, str] = {}
    for one in repositories:
        if one.credentials.ca_file is not None:
            trusted.setdefault(one.credentials.ca_file, one.name)
    for file, name in sorted(trusted.items()):
        what = f"The last authority in `credentials.caFile` of the repository {name}"
        cause = Cause(NotificationType.CERTIFICATE_EXPIRING, visible(str(file)))
        yield ExpiringFile(cause, what, _last_authority(_text(file)), REPLACE_REPOSITORY)


def _finding(file: ExpiringFile, now: datetime) -> Finding | None:
    if file.until is None:  # what was told of it before stays
        return Finding(file.cause, fading=True)
    if file.until - now > SOON:
        return None
    is_over = file.until <= now
    facts: Facts = {
        "what": file.what,
        "until": f"{file.until:%Y-%m-%d}",
        "expired": int(is_over),
        "todo": file.todo,
    }
    return Finding(file.cause, Severity.ERROR if is_over else Severity.WARNING, facts)


def _text(path: Path) -> str:
    """Return the text of a file, empty when it cannot be read."""
    try:
        return bounded_io.read_file(path, limit=MOST_BYTES).decode("ascii", "replace")
    except (OSError, bounded_io.NotAFile, bounded_io.FileTooLarge):
        return ""


def _leaf(pem: str) -> datetime | None:
    span = tls.certificate_span(pem)
    return None if span is None else span.until


def _last_authority(pem: str) -> datetime | None:
    """When the last of several authorities ends; as long as there is one, what it signed is trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError):
        return None
    ends = [ssl.cert_time_to_seconds(str(one["notAfter"])) for one in context.get_ca_certs()]
    return datetime.fromtimestamp(max(ends), UTC) if ends else None
