"""How late it is for dead letters, which expire by their age: not later than the clock can be believed. Pure.

Belongs here: comparing two clocks. Does not: expiring (`manager`).

A clock that is set a year ahead makes everything old at once, and what has expired does not come back when the clock
does. So time goes on from the first moment of the process as the clock that never jumps has it; the other one may only
be behind. A clock that was wrong then is not noticed, nor what died while it was behind.
"""

from typing import NamedTuple

MOST_MILLISECONDS = 3_600_000  # that the clock may be ahead by before that is told; summer time changes neither


class ExpiryMoment(NamedTuple):
    """One moment by both clocks: Unix milliseconds, which may jump, and seconds of a clock that never does."""

    wall: int
    monotonic: float


def believed_moment(first: ExpiryMoment, now: ExpiryMoment) -> int:
    """Unix milliseconds: what the clock says, but no more than the time that passed since the first moment."""
    return min(now.wall, first.wall + round((now.monotonic - first.monotonic) * 1000))


def is_ahead(first: ExpiryMoment, now: ExpiryMoment) -> bool:
    """Whether the clock was set ahead since the first moment."""
    return now.wall - believed_moment(first, now) > MOST_MILLISECONDS
