"""The checksum of each stored version, and versions that are damaged.

It is zlib's CRC-32: it finds every flipped bit, and takes less than a microsecond for a body of some kilobytes, so
every read checks it. It protects against faulty disks and memory, not against people who can write the file.
"""

import logging
import zlib
from collections.abc import Callable
from typing import Any

from reconciler.model import rendering
from reconciler.model.rendering import LATEST, is_source
from reconciler.store.records import DamagedVersion

log = logging.getLogger(__name__)

MOST = 1_000  # damaged versions that are remembered; one more finds a disk that is to be replaced anyway


def checksum_of(body: bytes, secrets: bytes | None) -> int:
    """Return the checksum of one version."""
    return zlib.crc32(body) if secrets is None else zlib.crc32(secrets, zlib.crc32(body))


def is_damaged(body: bytes, secrets: bytes | None, checksum: int) -> bool:
    """Return True if a version differs from what was stored."""
    return checksum != checksum_of(body, secrets)


class Damage:
    """The versions that were found damaged. It is used from several threads."""

    def __init__(self) -> None:
        self._found: dict[DamagedVersion, None] = {}

    def note(self, one: DamagedVersion) -> None:
        """Record a damaged version."""
        if one in self._found or len(self._found) >= MOST:
            return
        self._found[one] = None
        told = "Version %d of the %s %s of the project %s is damaged in the store: it is not what was stored."
        log.error(told, one.version, one.kind, one.name, one.project)

    def tell(self, is_damaged: Callable[[DamagedVersion], bool]) -> list[DamagedVersion]:
        """Return those that are still present and damaged."""
        for one in [each for each in self._found if not is_damaged(each)]:
            del self._found[one]
        return sorted(self._found)


def shown_row(row: tuple[Any, ...], *, damaged: Callable[[str, str, int], object]) -> bytes:
    """Return a resource as a reader gets it. For a damaged one, return a placeholder and call `damaged` with its kind,
    name and version: a damaged resource must not break a list.
    """
    if is_damaged_row(row):
        kind, name, version = row[8:]
        damaged(kind, name, version)
        return rendering.damaged(kind, name, version=version, latest=row[1] is not None)
    return rendering.shown(row[:6])


def is_damaged_row(row: tuple[Any, ...]) -> bool:
    """Return True if a row for a reader is damaged.

    Every resource of every list passes through this, so the common case needs few calls.
    """
    body, status, head, tail, _, _, secrets, checksum, _, _, _ = row
    if checksum != (zlib.crc32(body) if secrets is None else checksum_of(body, secrets)):
        return True
    return not (is_source(head, tail) and (status is None or status == LATEST or rendering.is_json(status)))
