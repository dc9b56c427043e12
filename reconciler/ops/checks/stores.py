"""Checks of the databases and the audit."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from reconciler.model.errors import ReconcilerError, Refused
from reconciler.model.text import counted
from reconciler.ops import databases
from reconciler.ops.databases import ProgressWatch
from reconciler.ops.doctor import DoctorFinding, error, ok, warning
from reconciler.store import audit, files
from reconciler.store.audit import BrokenChain, VerifiedChain
from reconciler.store.contract import StoreFault
from reconciler.store.files import OPERATIONS, STORE, DatabaseIdentity, DatabaseKind
from reconciler.store.records import DamagedVersion

# Whether the two databases are there, ours, of a version that is known, and whole, and all that the store holds.

QUICK_SECONDS = 15.0
FULL_SECONDS = 3600.0
ELSEWHERE = "look through a copy of it with `sqlite3 COPY 'pragma integrity_check'`, which has no limit"
MUCH_FREE = 0.5  # of a file that nothing is in
NAMED = 10  # damaged versions that a sentence names
LITTLE_BYTES = 256 << 20  # what is smaller may be as empty as it likes


T = TypeVar("T")


class StoreFacts(NamedTuple):
    """One of them: `fault` when it cannot be used, what it is else, and what SQLite said of it, empty when it had no
    time for that, which is more where the look `is_full`.
    """

    path: Path
    kind: DatabaseKind
    exists: bool
    fault: str = ""
    identity: DatabaseIdentity | None = None
    verdict: str = ""
    is_full: bool = False
    damaged: tuple[DamagedVersion, ...] = ()  # stored versions without their checksum


def gather_stores(
    path: Path, kind: DatabaseKind, *, is_full: bool, clock: Callable[[], float] = time.monotonic
) -> StoreFacts:
    """Look."""
    if not path.exists():
        return StoreFacts(path, kind, exists=False)
    try:
        wrong = files.damage(path) if kind is OPERATIONS else ""
        if wrong:
            return StoreFacts(path, kind, exists=True, verdict=wrong)
        found = files.identify(path, kind)
        watch = ProgressWatch(clock, FULL_SECONDS if is_full else QUICK_SECONDS, lambda _: None)
        verdict = _in_time(partial(files.verdict, path, kind, watch=watch, is_quick=not is_full)) or ""
        damaged: list[DamagedVersion] | None = []
        if is_full and verdict == "ok" and kind is STORE and found.version == kind.latest:
            # SQLite looks at no checksum of ours.
            damaged = _in_time(partial(files.damaged_versions, path, watch=watch))
        if damaged is None:
            verdict, damaged = "", []
        return StoreFacts(
            path, kind, exists=True, identity=found, verdict=verdict, is_full=is_full, damaged=tuple(damaged)
        )
    except ReconcilerError as problem:
        return StoreFacts(path, kind, exists=True, fault=problem.message)


def _in_time(look: Callable[[], T]) -> T | None:
    """What a look finds; None when the time is up."""
    try:
        return look()
    except Refused:
        return None


def judge_stores(facts: StoreFacts) -> list[DoctorFinding]:
    """What is wrong with it."""
    name = facts.kind.file
    if not facts.exists and facts.kind is STORE:
        told = f"there is no store at {facts.path}, so no service has run there"
        return [warning(name, told, f"where one has, elsewhere, {databases.ELSEWHERE}; else the first start makes it")]
    if not facts.exists:
        return [ok(name, f"{facts.path} is not there yet; the first start makes it")]
    if facts.verdict not in ("", "ok"):
        return [error(name, f"{facts.path} is damaged ({facts.verdict})", _mending(facts.kind))]
    if facts.identity is None:
        return [error(name, facts.fault.rstrip("."), "")]
    if facts.damaged:
        total, first = len(facts.damaged), ", ".join(map(_name, facts.damaged[:NAMED]))
        more = f" and {total - NAMED} more" if total > NAMED else ""
        told = f"{facts.path}: {counted(total, 'stored version')} damaged: {first}{more}"
        return [error(name, told, "apply these anew, have Git read in full, or restore a backup; look at the disk")]
    return [*_told(facts, facts.identity), *_free(facts, facts.identity)]


def _told(facts: StoreFacts, found: DatabaseIdentity) -> list[DoctorFinding]:
    name, what = facts.kind.file, f"{facts.path}: version {found.version}, {databases.size_text(found.size)}"
    if not facts.verdict:
        told = f"{what}, too large to be looked through in {FULL_SECONDS if facts.is_full else QUICK_SECONDS:g} seconds"
        return [warning(name, told, ELSEWHERE if facts.is_full else "look through it with `reconciler doctor --full`")]
    if found.version < facts.kind.latest:
        return [ok(name, f"{what}, whole; the next start brings it to version {facts.kind.latest}")]
    return [ok(name, f"{what}, whole")]


def _free(facts: StoreFacts, found: DatabaseIdentity) -> list[DoctorFinding]:
    free = found.free_pages * found.page_bytes
    if free < LITTLE_BYTES or free < found.size * MUCH_FREE:
        return []
    told = f"{databases.size_text(free)} of {facts.path} are unused, and go to what comes"
    return [ok(facts.kind.file, f"{told}; `vacuum` in a stopped service gives them back (docs/upgrades.md)")]


def _mending(kind: DatabaseKind) -> str:
    if kind is STORE:
        return "stop the service, and restore a backup"
    return "restart the service: it sets the file aside and begins a new one, and everybody signs in again"


def _name(one: DamagedVersion) -> str:
    return f"version {one.version} of the {one.kind} {one.name} (project {one.project})"


# Whether the chain of the audit fits, where there is time for that.
#
# Whether events are gone that are to be kept is not looked at: for how long those that went were to be kept, the
# settings of today need not say (`reconciler audit verify --retention`).

NAME = "audit"
MENDING = "keep a copy of the file, look who may write it, and compare it with the heads in the service's log"


class AuditFacts(NamedTuple):
    """The version of the store, None where none can be used, which the check of the store tells. What of its chain
    fits, `broken` where it does not, `fault` where it could not be read; none of them when it had no time.
    """

    version: int | None = None
    verified: VerifiedChain | None = None
    broken: str = ""
    fault: str = ""


def gather_audits(path: Path, *, is_full: bool, clock: Callable[[], float] = time.monotonic) -> AuditFacts:
    """Look."""
    try:
        version = files.identify(path, STORE).version if path.exists() else None
    except ReconcilerError:
        return AuditFacts()
    if version != STORE.latest:
        return AuditFacts(version)
    watch = ProgressWatch(clock, FULL_SECONDS if is_full else QUICK_SECONDS, lambda _: None)
    try:
        return AuditFacts(version, audit.verify(path, watched=partial(files.watched, watch=watch, what=NAME)))
    except BrokenChain as problem:
        return AuditFacts(version, broken=problem.message)
    except StoreFault as problem:
        return AuditFacts(version, fault=problem.message)
    except Refused:  # the time is up
        return AuditFacts(version)


def judge_audits(facts: AuditFacts) -> list[DoctorFinding]:
    """What is wrong with it."""
    if facts.version is None:
        return []
    if facts.version != STORE.latest:
        return [ok(NAME, f"not looked at before the next start, which brings the store to version {STORE.latest}")]
    if facts.broken:
        return [error(NAME, facts.broken.rstrip("."), MENDING)]
    if facts.fault:
        return [warning(NAME, f"not looked at: {facts.fault.rstrip('.')}", "mend the store first")]
    if facts.verified is None:
        return [warning(NAME, "too long to be looked through in time", "`reconciler audit verify` has no limit")]
    links, events = counted(facts.verified.links, "link"), counted(facts.verified.events, "event")
    return [ok(NAME, f"the chain fits: {links} with {events}")]
