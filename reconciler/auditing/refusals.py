"""Attempts that were refused (401, 403), counted by the minute, so that many fill neither memory nor the audit.

Belongs here: counting. Does not: refusing (the doors), when the counts are written (`keeping`).

Counting happens with each answer and costs a look into a dictionary. Of one minute at most `MOST` sorts of attempt are
told apart; all beyond are one count for each status, whoever they were.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from reconciler.clock import rfc3339
from reconciler.store.contract import AuditRow

MOST = 100  # sorts of attempt in one minute
KIND = "Request"
ACTION = "refused"
NOBODY = "unknown"  # who shows no credential, or a wrong one: what they call themselves may be a password
OTHERS = "others"


class Attempt(NamedTuple):
    """Who was refused what, and from where."""

    status: int
    actor: str
    address: str
    path: str  # as the interface documents it, with its parameters by name


class Refusals:
    """Counts since they were taken last."""

    def __init__(self) -> None:
        self._counts: dict[Attempt, int] = {}
        self._others: dict[int, int] = {}

    def note(self, attempt: Attempt) -> None:
        """One more."""
        if attempt in self._counts:
            self._counts[attempt] += 1
        elif len(self._counts) < MOST:
            self._counts[attempt] = 1
        else:
            self._others[attempt.status] = self._others.get(attempt.status, 0) + 1

    def taken(self, at: datetime) -> Sequence[AuditRow]:
        """The events of what was counted, in order; from now on it counts anew."""
        counts, others = self._counts, self._others
        self._counts, self._others = {}, {}
        told = [_row(attempt, times, at=at) for attempt, times in sorted(counts.items())]
        rest = [_row(Attempt(status, OTHERS, "", ""), times, at=at) for status, times in sorted(others.items())]
        return (*told, *rest)


def _row(attempt: Attempt, times: int, *, at: datetime) -> AuditRow:
    detail = {"path": attempt.path, "times": times} if attempt.path else {"times": times}
    return AuditRow(
        at=rfc3339(at),
        project="",
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
