"""Notifications in memory, each found by whatever it is looked for by.

Belongs here: those indexes, which agree after every call. Does not: what becomes of a notification
(`reconciler.notifications.ledger`), the file, what people did (`board`).
"""

from collections import Counter
from collections.abc import Iterable

from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications import ledger
from reconciler.notifications.models import Domain, Look, Notification, NotificationState


class NotificationIndex:
    """All that there are. The attributes are to be read alone."""

    def __init__(self, notifications: Iterable[Notification] = ()) -> None:
        """In any order."""
        self.all = {one.id: one for one in sorted(notifications, key=_id)}  # the oldest first: new ids are greater
        self.latest = ledger.latest(self.all.values())
        self.open: Counter[tuple[NotificationType, Severity]] = Counter()
        self.there: dict[tuple[Domain, str], dict[str, Notification]] = {}  # those, by domain and project and then id
        self.ended: dict[str, Notification] = {}
        self.untold: dict[str, Notification] = {}  # whose end is still to be told outward
        for one in self.all.values():
            self._count_in(one)

    def put(self, one: Notification) -> None:
        """Keep one that is new, or as it is now."""
        before = self.all.get(one.id)
        if before is not None:
            self._count_out(before)
        self._count_in(one)
        self.all[one.id] = one
        self.latest[one.cause] = one

    def forget(self, identifier: str) -> None:
        """Keep one no longer."""
        one = self.all.pop(identifier)
        self._count_out(one)
        if self.latest.get(one.cause) is one:
            del self.latest[one.cause]

    def has_come_back(self, one: Notification) -> bool:
        """Whether this, which is not kept yet, is open again and had ended."""
        before = self.all.get(one.id)
        return before is not None and before.state is NotificationState.RESOLVED and one.state is NotificationState.OPEN

    def spoken_of(self, look: Look) -> list[Notification]:
        """The open ones of which a look says whether their cause is there."""
        if look.part is not None:
            return [*self.there.get((look.domain, look.part), {}).values()]
        return [one for (domain, _), there in self.there.items() if domain is look.domain for one in there.values()]

    def taken(self, project: str) -> int:
        """How many are open in a project."""
        return sum(len(self.there.get((domain, project), ())) for domain in Domain)

    def _count_in(self, one: Notification) -> None:
        if one.state is NotificationState.OPEN:
            self.open[one.cause.type, one.severity] += 1
            self.there.setdefault((one.domain, one.cause.project), {})[one.id] = one
        elif ledger.is_forgettable(one):
            self.ended[one.id] = one
        else:
            self.untold[one.id] = one

    def _count_out(self, one: Notification) -> None:
        self.ended.pop(one.id, None)
        self.untold.pop(one.id, None)
        if one.state is NotificationState.OPEN:
            self.open[one.cause.type, one.severity] -= 1
            there = self.there[one.domain, one.cause.project]
            del there[one.id]
            if not there:
                del self.there[one.domain, one.cause.project]


def _id(one: Notification) -> str:
    return one.id
