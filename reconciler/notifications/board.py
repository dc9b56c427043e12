"""The board: all notifications in memory and in `ops.db`, and the marks of people on them.

Every replica shows all of them. One replica opens, resolves and sends each, its owner:

| cause | owner |
|---|---|
| of a repository: it cannot be read, its runs, its flows | the replica that holds its lease |
| of delivery, a machine, a connection to the store (`models.OF_INSTANCES`) | the replica that found it |
| of everything else: Configurations, keys, replicas | the replica that does the work that is done once |

If a replica is gone, the one that does the work resolves what only it could check, and sends the alerts.
"""

import asyncio
import logging
import os
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from reconciler.model import ids
from reconciler.model.clock import Clock
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.model.text import counted
from reconciler.notifications import ledger, models, rendering
from reconciler.notifications.ledger import MOST, DueAlert
from reconciler.notifications.models import (
    OF_INSTANCES,
    Cause,
    Domain,
    Notification,
    NotificationState,
    Observation,
    UserStatus,
)
from reconciler.notifications.rendering import NotificationPlace
from reconciler.replicas.keeper import WORK
from reconciler.replicas.work import Alone, Holder
from reconciler.settings.models import AlertTarget
from reconciler.store.contract import Operations, StaleChange, StoreFault
from reconciler.store.records import Noted, NotificationStatusRow

log = logging.getLogger(__name__)

OF_REPOSITORIES = frozenset({Domain.REPOSITORIES, Domain.FLOWS})


@dataclass(frozen=True, slots=True)
class Owners:
    """The share of this replica. Its `instance` is empty if there can be no other.

    `knows` says if a repository is in the settings, `follows` if this replica follows it now, and `is_gone` if no
    replica of this name has lived for a while.
    """

    instance: str = ""
    leases: Holder = field(default_factory=Alone)
    knows: Callable[[str], bool] = lambda _repository: True
    follows: Callable[[str], bool] = lambda _repository: True
    is_gone: Callable[[str], bool] = lambda instance: instance != ""

    def instance_of(self, domain: Domain) -> str:
        """Return the instance of what this replica finds in a domain."""
        return self.instance if domain in OF_INSTANCES else ""

    def owns(self, domain: Domain, cause: Cause) -> bool:
        """Return True if this replica opens and resolves what it finds of this cause."""
        if domain in OF_INSTANCES:
            return True
        if domain in OF_REPOSITORIES and self.knows(repository := repository_of(cause)):
            # A replica begins to follow a moment after it takes the lease, and ends a moment after it loses it.
            return self.leases.holds(repository) and self.follows(repository)
        return self.leases.holds(WORK)

    def sends(self, one: Notification) -> bool:
        """Return True if this replica sends the alerts about a notification."""
        if one.domain not in OF_INSTANCES:
            return self.owns(one.domain, one.cause)
        return one.instance == self.instance or (self.is_gone(one.instance) and self.leases.holds(WORK))


def repository_of(cause: Cause) -> str:
    """Return the name of the repository that a cause is about."""
    if cause.type is NotificationType.FLOW_STOPPED:
        return cause.subject.rpartition(" at ")[0]
    return cause.subject


PAGE = 50  # notifications examined without a pause: some milliseconds if all are rendered
RETENTION = timedelta(days=30)
ALONE = Owners()
TRIES = 20  # of a change, when other replicas change notifications at the same moment
AGAIN_SECONDS = 1.0  # after notifications could not be read

Sees = Callable[[Cause], bool]
"""Returns True if the caller may see notifications of a cause."""


