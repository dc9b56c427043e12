"""Delivery windows: when a destination with a schedule may be sent to. Pure: a schedule and an instant give the window.

Windows that overlap or meet are one. A window of an hour lasts an hour, whatever clocks are changed in it.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from reconciler.model.cron import Cron
from reconciler.model.routes import Schedule

MOST_JOINED = 50  # windows that are joined in one answer, so that it takes a few milliseconds at most

_MINUTE = timedelta(minutes=1)


class DeliveryWindow(NamedTuple):
    """`open`: sending is allowed, `until` then, and again from `next`; closed, there is no `until`.

    Of many windows that meet, `until` may be the end of one of them: who waits for it asks again then. Then `next` is
    the same instant.
    """

    open: bool
    until: datetime | None
    next: datetime


def delivery_window(schedule: Schedule, now: datetime) -> DeliveryWindow:
    """Return the window at an instant in UTC. Raises cron.Unreadable for a schedule that nobody checked."""
    cron = Cron.read(schedule.cron, timezone=schedule.timezone)
    length = timedelta(minutes=schedule.window)
    begun = cron.after(now - length)  # the first window that has not ended
    if begun > now:
        return DeliveryWindow(open=False, until=None, next=begun)
    until = begun + length
    for _ in range(MOST_JOINED):
        last = _last(cron, until, length)
        if last is None:
            return DeliveryWindow(open=True, until=until, next=cron.after(until))
        until = last + length
    return DeliveryWindow(open=True, until=until, next=until)


def _last(cron: Cron, until: datetime, length: timedelta) -> datetime | None:
    """The beginning of a window that goes on beyond `until`, if there is one; where they are dense, a late one."""
    back = _MINUTE
    while True:
        found = cron.after(until - min(back, length))
        if found <= until:
            return found
        if back >= length:
            return None
        back *= 4
