"""Observers of the service itself: disks, the store, open files and keys."""

import asyncio
import contextlib
import logging
import os
import resource
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from reconciler.auth import changes
from reconciler.model import errors
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.directory import Directory
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.model.text import counted, visible
from reconciler.notifications import rendering
from reconciler.notifications.models import Cause, Domain, Finding, Observation
from reconciler.replicas.work import ALONE, Work
from reconciler.store.contract import Store, StoreFault

log = logging.getLogger(__name__)

# Disks that are nearly full: those of the store, mirrors, queues and `ops.db`.
#
# A disk that hangs delays the check, and the service itself too.

LOW, ENOUGH = 128 << 20, 192 << 20  # spare bytes: a notification opens below, and ends above


class DiskObserver:
    """Checks the disks of some folders."""

    def __init__(self, folders: Sequence[Path], *, reserve: int) -> None:
        """`folders` are those with data, the best name for each disk first. `reserve` bytes must stay free."""
        self._folders = folders
        self._reserve = reserve

    async def observe(self) -> Observation:
        """Check each disk once."""
        return Observation(Domain.DISK, tuple(await asyncio.to_thread(self._low)))

    def _low(self) -> list[Finding]:
        first: dict[int, Path] = {}  # folder by disk
        for folder in self._folders:
            with contextlib.suppress(OSError):  # missing, or reported where it is used
                first.setdefault(folder.stat().st_dev, folder)
        findings: list[Finding] = []
        for folder in first.values():
            found = os.statvfs(folder)
            findings += low_disks(found.f_bavail * found.f_frsize - self._reserve, folder=visible(str(folder)))
        return findings


def low_disks(spare: int, *, folder: str) -> list[Finding]:
    """Return the findings about disks. `spare` is the number of bytes that may be written before the reserve is
    reached, negative below it.
    """
    if spare >= ENOUGH:
        return []
    room = "less" if spare < 0 else "little more"
    severity = Severity.CRITICAL if spare < 0 else Severity.WARNING
    title, details = f"The disk of {folder} is nearly full", f"It has {room} room than `delivery.freeBytes`."
    return [Finding(Cause(NotificationType.DISK_LOW, folder), severity, title, details, fading=spare >= LOW)]


# The store: reads and writes that fail, notifications that could not be written, damaged versions and databases.

QUIET = timedelta(minutes=10)  # after the last failed write, if none was tried since
EXAMINING_SECONDS = 24 * 3600.0  # between two checks of the whole store
AFTER_FAULT_SECONDS = 600.0
NAMED = 10  # damaged versions that a notification names
WRITE = "A change could not be written to the store; the log says why."


class StoreObserver:
    """Checks the store. It remembers the counts of the last check."""

    def __init__(self, store: Store, *, unwritten: Callable[[], str], clock: Clock) -> None:
        """`unwritten` returns why notifications could not be written; empty if they could."""
        self._store = store
        self._unwritten = unwritten
        self._clock = clock
        self._failed = self._stored = 0
        self._failed_at: datetime | None = None  # None once something was written since

    async def observe(self) -> Observation:
        """Read from the store, and compare the counts of writes."""
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
        title, details = "The store cannot be used as it should", rendering.sentence(message)
        finding = Finding(Cause(NotificationType.STORE_DEGRADED), Severity.CRITICAL, title, details)
        return Observation(Domain.STORE, (finding,) if message else ())


