"""The checksum of each stored version, and versions that are damaged.

It is zlib's CRC-32: it finds every flipped bit, and takes less than a microsecond for a body of some kilobytes, so that
each read can look. It guards against disks and memory, not against people: whoever can write the file can write a
checksum too.
"""

import hashlib
import logging
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from typing import cast

import msgspec

from reconciler.model import components, values
from reconciler.model.rendering import MARK
from reconciler.model.values import Value
from reconciler.store import database
from reconciler.store.contract import DamagedVersion

log = logging.getLogger(__name__)

UNSOUND = -1  # in place of a checksum: a body from before there were any that cannot be what was stored
JUDGED = 100  # versions in one transaction: about 10 ms
EXAMINED = 500  # versions in one step: a few milliseconds
MOST = 1_000  # damaged versions that are remembered; one more finds a disk that is to be replaced anyway


def checksum_of(body: bytes, secrets: bytes | None) -> int:
    """The checksum of one version."""
    return zlib.crc32(body) if secrets is None else zlib.crc32(secrets, zlib.crc32(body))


def is_damaged(body: bytes, secrets: bytes | None, checksum: int | None) -> bool:
    """Whether a version is not what was stored. Nobody says so of one that has no checksum yet."""
    return checksum is not None and checksum != checksum_of(body, secrets)


def judge_version(body: bytes, secrets: bytes | None, *, kind: str, name: str, version: int) -> int:
    """The checksum of a version that has none, or `UNSOUND` where it cannot be what was stored."""
    try:
        sound = _is_sound(body, secrets, kind=kind, name=name, version=version)
    except (msgspec.DecodeError, UnicodeError, LookupError, TypeError, ValueError):
        sound = False
    return checksum_of(body, secrets) if sound else UNSOUND


def judge_all(connection: sqlite3.Connection) -> Iterator[None]:
    """Give each version that has no checksum one, some in each step. Raises `StoreFault`."""
    sql = database.load_queries()
    while True:
        with (
            database.faults("checked"),
            database.unsynced(connection),
            database.transaction(connection, kind="immediate"),
        ):
            rows = connection.execute(sql["unchecked"], (JUDGED,)).fetchall()
            judged = [
                (judge_version(body, secrets, kind=kind, name=name, version=version), number)
                for number, kind, name, version, body, secrets in rows
            ]
            connection.executemany(sql["put_checksum"], judged)
        if not rows:
            return
        yield


def damaged(connection: sqlite3.Connection) -> Iterator[list[DamagedVersion]]:
    """Every damaged version, in the order in which they were stored: those of some hundred versions in each step, often
    none. Versions that have no checksum yet are judged here, too. Raises sqlite3.Error.
    """
    sql = database.load_queries()
    last = 0
    while True:
        found = []
        before = last
        for row in connection.execute(sql["examined"], (before, EXAMINED)):
            last, project, kind, name, version, body, secrets, checksum = row
            known = (
                judge_version(body, secrets, kind=kind, name=name, version=version) if checksum is None else checksum
            )
            if is_damaged(body, secrets, known):
                found.append(DamagedVersion(project, kind, name, version))
        if last == before:
            return
        yield found


class Damage:
    """The versions that reads and looks found damaged. It is used from several threads."""

    def __init__(self) -> None:
        self._fresh: dict[DamagedVersion, None] = {}  # not told yet
        self._told: dict[DamagedVersion, None] = {}

    def note(self, one: DamagedVersion) -> None:
        """One is damaged."""
        if one in self._told or one in self._fresh or len(self._told) + len(self._fresh) >= MOST:
            return
        self._fresh[one] = None
        told = "Version %d of the %s %s of the project %s is damaged in the store: it is not what was stored."
        log.error(told, one.version, one.kind, one.name, one.project)

    def tell(self, is_damaged: Callable[[DamagedVersion], bool]) -> list[DamagedVersion]:
        """Those that are new, also if they were restored meanwhile, and those of before that are damaged still."""
        fresh, self._fresh = self._fresh, {}
        lasting = [one for one in self._told if is_damaged(one)]
        self._told = dict.fromkeys([*lasting, *fresh])
        return sorted(self._told)


def _is_sound(body: bytes, secrets: bytes | None, *, kind: str, name: str, version: int) -> bool:
    document = cast("dict[str, Value]", msgspec.json.decode(body, type=dict))
    metadata = document["metadata"]
    if not isinstance(metadata, dict) or values.canonical_json(document) != body:
        return False
    if (document["kind"], metadata["name"], metadata["version"]) != (kind, name, version):
        return False
    if secrets is not None:
        return _are_secrets(document, secrets)
    # What is left of a version with secrets, or of a redacted one, has the hash that it had with them.
    if components.MASK.encode() in body or MARK.encode() in body:
        return True
    return bool(metadata["hash"] == hashlib.sha256(values.canonical_json(document["spec"])).hexdigest())


def _are_secrets(document: dict[str, Value], secrets: bytes) -> bool:
    """Whether each of them has its place in the document, where its mask stands."""
    held = cast("dict[str, Value]", msgspec.json.decode(secrets, type=dict))
    places = [values.located(document, pointer) for pointer in held]
    masked = all(values.value_at(document, place) == components.MASK for place in places)
    return masked and values.canonical_json(held) == secrets
