"""When dead letters may expire by their age: not while the clock cannot be believed. Pure.

Belongs here: comparing two clocks. Does not: expiring (`manager`).

A clock that is set a year ahead makes everything old at once, and what has expired does not come back when the clock
does. A clock that was wrong from the start of the process is not noticed.
"""

from typing import NamedTuple

MOST_MILLISECONDS = 3_600_000  # that the two clocks may differ by between two looks; summer time changes neither


class Moment(NamedTuple):
    """One moment by both clocks: Unix milliseconds, which may jump, and seconds of a clock that never does."""

    wall: int
    monotonic: float


def has_jumped(before: Moment, now: Moment) -> bool:
    """Whether the wall clock went on by something else than the time that passed."""
    passed = (now.monotonic - before.monotonic) * 1000
    return abs(now.wall - before.wall - passed) > MOST_MILLISECONDS