class Board:
    """Used from one event loop.

    A change is written first, then shown and sent as an alert. A change that cannot be written is shown and sent
    nevertheless, because people must learn of a full disk at once, and is written later; marks of people are refused
    meanwhile. If the process ends before that, the next start finds the causes again, and repeats the alerts that are
    not recorded as sent.

    Changes of other replicas are followed. If one came first, a change is decided again on what is there then.
    """

    def __init__(
        self,
        operations: Operations,
        *,
        clock: Clock,
        place: NotificationPlace,
        retention: timedelta = RETENTION,
        targets: Sequence[AlertTarget] = (),
        most: int = MOST,
        owners: Owners = ALONE,
    ) -> None:
        """`targets` get alerts. `most` are kept, open and resolved."""
        self.targets = targets
        self.marked: Callable[[Notification, str], None] = lambda *_: None  # called for each mark, with its person
        self.unwritten = ""  # why some changes could not be written; empty if all are
        self._operations = operations
        self._clock = clock
        self._place = place
        self._retention = retention
        self._most = most
        self._owners = owners
        self._kept: Mapping[str, Notification] = {}  # the oldest first: new ids are greater; replaced, never changed
        self._statuses: dict[str, dict[str, UserStatus]] = {}  # by notification and person
        self._stored: Mapping[str, Notification] = {}  # in the file
        self._number = 0  # of the last change that is in `_stored`
        self._missed = asyncio.Event()  # set while changes of other replicas are to be read
        self._to_unread: set[str] = set()  # ids whose marks could not be removed yet
        self._changing = asyncio.Lock()  # held from the decision about a change until it is shown
        self._changed = asyncio.Event()
        self._made = 0  # the time in the last id, in milliseconds

    async def load(self) -> None:
        """Load the stored notifications, and send open ones to targets that did not get them. Raises StoreFault if the
        file cannot be read.
        """
        await self._read()
        names = {target.name for target in self.targets}

        def known_targets() -> list[Notification]:
            known = [(one, ledger.only_to(one, names)) for one in self._kept.values()]
            return [after for before, after in known if after != before]

        await self._change(known_targets)
        for target in self.targets:
            await self.tell_late(target)

    # Changes of other replicas.

    def follow(self, number: int, noted: Noted) -> None:
        """Show a change of another replica, which has this number. If one before it is missing, all are read."""
        if number > self._number + 1:
            self._missed.set()
        if number != self._number + 1:
            return
        put = {one.id: one for one in models.read_notifications(noted.put)}
        gone = set(noted.forget)
        self._number = number
        self._stored = {key: one for key, one in {**self._stored, **put}.items() if key not in gone}
        self._mark(noted)
        # A change of such a notification that is not written yet is decided again.
        kept = {key: one for key, one in {**self._kept, **put}.items() if key not in gone}
        if put.keys() - self._kept.keys():
            kept = dict(sorted(kept.items()))
            self._note_newest(kept)
        self._show(kept)

    async def reload(self) -> None:
        """Read all notifications again: changes of other replicas may have been missed. Raises StoreFault."""
        async with self._changing:
            await self._read()

    async def keep(self) -> None:
        """Read missed changes of other replicas, until cancelled."""
        while True:
            await self._missed.wait()
            self._missed.clear()
            try:
                await self.reload()
            except StoreFault as fault:
                log.warning("What other replicas changed of notifications could not be read: %s", fault.message)
                self._missed.set()
                await asyncio.sleep(AGAIN_SECONDS)

    async def _read(self) -> None:
        """Read all notifications, and keep those that could not be written yet. Raises StoreFault."""
        number, rows, statuses = await self._operations.notifications()
        stored = {one.id: one for one in models.read_notifications(rows)}
        unwritten = [one for one in self._kept.values() if self._stored.get(one.id) is not one]
        kept = ledger.kept_beside(stored, unwritten, before=self._stored)
        self._number, self._stored, self._statuses = number, stored, {}
        for row in statuses:
            if row.notification in stored:
                self._statuses.setdefault(row.notification, {})[row.user] = UserStatus(row.status)
        self._note_newest(kept)
        self._show(kept)

    def _note_newest(self, kept: Mapping[str, Notification]) -> None:
        """Make new ids greater than these, even if a clock is behind."""
        if kept:
            self._made = max(self._made, ids.milliseconds(max(kept)))

    # Findings of observers.

    async def take(self, observation: Observation) -> None:
        """Apply the findings of an observer."""
        await self._change(
            lambda: ledger.changes(
                self._kept.values(),
                observation,
                now=self._clock(),
                new_id=self._new_id,
                targets=self.targets,
                most=self._most,
                instance=self._owners.instance_of(observation.domain),
                owns=self._owners.owns,
            )
        )

    async def tidy(self) -> None:
        """Write pending changes, and start alerts that are due. Once for all replicas: resolve notifications that no
        replica checks any more, and remove those that ended long ago.
        """
        owners = self._owners

        def orphans() -> list[Notification]:
            return ledger.without_owner(self._kept.values(), owners.is_gone, now=self._clock())

        def old() -> list[str]:
            return ledger.forgotten(self._kept.values(), now=self._clock(), retention=self._retention, most=self._most)

        is_ours = owners.leases.holds(WORK)
        await self._change(orphans if is_ours else list, forget=old if is_ours else list)

    async def _change(
        self, decide: Callable[[], Collection[Notification]], *, forget: Callable[[], Collection[str]] = list
    ) -> Collection[Notification]:
        """Decide, write, then show and send, without an `await` between, so that no reopened notification is shown as
        read. Return the changed notifications. Raises StaleChange if other replicas always come first.
        """
        async with self._changing:
            for _ in range(TRIES):
                ones, gone = decide(), forget()
                kept = self._with(ones, gone)
                back = {one.id for one in ones if self._has_come_back(one)}
                try:
                    await self._write(kept, unread=back)
                except StaleChange:
                    await self._read()
                    continue
                # Another replica's change may be shown meanwhile, if this one could not be written.
                kept = self._with(ones, gone)
                self._mark(Noted(unread=back, forget=gone))
                self._show(kept)
                return ones
        raise StaleChange("Other replicas change notifications at this moment; try again.")

    def _with(self, ones: Collection[Notification], gone: Collection[str]) -> Mapping[str, Notification]:
        kept = {**self._kept, **{one.id: one for one in ones}}
        for identifier in gone:
            kept.pop(identifier, None)
        return kept

    def _has_come_back(self, one: Notification) -> bool:
        before = self._kept.get(one.id)
        return before is not None and before.resolved is not None and one.resolved is None

    def _mark(self, noted: Noted) -> None:
        """Change the marks of people in memory as a change did in the file."""
        for identifier in noted.forget:
            self._statuses.pop(identifier, None)
        for identifier in noted.unread:
            statuses = self._statuses.get(identifier, {}).items()
            self._statuses[identifier] = {user: each for user, each in statuses if each is not UserStatus.READ}
        for row in noted.statuses:
            statuses_of = self._statuses.setdefault(row.notification, {})
            statuses_of[row.user] = UserStatus(row.status)
            if statuses_of[row.user] is UserStatus.UNREAD:  # as in the file, which has no row for it
                del statuses_of[row.user]
            if (one := self._kept.get(row.notification)) is not None:
                self.marked(one, row.user)

    def _show(self, kept: Mapping[str, Notification]) -> None:
        self._kept = kept
        self._changed.set()
        self._changed = asyncio.Event()

    async def _write(
        self,
        kept: Mapping[str, Notification],
        *,
        unread: Collection[str] = (),
        statuses: Sequence[NotificationStatusRow] = (),
    ) -> None:
        """Write these to the file. What cannot be written waits for the next write, except the statuses of people.

        Raises StaleChange if another replica changed something since, and StoreFault if statuses cannot be written.
        """
        stored = self._stored
        to_unread = self._to_unread | set(unread)
        rows = [models.notification_row(one) for one in kept.values() if stored.get(one.id) is not one]
        forget = stored.keys() - kept.keys()
        if not rows and not forget and not statuses:
            return
        try:
            noted = Noted(rows, forget, to_unread, statuses)
            number = await asyncio.shield(self._operations.note(noted, after=self._number))
        except StaleChange:
            raise
        except StoreFault as fault:
            self._to_unread = to_unread
            if self.unwritten != fault.message:  # log the same fault only once
                log.warning("Notifications are shown and alerts sent, but after a restart not known: %s", fault.message)
            self.unwritten = fault.message
            if statuses:  # a reopened notification would be unread again
                raise
            return
        self._stored, self._number, self._to_unread = kept, number, set()
        if self.unwritten:
            self.unwritten = ""
            log.info("Notifications can be written again, and those that waited for that are.")

    def _new_id(self) -> str:
        # Two ids within a millisecond need an order too, because lists are sorted by id.
        self._made = max(int(self._clock().timestamp() * 1000), self._made + 1)
        return ids.ulid(milliseconds=self._made, randomness=os.urandom(ids.RANDOM_BYTES))

    # Alerts.

    def due(self, target: AlertTarget) -> list[DueAlert]:
        """Return the alerts that are due for a target and that this replica sends, in order."""
        ours = filter(self._owners.sends, self._kept.values())
        return ledger.due(ours, target.name, now=self._clock())

    def notification(self, identifier: str) -> Notification | None:
        """Return a stored notification."""
        return self._kept.get(identifier)

    def changed(self) -> asyncio.Event:
        """Return the event of the next change, or the next time that alerts may be due."""
        return self._changed

    async def settle(self, target: AlertTarget, alerts: Iterable[DueAlert], *, is_told: bool) -> None:
        """Record that a target accepted these alerts, or that they were given up."""
        every = tuple(alerts)

        def settled() -> Collection[Notification]:
            put: dict[str, Notification] = {}
            for alert in every:
                one = put.get(alert.notification) or self._kept.get(alert.notification)
                if one is not None:
                    put[one.id] = ledger.settled(one, target.name, alert, is_told=is_told)
            return put.values()

        await self._change(settled)

    async def tell_late(self, target: AlertTarget) -> None:
        """Send a target the open notifications that it did not get."""
        late = await self._change(lambda: ledger.told_late(self._kept.values(), target, now=self._clock()))
        if late:
            told = counted(len(late), "open notification")
            log.info("The alert target %s is told of %s that it did not hear of.", target.name, told)

    # Reads.

    @property
    def kept(self) -> Mapping[str, Notification]:
        """All notifications by id. A change replaces the mapping and the notification in it."""
        return self._kept

    @property
    def open(self) -> Counter[tuple[NotificationType, Severity]]:
        """The number of open notifications of each type and severity."""
        return Counter(
            (one.cause.type, one.severity) for one in self._kept.values() if one.state is NotificationState.OPEN
        )

    def one(self, identifier: str, *, sees: Sees, user: str | None) -> bytes | None:
        """Return a notification as JSON, for a person (`user`) or a key (None); None if they may not see it."""
        one = self._kept.get(identifier)
        return None if one is None or not sees(one.cause) else self._shown(one, user)

    async def pages(
        self, *, sees: Sees, user: str | None, after: str | None = None, limit: int = MOST
    ) -> AsyncGenerator[list[bytes], None]:
        """Yield the notifications that a caller may see, newest first, as of the first page. `after` is the last id of
        the previous list.
        """
        every = list(self._kept.values())
        end = len(every) if after is None else bisect_left(every, after, key=lambda one: one.id)
        for stop in range(end, 0, -PAGE):
            found = [one for one in reversed(every[max(stop - PAGE, 0) : stop]) if sees(one.cause)][:limit]
            limit -= len(found)
            if found:
                yield [self._shown(one, user) for one in found]
            if limit == 0:
                return
            await asyncio.sleep(0)  # a caller who sees few of them needs many steps

    async def set_status(self, identifier: str, status: UserStatus, *, sees: Sees, user: str) -> bytes | None:
        """Store a person's mark of a notification. Return the notification as JSON, None if they may not see it.

        Raises StoreFault.
        """
        row = NotificationStatusRow(identifier, user, status.value)
        async with self._changing:
            for _ in range(TRIES):
                one = self._kept.get(identifier)
                if one is None or not sees(one.cause):
                    return None
                try:
                    await self._write(self._kept, statuses=(row,))
                except StaleChange:
                    await self._read()
                    continue
                self._mark(Noted(statuses=(row,)))
                return self._shown(one, user)
        raise StaleChange("Other replicas change notifications at this moment; try again.")

    def _shown(self, one: Notification, user: str | None) -> bytes:
        status = UserStatus.UNREAD if user is None else self._statuses.get(one.id, {}).get(user, UserStatus.UNREAD)
        return rendering.render(one, self._place, status)
