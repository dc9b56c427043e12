"""Whether the disks have room: for log records, for large changes, for the copy before an upgrade."""

import os
from pathlib import Path
from typing import NamedTuple

from reconciler.upkeep import files
from reconciler.upkeep.findings import DoctorFinding, error, ok, warning

NAME = "disk"
LARGE_CHANGE_BYTES = 128 << 20  # below that the store gives large changes up
FEW_FILES = 1000


class DiskFacts(NamedTuple):
    """A folder's disk: bytes and files that are free to this user; None for a disk that counts no files."""

    folder: Path
    free: int
    files: int | None


def gather_disks(folder: Path) -> DiskFacts:
    """Look at the folder, or at the nearest one above it that is there. Raises OSError."""
    place = next(each for each in (folder, *folder.parents) if each.is_dir())
    found = os.statvfs(place)
    return DiskFacts(folder, found.f_bavail * found.f_frsize, found.f_favail if found.f_files else None)


def judge_disks(facts: DiskFacts, *, reserve: int, store_bytes: int) -> list[DoctorFinding]:
    """`reserve` is `delivery.freeBytes`; `store_bytes` how large the store on this disk is."""
    left = f"the disk of {facts.folder} has {files.size_text(facts.free)} left"
    if facts.files is not None and facts.files < FEW_FILES:
        todo = "remove files that nobody needs"
        return [error(NAME, f"the disk of {facts.folder} takes {facts.files} more files and no others", todo)]
    if facts.free < reserve:
        told = f"{left}, less than `delivery.freeBytes` ({files.size_text(reserve)}): log records are refused"
        return [error(NAME, told, "make room")]
    if facts.free < reserve + LARGE_CHANGE_BYTES:
        return [warning(NAME, f"{left}, little more than log records are refused at", "make room")]
    if facts.free < store_bytes + files.SPARE_BYTES:
        told = f"{left}, too little for the copy that an upgrade makes of the store ({files.size_text(store_bytes)})"
        return [warning(NAME, told, "make room before the next upgrade")]
    return [ok(NAME, left)]
