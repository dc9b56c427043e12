"""Observers of the service itself: disks, the store, open files, keys and certificates."""

import asyncio
import logging
import os
import resource
import ssl
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Protocol

from reconciler.delivery import tls
from reconciler.delivery.secrets import SecretSources
from reconciler.model import errors, principals
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.directory import Directory, Key, is_expired
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.model.principals import UNLISTED, AccessVerdict, Permission
from reconciler.model.routes import Endpoint
from reconciler.notifications.models import Cause, Domain, Facts, Finding, Look
from reconciler.notifications.observers import ObservedDeliveries, ObservedRepositories
from reconciler.notifications.rendering import LISTED
from reconciler.settings import bounded_io
from reconciler.store.contract import StoreFault
from reconciler.store.records import DamagedVersion, StoreFigures

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

    async def look(self) -> list[Look]:
        """Each disk once."""
        return [Look(Domain.DISK, tuple(await asyncio.to_thread(self._low)))]

    def _low(self) -> list[Finding]:
        spare: dict[int, int] = {}
        names: dict[int, Path] = {}
        refusing = None
        for folder in self._folders:
            try:
                device, found = folder.stat().st_dev, os.statvfs(folder)
            except OSError:  # not made yet, or whoever needs it says what is wrong
                continue
            spare[device] = found.f_bavail * found.f_frsize - self._reserve
            names.setdefault(device, folder)
            if folder == self._queues:
                refusing = device
        return [
            finding
            for device, folder in names.items()
            for finding in low_disks(spare[device], folder=str(folder), has_queues=device == refusing)
        ]


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


class ObservedStore(Protocol):
    """The store as far as its use is concerned."""

    async def revision(self) -> int:
        """Raises StoreFault."""

    def figures(self) -> StoreFigures:
        """Return its counts."""


class StoreObserver:
    """Remembers what was counted at the last look."""

    def __init__(self, store: ObservedStore, *, unwritten: Callable[[], str], clock: Clock) -> None:
        """`unwritten` says why notifications could not be written beside it; empty when they could."""
        self._store = store
        self._unwritten = unwritten
        self._clock = clock
        self._failed = self._stored = 0
        self._failed_at: datetime | None = None  # None once something was written since

    async def look(self) -> list[Look]:
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
        found = (
            [Finding(Cause(NotificationType.STORE_DEGRADED), Severity.CRITICAL, {"message": message})]
            if message
            else []
        )
        return [Look(Domain.STORE, tuple(found))]


class Examined(Protocol):
    """The store as far as damage is concerned."""

    async def examine(self) -> None:
        """Look through all of it. Raises StoreFault."""

    async def damaged(self) -> list[DamagedVersion]:
        """Raises StoreFault."""


class DamageObserver:
    """Reports damaged versions, whoever found them, and databases that a start set aside."""

    def __init__(self, store: Examined, *, set_aside: Callable[[], Sequence[Path]]) -> None:
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

    async def look(self) -> list[Look]:
        """Tell what is damaged now. Raises StoreFault."""
        aside = await asyncio.to_thread(self._set_aside)
        findings = [Finding(Cause(NotificationType.SESSIONS_LOST, str(path)), Severity.ERROR) for path in aside]
        found = await self._store.damaged()
        cause = Cause(NotificationType.STORE_DAMAGED)
        if found:
            names = tuple(_told(one) for one in found[:NAMED])
            findings.append(Finding(cause, Severity.CRITICAL, {"total": len(found), "names": names}))
        elif not self._is_examined:  # what an earlier start found may be there still
            findings.append(Finding(cause, Severity.CRITICAL, fading=True))
        return [Look(Domain.DAMAGE, tuple(findings))]


def _told(one: DamagedVersion) -> str:
    return f"{one.kind} {one.name} (version {one.version}, project {one.project})"


# Open files. At the limit nothing else says so: the event loop closes each new connection without a word.

DESCRIPTORS = Path("/proc/self/fd")
MANY, FEWER = 0.9, 0.75  # of the limit: a notification opens, and ends below


class OpenFilesObserver:
    """Compares the number of open files with the limit, and logs when there are too many."""

    def __init__(self, folder: Path = DESCRIPTORS) -> None:
        self._folder = folder
        self._is_told = False

    async def look(self) -> list[Look]:
        """Count once."""
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most == resource.RLIM_INFINITY:
            return [Look(Domain.OPEN_FILES, ())]
        found = await asyncio.to_thread(self._count)
        share = 1.0 if found is None else min(found / most, 1.0)
        if share >= MANY and not self._is_told:
            log.error("Of %d files that the service may open, %d are: %s.", most, found or most, errors.OPEN_FILES)
        self._is_told = share >= (FEWER if self._is_told else MANY)
        if share < FEWER:
            return [Look(Domain.OPEN_FILES, ())]
        facts: Facts = {"percent": int(share * 10) * 10, "most": most}
        finding = Finding(Cause(NotificationType.TOO_MANY_OPEN_FILES), Severity.CRITICAL, facts, fading=share < MANY)
        return [Look(Domain.OPEN_FILES, (finding,))]

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

