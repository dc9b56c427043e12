"""Checks of the databases and the audit."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from reconciler.model.errors import ReconcilerError, Refused
from reconciler.model.text import counted
from reconciler.ops import databases
from reconciler.ops.databases import ProgressWatch
from reconciler.ops.doctor import DoctorFinding, error, ok, warning
from reconciler.store import audit, files
from reconciler.store.audit import BrokenChain
from reconciler.store.contract import StoreFault
from reconciler.store.files import OPERATIONS, STORE, DatabaseIdentity, DatabaseKind
from reconciler.store.records import DamagedVersion

QUICK_SECONDS = 15.0
FULL_SECONDS = 3600.0
ELSEWHERE = "look through a copy of it with `sqlite3 COPY 'pragma integrity_check'`, which has no limit"
MUCH_FREE = 0.5  # of a file that nothing is in
NAMED = 10  # damaged versions that a sentence names
LITTLE_BYTES = 256 << 20  # what is smaller may be as empty as it likes

T = TypeVar("T")

# The two databases: there, ours, of a known version, and whole with all that the store holds.


def check_database(
    path: Path, kind: DatabaseKind, *, is_full: bool, clock: Callable[[], float] = time.monotonic
) -> list[DoctorFinding]:
    """Check one of them. `is_full` takes an hour at most, and compares the checksum of each stored version."""
    name = kind.file
    if not path.exists():
        return [_missing(path, kind)]
    if kind is OPERATIONS and (wrong := files.damage(path)):
        todo = "restart the service: it sets the file aside and begins a new one, and everybody signs in again"
        return [error(name, f"{path} is damaged ({wrong})", todo)]
    seconds = FULL_SECONDS if is_full else QUICK_SECONDS
    watch = ProgressWatch(clock, seconds, lambda _: None)
    damaged: list[DamagedVersion] | None = []
    try:
        found = files.identify(path, kind)
        verdict = _in_time(partial(files.verdict, path, kind, watch=watch, is_quick=not is_full))
        if is_full and verdict == "ok" and kind is STORE and found.version == kind.latest:
            damaged = _in_time(partial(files.damaged_versions, path, watch=watch))  # SQLite knows no checksum of ours
    except ReconcilerError as problem:
        return [error(name, problem.message.rstrip("."), "")]
    what = f"{path}: version {found.version}, {databases.size_text(found.size)}"
    if verdict is None or damaged is None:
        told = f"{what}, too large to be looked through in {seconds:g} seconds"
        todo = ELSEWHERE if is_full else "look through it with `reconciler doctor --full`"
        return [warning(name, told, todo), *_free(path, kind, found)]
    if verdict != "ok" or damaged:
        return [_damaged(path, kind, verdict, damaged)]
    later = f"; the next start brings it to version {kind.latest}" if found.version < kind.latest else ""
    return [ok(name, f"{what}, whole{later}"), *_free(path, kind, found)]


def _damaged(path: Path, kind: DatabaseKind, verdict: str, damaged: list[DamagedVersion]) -> DoctorFinding:
    if verdict != "ok":
        return error(kind.file, f"{path} is damaged ({verdict})", "stop the service, and restore a backup")
    told = f"{path}: {counted(len(damaged), 'stored version')} damaged: {_names(damaged)}"
    return error(kind.file, told, "apply these anew, have Git read in full, or restore a backup; look at the disk")


def _missing(path: Path, kind: DatabaseKind) -> DoctorFinding:
    if kind is not STORE:
        return ok(kind.file, f"{path} is not there yet; the first start makes it")
    told = f"there is no store at {path}, so no service has run there"
    return warning(kind.file, told, f"where one has, elsewhere, {databases.ELSEWHERE}; else the first start makes it")


def _in_time(look: Callable[[], T]) -> T | None:
    """Return what a look finds; None when the time is up."""
    try:
        return look()
    except Refused:
        return None


def _free(path: Path, kind: DatabaseKind, found: DatabaseIdentity) -> list[DoctorFinding]:
    free = found.free_pages * found.page_bytes
    if free < LITTLE_BYTES or free < found.size * MUCH_FREE:
        return []
    told = f"{databases.size_text(free)} of {path} are unused, and go to what comes"
    return [ok(kind.file, f"{told}; `vacuum` in a stopped service gives them back (docs/upgrades.md)")]


def _names(damaged: list[DamagedVersion]) -> str:
    first = ", ".join(
        f"version {one.version} of the {one.kind} {one.name} (project {one.project})" for one in damaged[:NAMED]
    )
    return f"{first} and {len(damaged) - NAMED} more" if len(damaged) > NAMED else first


# The chain of the audit, as far as there is time.
#
# Events that are gone although they are to be kept are not looked for: the settings of today need not say for how long
# older ones were to be kept (`reconciler audit verify --retention`).

NAME = "audit"
MENDING = "keep a copy of the file, look who may write it, and compare it with the heads in the service's log"


def check_audit(path: Path, *, is_full: bool, clock: Callable[[], float] = time.monotonic) -> list[DoctorFinding]:
    """Check the chain of the audit in a store; nothing for a store that cannot be used, which its own check reports."""
    try:
        version = files.identify(path, STORE).version if path.exists() else None
    except ReconcilerError:
        version = None
    if version is None:
        return []
    if version != STORE.latest:
        return [ok(NAME, f"not looked at before the next start, which brings the store to version {STORE.latest}")]
    watch = ProgressWatch(clock, FULL_SECONDS if is_full else QUICK_SECONDS, lambda _: None)
    try:
        verified = audit.verify(path, watched=partial(files.watched, watch=watch, what=NAME))
    except BrokenChain as problem:
        return [error(NAME, problem.message.rstrip("."), MENDING)]
    except StoreFault as problem:
        return [warning(NAME, f"not looked at: {problem.message.rstrip('.')}", "mend the store first")]
    except Refused:
        return [warning(NAME, "too long to be looked through in time", "`reconciler audit verify` has no limit")]
    links, events = counted(verified.links, "link"), counted(verified.events, "event")
    return [ok(NAME, f"the chain fits: {links} with {events}")]
