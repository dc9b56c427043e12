"""Which process holds a state directory: whether the service runs. Looked up, never by taking the lock oneself, which
would keep a service from starting at that moment.
"""

import os
import re
from pathlib import Path

LOCK = "lock"  # in the state directory (`reconciler.daemon.locking`)
STORE_LOCK = ".lock"  # behind the name of the store, beside it
LOCKS = Path("/proc/locks")
_LINE = re.compile(r"FLOCK\s+ADVISORY\s+WRITE\s+(\d+)\s+([0-9a-f]+):([0-9a-f]+):(\d+)\s")


def directory_holder(state_directory: Path) -> int | None:
    """The process that uses it; None when there is none, or nobody can tell."""
    lock = state_directory / LOCK
    try:
        held = lock.stat()
        text = LOCKS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    return processes_holding(text, device=held.st_dev, inode=held.st_ino) or named_process(lock)


def processes_holding(locks: str, *, device: int, inode: int) -> int | None:
    """Who holds a file, by the text of /proc/locks."""
    wanted = os.major(device), os.minor(device), inode
    for process, major, minor, node in _LINE.findall(locks):
        if (int(major, 16), int(minor, 16), int(node)) == wanted:
            return int(process)
    return None


def named_process(lock: Path) -> int | None:
    """The process that wrote its number into a lock and has it open still: disks with subvolumes have other numbers in
    /proc/locks than their files say.
    """
    try:
        told = lock.read_bytes()[:20].decode("ascii", "replace").strip()
        opened = list(Path(f"/proc/{int(told)}/fd").iterdir())
    except (OSError, ValueError):
        return None
    return int(told) if any(_leads_to(each, lock.resolve()) for each in opened) else None


def _leads_to(descriptor: Path, file: Path) -> bool:
    try:
        return descriptor.readlink() == file
    except OSError:  # it was closed meanwhile
        return False
