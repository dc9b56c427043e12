"""Disks that what the service keeps is on, and that are nearly full: those of the store, mirrors, queues and `ops.db`.

Belongs here: which folders share a disk, and how little room is little. Does not: what is refused for want of room
(`queueing`), sentences.

A disk that hangs keeps the look waiting, as it does the service itself.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications.models import Cause, Domain, Facts, Finding, Look

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