OPERATORS = frozenset(principal.name for principal in UNLISTED)  # nobody takes their role away


class KeyObserver:
    """Remembers what it found of the directory, which seldom changes."""

    def __init__(self, directory: Callable[[], Directory], *, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._seen: Directory | None = None
        self._until: str | None = None  # the first of the keys that were found ends then
        self._findings: tuple[Finding, ...] = ()

    async def look(self) -> list[Look]:
        """One finding for each maker in each project; the organization is the project that is empty."""
        directory, now = self._directory(), rfc3339(self._clock())
        if directory is not self._seen or (self._until is not None and now >= self._until):
            found = keys_to_review(directory, now=now)
            ends = (key.expires_at for keys in found.values() for key in keys if key.expires_at is not None)
            self._seen, self._until = directory, min(ends, default=None)
            self._findings = tuple(_key_finding(project, maker, keys) for (project, maker), keys in found.items())
        return [Look(Domain.KEYS, self._findings)]


def keys_to_review(directory: Directory, *, now: str) -> Mapping[tuple[str, str], list[Key]]:
    """Return the keys that still open something and whose makers may not make them any more, by project and maker."""
    found: defaultdict[tuple[str, str], list[Key]] = defaultdict(list)
    by_name = {f"key:{key.id}": key for key in directory.keys.values()}
    for key in sorted(directory.keys.values(), key=lambda key: (key.project or "", key.created_by, key.id)):
        if key.owner is None and not is_expired(key, now=now) and not _may_make(directory, key, by_name, now=now):
            found[key.project or "", key.created_by].append(key)
    return found


def _may_make(directory: Directory, key: Key, by_name: Mapping[str, Key], *, now: str) -> bool:
    """Return True when the maker of a key still could make it. A key may be older than the rule that keys make none."""
    if key.created_by in OPERATORS:
        return True
    user, maker = directory.users.get(key.created_by.removeprefix("user:")), by_name.get(key.created_by)
    if maker is not None and not is_expired(maker, now=now):
        principal = directory.holder_of(maker)
    elif user is not None and key.created_by.startswith("user:") and user.created_at <= key.created_at:
        principal = directory.principal(user)  # and nobody of the same name who came later
    else:
        return False
    permission = Permission.MANAGE_ORGANIZATION if key.project is None else Permission.MANAGE_KEYS
    return principals.judge(principal, permission, project=key.project) is AccessVerdict.ALLOWED


def _key_finding(project: str, maker: str, keys: list[Key]) -> Finding:
    named = tuple(f"{key.name} ({key.id})" for key in keys[:LISTED])
    facts: Facts = {"total": len(keys), "names": named}
    return Finding(Cause(NotificationType.KEYS_TO_REVIEW, maker, project), Severity.WARNING, facts)


# Certificates that end soon. Files are read on a thread, every five minutes and at once after a reload.

SOON = timedelta(days=14)
EVERY = 300.0  # seconds
MOST_BYTES = 1 << 20  # of a file
RENEW = "Renew it and put the new one into the file; it is taken over by `systemctl reload reconciler`."
REPLACE = "Put the present authorities into the file."
RENEW_CLIENT = "Renew it and put the new one into the project's folder of secrets; it is used at the next request."
REPLACE_REPOSITORY = "Put the present authorities into the file; they are used at the next look."
REPLACE_CLIENT = "Put the present authority into the project's folder of secrets; it is used at the next request."


@dataclass(frozen=True, slots=True)
class OwnCertificates:
    """The files of the settings; None for those that are not named. `repositories` have some of theirs."""

    repositories: ObservedRepositories
    certificate: Path | None = None
    authorities: Path | None = None


class CertificateObserver:
    """Looks at files now and then."""

    def __init__(
        self,
        own: OwnCertificates,
        deliveries: ObservedDeliveries,
        *,
        secrets: SecretSources,
        clock: Clock,
        monotonic: Callable[[], float],
        every: float = EVERY,
    ) -> None:
        """`every` so many seconds the files of a project, or of the settings, are read."""
        self._own = own
        self._deliveries = deliveries
        self._secrets = secrets
        self._clock = clock
        self._monotonic = monotonic
        self._every = every
        self._looked_at: dict[str, float] = {}

    def again(self, *, certificate: Path | None) -> None:
        """Have the next look read all files. The listener's may be another; without one it shows the one it had."""
        self._own = replace(self._own, certificate=certificate or self._own.certificate)
        self._looked_at = {}

    async def look(self) -> list[Look]:
        """The settings' files (part ""), and those of each project, as far as it is time."""
        now, looked_at = self._monotonic(), self._looked_at
        due = [
            part
            for part in ("", *sorted(self._deliveries.followed()))
            if now - looked_at.get(part, now - self._every) >= self._every
        ]
        if not due:
            return []
        endpoints: dict[str, dict[str, Endpoint]] = {}
        for lane in self._deliveries.figures().lanes:
            if lane.destination is not None:
                endpoints.setdefault(lane.project, {}).setdefault(lane.name, lane.destination.endpoint)
        trusted = {
            str(one.watched.credentials.ca_file): one.watched.name
            for one in reversed(self._own.repositories.reconcilers())
            if one.watched.credentials.ca_file is not None
        }
        looks = await asyncio.to_thread(self._read, due, endpoints, trusted)
        looked_at.update(dict.fromkeys(due, now))  # `again` may have been called meanwhile
        return looks

    def _read(
        self, due: Collection[str], endpoints: dict[str, dict[str, Endpoint]], trusted: dict[str, str]
    ) -> list[Look]:
        now = self._clock()
        found = {part: self._of_project(part, endpoints.get(part, {}), now) for part in due if part}
        if "" in due:
            found[""] = _each_once(chain(self._of_settings(now), _of_repositories(trusted, now)))
        return [Look(Domain.CERTIFICATES, tuple(found[part]), part=part) for part in due]

    def _of_settings(self, now: datetime) -> Iterator[Finding]:
        if self._own.certificate is not None:
            until = _leaf(_text(self._own.certificate))
            what = "The listener's certificate"
            yield from _finding(
                Cause(NotificationType.CERTIFICATE_EXPIRING, str(self._own.certificate)), what, until, RENEW, now
            )
        if self._own.authorities is not None:
            until = _authorities(_text(self._own.authorities))
            what = "The last authority of `outbound.caFile`"
            yield from _finding(
                Cause(NotificationType.CERTIFICATE_EXPIRING, str(self._own.authorities)), what, until, REPLACE, now
            )

    def _of_project(self, project: str, endpoints: dict[str, Endpoint], now: datetime) -> Iterator[Finding]:
        for name, endpoint in sorted(endpoints.items()):
            if endpoint.scheme != "https" or not (endpoint.ca_file or endpoint.mutual_tls):
                continue
            try:
                files = tls.read_tls_file(endpoint, sources=self._secrets, project=project, authorities=None)
            except tls.UnusableFile:  # nothing can be sent, which is told elsewhere, and nothing is known of the end
                for file in ("cert_file", "ca_file"):
                    cause = Cause(NotificationType.CERTIFICATE_EXPIRING, f"{name} {file}", project)
                    yield Finding(cause, Severity.WARNING, {}, fading=True)
                continue
            if files.certificate:
                cause = Cause(NotificationType.CERTIFICATE_EXPIRING, f"{name} cert_file", project)
                what = f"The client certificate of the destination {name}"
                yield from _finding(cause, what, _leaf(files.certificate), RENEW_CLIENT, now)
            if files.authority:
                cause = Cause(NotificationType.CERTIFICATE_EXPIRING, f"{name} ca_file", project)
                what = f"The last authority of the destination {name}"
                yield from _finding(cause, what, _authorities(files.authority), REPLACE_CLIENT, now)


def _of_repositories(trusted: dict[str, str], now: datetime) -> Iterator[Finding]:
    """Of each file that repositories trust, once, with the name of the first of them. It stands in the settings, so it
    is the organization's.
    """
    for file, name in sorted(trusted.items()):
        what = f"The last authority in `credentials.caFile` of the repository {name}"
        until = _authorities(_text(Path(file)))
        yield from _finding(Cause(NotificationType.CERTIFICATE_EXPIRING, file), what, until, REPLACE_REPOSITORY, now)


def _each_once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Of a file that the settings name in several places, the worst that is known of it; else the first."""
    found: dict[Cause, Finding] = {}
    for one in findings:
        known = found.get(one.cause)
        if known is None or _weight(one) > _weight(known):
            found[one.cause] = one
    yield from found.values()


def _weight(one: Finding) -> int:
    return -1 if one.fading else one.severity.weight


def _finding(cause: Cause, what: str, until: datetime | None, todo: str, now: datetime) -> Iterator[Finding]:
    if until is None:  # an unreadable file says nothing: what was told of it before stays
        yield Finding(cause, Severity.WARNING, {}, fading=True)
        return
    if until - now > SOON:
        return
    is_over = until <= now
    facts: Facts = {"what": what, "until": f"{until:%Y-%m-%d}", "expired": int(is_over), "todo": todo}
    yield Finding(cause, Severity.ERROR if is_over else Severity.WARNING, facts)


def _text(path: Path) -> str:
    """Empty for a file that cannot be read: whoever needs it says so."""
    try:
        return bounded_io.read_file(path, limit=MOST_BYTES).decode("ascii", "replace")
    except (OSError, bounded_io.NotAFile, bounded_io.FileTooLarge):
        return ""


def _leaf(pem: str) -> datetime | None:
    span = tls.certificate_span(pem)
    return None if span is None else span.until


def _authorities(pem: str) -> datetime | None:
    """When the last of several authorities ends; as long as there is one, what it signed is trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError):
        return None
    ends = [ssl.cert_time_to_seconds(str(one["notAfter"])) for one in context.get_ca_certs()]
    return datetime.fromtimestamp(max(ends), UTC) if ends else None