class DamageObserver:
    """Reports damaged versions that any read found, and databases that a start set aside."""

    def __init__(self, store: Store, *, set_aside: Callable[[], Sequence[Path]], work: Work = ALONE) -> None:
        """`set_aside` returns the damaged databases that are still there."""
        self._store = store
        self._work = work
        self._set_aside = set_aside
        self._is_examined = False

    async def keep(self) -> None:
        """Examine the store now and then regularly. One replica does this."""
        while True:
            await self._work.turn()
            seconds = EXAMINING_SECONDS
            try:
                await self._store.examine()
                self._is_examined = True
            except StoreFault as fault:
                log.warning("The store could not be looked through for damage. %s", fault.message)
                seconds = AFTER_FAULT_SECONDS
            await self._work.end_of_turn(seconds=seconds)

    async def observe(self) -> Observation:
        """Return the findings about damage. Raises StoreFault."""
        aside = await asyncio.to_thread(self._set_aside)
        lost = "The database of sessions and notifications was damaged and is a new one"
        findings = [
            Finding(
                Cause(NotificationType.SESSIONS_LOST, visible(str(path))), Severity.ERROR, lost, f"The file is {path}."
            )
            for path in aside
        ]
        found = await self._store.damaged()
        cause = Cause(NotificationType.STORE_DAMAGED)
        if found:
            names = [f"{one.kind} {one.name} (version {one.version}, project {one.project})" for one in found[:NAMED]]
            title = f"Damaged: {counted(len(found), 'stored version')} of resources"
            details = f"{rendering.named(names, total=len(found))}: the store holds something else than was stored."
            findings.append(Finding(cause, Severity.CRITICAL, title, details))
        elif self._work.is_mine and not self._is_examined:  # damage that an earlier process found may still exist
            findings.append(Finding(cause, Severity.CRITICAL, fading=True))
        return Observation(Domain.DAMAGE, tuple(findings))


# Open files. At the limit, the event loop closes each new connection silently, so nothing else reports it.

DESCRIPTORS = Path("/proc/self/fd")
MANY, FEWER = 0.9, 0.75  # of the limit: a notification opens, and ends below


class OpenFilesObserver:
    """Compares the number of open files with the limit, and logs when there are too many."""

    def __init__(self, folder: Path = DESCRIPTORS) -> None:
        self._folder = folder
        self._is_told = False

    async def observe(self) -> Observation:
        """Count once."""
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most == resource.RLIM_INFINITY:
            return Observation(Domain.OPEN_FILES, ())
        found = await asyncio.to_thread(self._count)
        share = 1.0 if found is None else min(found / most, 1.0)
        if share >= MANY and not self._is_told:
            log.error("Of %d files that the service may open, %d are: %s.", most, found or most, errors.OPEN_FILES)
        self._is_told = share >= (FEWER if self._is_told else MANY)
        if share < FEWER:
            return Observation(Domain.OPEN_FILES, ())
        cause, title = Cause(NotificationType.TOO_MANY_OPEN_FILES), "The service has too many files open"
        details = f"It has {int(share * 10) * 10} percent or more of {most:,} open."
        finding = Finding(cause, Severity.CRITICAL, title, details, fading=share < MANY)
        return Observation(Domain.OPEN_FILES, (finding,))

    def _count(self) -> int | None:
        """Return the number of open files; None if their folder cannot be opened."""
        try:
            return sum(1 for _ in self._folder.iterdir()) - 1  # without the folder itself
        except OSError as problem:
            if errors.is_open_files(problem):
                return None
            raise


# Keys of projects and of the organization whose makers are no admins any more. A maker may know the key, so somebody
# should decide about it.


LISTED = 50  # keys in a sentence: many, because a person must decide about each


class KeyObserver:
    """Checks the makers of keys."""

    def __init__(self, directory: Callable[[], Directory], *, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock

    async def observe(self) -> Observation:
        """Return one finding for each maker in each project; '' is the organization."""
        findings = []
        for (project, maker), keys in changes.keys_to_review(self._directory(), now=rfc3339(self._clock())).items():
            of = f"the project {project}" if project else "the organization"
            title = f"{counted(len(keys), 'key')} of {of} to review: {maker} is no admin there any more"
            names = [f"{key.name} ({key.id})" for key in keys[:LISTED]]
            details = f"{rendering.named(names, total=len(keys))}."
            cause = Cause(NotificationType.KEYS_TO_REVIEW, maker, project)
            findings.append(Finding(cause, title=title, details=details))
        return Observation(Domain.KEYS, tuple(findings))
