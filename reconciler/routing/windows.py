"""When a destination with a schedule may be sent to. Pure: a schedule and an instant give the window.

Belongs here: windows, which begin at the instants of a cron text and last so many minutes. Does not: the instants
(`cron`), waiting for them.

Windows that overlap or meet are one. A window of an hour lasts an hour, whatever clocks are changed in it.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from reconciler.model.cron import Cron
from reconciler.model.routes import Schedule

MOST_JOINED = 50  # windows that are joined in one answer, so that it takes a few milliseconds at most
MOST_KNOWN = 1_000  # answers that are remembered, of so many schedules

_MINUTE = timedelta(minutes=1)


class DeliveryWindow(NamedTuple):
    """`open`: sending is allowed, `until` then, and again from `next`; closed, there is no `until`.

    Of many windows that meet, `until` may be the end of one of them: who waits for it asks again then. Then `next` is
    the same instant.
    """

    open: bool
    until: datetime | None
    next: datetime


_known: dict[Schedule, tuple[datetime, DeliveryWindow]] = {}  # from when on an answer holds, until it tells of another


def delivery_window(schedule: Schedule, now: datetime) -> DeliveryWindow:
    """The window at an instant; instants are in UTC. Costs a microsecond until it opens or closes.

    Raises cron.Unreadable for a schedule that nobody checked.
    """
    since, known = _known.get(schedule, (None, None))
    if known is not None and since is not None and since <= now < (known.until or known.next):
        return known
    found = _window(schedule, now)
    _known.pop(schedule, None)  # what is new comes last
    if len(_known) >= MOST_KNOWN:
        del _known[next(iter(_known))]
    _known[schedule] = (now, found)
    return found


def _window(schedule: Schedule, now: datetime) -> DeliveryWindow:
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
