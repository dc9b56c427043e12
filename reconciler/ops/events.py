"""Events: changes of things that the API shows, for callers who follow them instead of asking again and again.

An event names a thing that may have changed, never its content. The store tells its commits. Everything else (heads and
faults that are not stored, delivery, notifications) is compared once a second, while there are followers.

The newest events are kept. A follower has only a position among them, so that many idle followers cost nothing. One
that is too slow, or comes from an earlier process, learns that it missed events, and has to read everything again.
"""

import asyncio
import contextlib
import os
import re
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple, TypeAlias

import msgspec

from reconciler.notifications.models import Cause, Notification
from reconciler.store.records import Committed

MOST = 4_096  # events that are kept
BATCH = 256  # events that a follower takes at a time
LOOK_SECONDS = 1.0  # between two comparisons
ID = re.compile(r"([0-9a-f]{8})-([0-9]{1,15})")


class Topic(StrEnum):
    """The sort of thing that changed, with its key."""

    RESOURCE = "resource"  # `Kind/name`, or `Kind` for all of a kind
    RUN = "run"  # the id
    REPOSITORY = "repository"  # the name
    DELIVERY = "delivery"  # the destination's name; empty for the records that no Configuration took
    NOTIFICATION = "notification"  # the id


Facts: TypeAlias = Mapping[tuple[Topic, str, str], Hashable]
"""Facts that the store does not tell, by topic, project and key."""


class Event(NamedTuple):
    """One change. `text` is its form in a stream. The `cause` of a notification, otherwise the `project`, says who may
    learn of it.
    """

    topic: Topic
    key: str
    project: str
    text: bytes
    cause: Cause | None = None


class Events:
    """The newest events of this process, by number. `followers` counts them by caller; `is_closed`: none comes any
    more.
    """

    def __init__(self, found: Callable[[], Facts], notifications: Callable[[], Mapping[str, Notification]]) -> None:
        """Both arguments are called while there are followers. A difference to the last result is a change."""
        self.last = 0  # the number of the newest event
        self.followers: Counter[str] = Counter()
        self.is_closed = False
        self._found = found
        self._kept_notifications = notifications
        self._process = os.urandom(4).hex()  # in every id, since the next process begins to count anew
        self._kept: deque[Event] = deque(maxlen=MOST)
        self._added = asyncio.Event()
        self._facts: Facts = {}
        self._notifications: Mapping[str, Notification] = {}

    # What changes.

    def heard(self, told: Committed) -> None:
        """Add the events of a commit."""
        for project, kind, name in told.keys:
            self._add(Topic.RESOURCE, f"{kind}/{name}" if name else kind, project, revision=told.revision)
        for project, run in told.runs:
            self._add(Topic.RUN, run, project, revision=told.revision)
        for project, repository in told.repositories:
            self._add(Topic.REPOSITORY, repository, project, revision=told.revision)
        if told.released:
            self.reset()
        self._wake()

    def marked(self, one: Notification, user: str) -> None:
        """A person has marked a notification, which only they learn."""
        self._add(Topic.NOTIFICATION, one.id, one.cause.project, cause=one.cause._replace(user=user))
        self._wake()

    def reset(self) -> None:
        """Tell every follower to read everything again."""
        self._kept.clear()
        self.last += 1
        self._wake()

    async def keep(self) -> None:
        """Compare all other facts while there are followers, until cancelled; then every follower is told to end."""
        self._facts, self._notifications = self._found(), self._kept_notifications()
        try:
            while True:
                if self.followers:
                    self.compare()
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            self.is_closed = True
            self._wake()

    def compare(self) -> None:
        """Compare everything that the store does not tell with the last time."""
        before, self._facts = self._facts, self._found()
        changed = (what for what in {**before, **self._facts} if before.get(what) != self._facts.get(what))
        for topic, project, key in changed:
            self._add(topic, key, project)
        noted, self._notifications = self._notifications, self._kept_notifications()
        for identifier, one in {**noted, **self._notifications}.items():
            if noted.get(identifier) is not self._notifications.get(identifier):
                self._add(Topic.NOTIFICATION, identifier, one.cause.project, cause=one.cause)
        self._wake()

    def _add(
        self, topic: Topic, key: str, project: str, *, revision: int | None = None, cause: Cause | None = None
    ) -> None:
        self.last += 1
        shown = {"key": key, "project": project or None, "revision": revision}
        data = msgspec.json.encode({name: value for name, value in shown.items() if value is not None})
        text = b"id: %b\nevent: %b\ndata: %b\n\n" % (self.id_of(self.last).encode(), topic.encode(), data)
        self._kept.append(Event(topic, key, project, text, cause))

    def _wake(self) -> None:
        self._added.set()
        self._added = asyncio.Event()

    # Following.

    @contextlib.contextmanager
    def followed_by(self, name: str) -> Iterator[None]:
        """Count a caller who follows inside this context."""
        self.followers[name] += 1
        try:
            yield
        finally:
            self.followers[name] -= 1
            if not self.followers[name]:
                del self.followers[name]

    def id_of(self, number: int) -> str:
        """Return the id of an event in streams."""
        return f"{self._process}-{number}"

    def number_of(self, identifier: str) -> int:
        """Return the number of an event's id; -1, from which events are missing, for an id of no event here."""
        found = ID.fullmatch(identifier)
        is_known = found is not None and found[1] == self._process and int(found[2]) <= self.last
        return int(found[2]) if found is not None and is_known else -1

    def after(self, number: int) -> list[Event] | None:
        """Return the next events after the one with this number, at most BATCH; None if some are not kept any more."""
        behind = self.last - number
        if number < 0 or behind > len(self._kept):
            return None
        return [self._kept[index] for index in range(-behind, min(BATCH - behind, 0))]

    async def added(self, *, seconds: float) -> None:
        """Wait for more events, for at most this time."""
        added = self._added
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await added.wait()

    async def concern(self, topic: Topic, key: str, *, after: int, seconds: float) -> None:
        """Wait until an event after a number is about one thing, or may be, for at most this time."""
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        while not self.is_closed and (left := until - clock()) > 0:
            found = self.after(after)
            if found is None or any((one.topic, one.key) == (topic, key) for one in found):
                return
            after += len(found)
            if not found:
                await self.added(seconds=left)
