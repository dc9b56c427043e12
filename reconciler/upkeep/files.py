"""Files and folders that are there whole or not at all: forced to the disk, renamed, given to whom they belong."""

import contextlib
import hashlib
import os
import shutil
from pathlib import Path

from reconciler.model.errors import Refused

SPARE_BYTES = 64 << 20  # 64 MiB that are left over beside what is written
CHUNK_BYTES = 1 << 20
LOGS = ("-wal", "-shm", "-journal")  # how names end of what SQLite makes beside a database
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def make_private_file(path: Path) -> None:
    """A new empty file that its owner alone may read; one of that name goes, a link is not followed."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def write_new_file(path: Path, data: bytes) -> None:
    """A new file with this in it, on the disk when this returns."""
    make_private_file(path)
    path.write_bytes(data)
    force_to_disk(path)


def force_to_disk(path: Path) -> None:
    """Have a file or a folder on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits, as `sha256sum` says it."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            found.update(chunk)
    return found.hexdigest()


def keep_copy(path: Path, kept: Path) -> None:
    """Have a file under another name besides, on the disk; `path` stays as it is. Raises OSError."""
    try:
        os.link(path, kept)
    except OSError:  # a disk without such links
        partial = kept.with_name(f"{kept.name}.partial")
        make_private_file(partial)
        shutil.copyfile(path, partial)
        force_to_disk(partial)
        partial.rename(kept)
    force_to_disk(kept.parent)


def give_to_owner(path: Path, *, like: Path) -> None:
    """What root made belongs to whoever owns `like`: the service could not open it otherwise."""
    owner = like.stat()
    if os.geteuid() == 0 and (path.stat().st_uid, path.stat().st_gid) != (owner.st_uid, owner.st_gid):
        os.chown(path, owner.st_uid, owner.st_gid)


def remove_database(path: Path) -> None:
    """Remove a database's file, and those that SQLite has beside it, if they are there."""
    for name in beside(path):
        with contextlib.suppress(FileNotFoundError):
            name.unlink()


def beside(path: Path) -> tuple[Path, ...]:
    """A database's file, and those that SQLite makes beside it."""
    return tuple(path.with_name(path.name + suffix) for suffix in ("", *LOGS))


def check_room(folder: Path, needed: int, *, purpose: str) -> None:
    """Raises Refused when the disk of a folder has no room for so many bytes and some more."""
    free = shutil.disk_usage(folder).free
    if free < needed + SPARE_BYTES:
        raise Refused(
            f"{purpose} takes {size_text(needed + SPARE_BYTES)}, and the disk of {folder} has {size_text(free)} "
            "left; make room "
            "there."
        )


def size_text(number: int) -> str:
    """Bytes as a person reads them: `812 bytes`, `1.4 GiB`."""
    value, unit = float(number), 0
    while value >= 1024 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{number} bytes" if unit == 0 else f"{value:.1f} {UNITS[unit]}"
