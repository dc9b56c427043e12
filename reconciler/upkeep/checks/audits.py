"""Whether the chain of the audit fits, where there is time for that.

Whether events are gone that are to be kept is not looked at: for how long those that went were to be kept, the settings
of today need not say (`reconciler audit verify --retention`).
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from reconciler.model.errors import ReconcilerError, Refused
from reconciler.model.text import counted
from reconciler.store import audit
from reconciler.store.audit import BrokenChain, VerifiedChain
from reconciler.store.contract import StoreFault
from reconciler.upkeep import copies
from reconciler.upkeep.databases import STORE
from reconciler.upkeep.findings import DoctorFinding, error, ok, warning
from reconciler.upkeep.watches import ProgressWatch

NAME = "audit"
QUICK_SECONDS = 15.0  # some 1.5 million events
FULL_SECONDS = 3600.0
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
        version = copies.look_at_copy(path, STORE).version if path.exists() else None
    except ReconcilerError:
        return AuditFacts()
    if version != STORE.latest:
        return AuditFacts(version)
    watch = ProgressWatch(clock, FULL_SECONDS if is_full else QUICK_SECONDS, lambda _: None)
    try:
        return AuditFacts(version, audit.verify(path, watched=lambda connection: watch.over(connection, NAME)))
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
