"""Attempts that were refused, counted by the minute, so that many fill neither memory nor the audit.

Belongs here: counting. Does not: refusing and what counts as refused (the doors), when the counts are written
(`keeping`).

Counting happens with each answer and costs a look into a dictionary. Of one minute a bounded number of sorts of attempt
are told apart, and all beyond are one count for each status. Strangers have one budget, which they can exhaust
together; each caller who is known has one of their own, so that nobody's attempts hide another's.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from reconciler.model.clock import rfc3339
from reconciler.store.contract import AuditRow

MOST = 100  # sorts of attempt in one minute by strangers
MOST_OF_ONE = 20  # by one caller who is known
CALLERS = 100  # who are known and have a budget of their own in that minute; all others share one of `MOST`
KIND = "Request"
ACTION = "refused"
NOBODY = "unknown"  # who shows no credential, or a wrong one: what they call themselves may be a password
OTHERS = "others"


class RefusedAttempt(NamedTuple):
    """Who was refused what, and from where."""

    status: int
    actor: str
    address: str
    path: str  # as the interface documents it, with its parameters by name; empty for one that it does not have
    project: str = ""  # the existing project that it was about


class RefusedAttempts:
    """Counts since they were taken last."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[RefusedAttempt, int]] = {}  # by whose budget it is

    def note(self, attempt: RefusedAttempt) -> None:
        """One more."""
        whose, most = self._budget(attempt.actor)
        counts = self._counts.setdefault(whose, {})
        if attempt not in counts and len(counts) >= most:
            actor = OTHERS if whose in (NOBODY, OTHERS) else attempt.actor
            attempt = RefusedAttempt(attempt.status, actor, "", "")
        counts[attempt] = counts.get(attempt, 0) + 1

    def _budget(self, actor: str) -> tuple[str, int]:
        if actor == NOBODY:
            return NOBODY, MOST
        if actor in self._counts or len(self._counts) < CALLERS:
            return actor, MOST_OF_ONE
        return OTHERS, MOST

    def taken(self, at: datetime) -> Sequence[AuditRow]:
        """The events of what was counted, in order; from now on it counts anew."""
        taken, self._counts = self._counts, {}
        together: dict[RefusedAttempt, int] = {}
        for counts in taken.values():
            for attempt, times in counts.items():
                together[attempt] = together.get(attempt, 0) + times
        return tuple(_row(attempt, times, at=at) for attempt, times in sorted(together.items()))


def _row(attempt: RefusedAttempt, times: int, *, at: datetime) -> AuditRow:
    detail = {"path": attempt.path, "times": times} if attempt.path else {"times": times}
    return AuditRow(
        at=rfc3339(at),
        project=attempt.project,
        actor=attempt.actor,
        action=ACTION,
        kind=KIND,
        name=str(attempt.status),
        version_before=None,
        version_after=None,
        run=None,
        request=None,
        detail=json.dumps(detail),
        address=attempt.address or None,
    )
