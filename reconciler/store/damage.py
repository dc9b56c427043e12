"""The checksum of each stored version, by which damage is found.

It is zlib's CRC-32: it finds every flipped bit, and takes less than a microsecond for a body of some kilobytes, so
every read checks it. It protects against faulty disks and memory, not against people who can write to the database.
"""

import logging
import zlib
from collections.abc import Callable
from typing import Any

from reconciler.model import rendering
from reconciler.model.rendering import LATEST, is_source
from reconciler.store.records import DamagedVersion
from reconciler.store.statements import Connection

log = logging.getLogger(__name__)

MOST_DAMAGED = 1_000  # damaged versions that are remembered; one more finds a disk that is to be replaced anyway
EXAMINED = 500  # versions in one step: a few milliseconds


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
        if one in self._found or len(self._found) >= MOST_DAMAGED:
            return
        self._found[one] = None
        told = "Version %d of the %s %s of the project %s is damaged in the store: it is not what was stored."
        log.error(told, one.version, one.kind, one.name, one.project)

    def found(self) -> list[DamagedVersion]:
        """Return what was recorded."""
        return list(self._found)

    def forget(self, one: DamagedVersion) -> None:
        """Forget a version that is no longer present, or no longer damaged."""
        self._found.pop(one, None)


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


def damaged_versions(connection: Connection, *, after: int) -> tuple[list[DamagedVersion], int]:
    """Read the next versions after the one with this number. Return the damaged ones and the number of the last one;
    at the end that is `after`. Raises errors of the engine.
    """
    found, last = [], after
    rows = connection.stream("examined", after, EXAMINED)
    try:
        for last, project, kind, name, version, *held in rows:  # noqa: B007
            if is_damaged(*held):
                found.append(DamagedVersion(project, kind, name, version))
    finally:
        rows.close()
    return found, last
