"""Following the changes of other replicas. The subscribers of this replica hear them like its own changes.

The database reports each change within milliseconds. A request with something unknown, such as a session that another
replica has just begun, or a revision from its answer, makes this replica ask at once.
"""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable
from time import monotonic

import msgspec

from reconciler.model import errors
from reconciler.replicas.contact import Contact
from reconciler.store.contract import Heard, Notice, Notices, Store, StoreFault
from reconciler.store.notices import (
    AmendmentBody,
    CommitBody,
    NoticeKind,
    decode,
    heard_changes,
    heard_commit,
)

log = logging.getLogger(__name__)

WAIT_SECONDS = 2.0  # for which a request waits for its revision
HEAR_SECONDS = 5.0  # for one notice: meanwhile contact with the database is not checked
RELOAD_SECONDS = 30.0  # the same for everything
LATE = "the database does not answer in time"
UNSURE = "This replica does not reach the database, so it does not know if another one made this credential; try again."

Hear = Callable[[Notice], Awaitable[None]]
"""Handles a notice of another replica. If it raises ReconcilerError or MsgspecError, everything is reloaded."""

Reload = Callable[[], Awaitable[None]]
"""Reads everything of one kind again. Raises ReconcilerError."""


class Following:
    """The changes of other replicas. This replica has heard all of them up to `revision`."""

    def __init__(self, notices: Notices, store: Store, contact: Contact) -> None:
        self.revision = store.known_revision
        self.told = 0  # the newest revision in passed-on answers of other replicas
        self.behind = 0  # notices of the last answer that are not handled yet
        self._notices = notices
        self._store = store
        self._contact = contact
        self._hearers: defaultdict[str, list[Hear]] = defaultdict(list)
        self._reloads: list[Reload] = []
        self._changes = 0  # that were heard so far
        self._must_reload = False
        self._heard = asyncio.Event()
        self.subscribe(NoticeKind.COMMIT, self._hear_commit)
        self.subscribe(NoticeKind.AMENDMENT, self._hear_amendment)

    def subscribe(self, kind: str, hear: Hear) -> None:
        """Call this function with each notice of a kind from other replicas, in their order."""
        self._hearers[kind].append(hear)

    def reload_with(self, reload: Reload) -> None:
        """Call this function when notices were missed. Functions are called in the order in which they were given."""
        self._reloads.append(reload)

    async def keep(self) -> None:
        """Follow the changes, until cancelled."""
        async for heard in self._notices.follow():
            await self._take(heard)
            self._heard.set()
            self._heard = asyncio.Event()

    async def _take(self, heard: Heard) -> None:
        self._must_reload = self._must_reload or heard.missed
        self.behind = len(heard.notices)
        for notice in heard.notices:
            if notice.writer != self._notices.writer:
                self._changes += 1
                await self._hand_out(notice)
            self.behind -= 1
        if self._must_reload:
            self._changes += 1
            await self._reload()
        if not self._must_reload:
            self.revision = max(self.revision, heard.revision)
            self._contact.heard(heard.asked_at)

    async def _hand_out(self, notice: Notice) -> None:
        for hear in self._hearers[notice.kind]:
            try:
                async with asyncio.timeout(HEAR_SECONDS):
                    await hear(notice)
            except (errors.ReconcilerError, msgspec.MsgspecError, TimeoutError) as problem:
                log.warning(
                    "A change of another replica could not be followed, so all is read again: %s", str(problem) or LATE
                )
                self._must_reload = True

    async def _reload(self) -> None:
        log.info("Changes of other replicas were missed: everything is read again.")
        try:
            async with asyncio.timeout(RELOAD_SECONDS):
                for reload in self._reloads:
                    await reload()
        except (errors.ReconcilerError, TimeoutError) as problem:  # the next answer is a second away
            log.warning("What other replicas changed could not be read yet: %s", str(problem) or LATE)
        else:
            self._must_reload = False

    async def _hear_commit(self, notice: Notice) -> None:
        body = decode(notice.body, CommitBody)
        for change in heard_changes(body):
            self._store.announce(change)
        self._store.announce(heard_commit(body))

    async def _hear_amendment(self, notice: Notice) -> None:
        self._store.announce(decode(notice.body, AmendmentBody).amendment)

    async def catch_up(self) -> bool:
        """Hear everything that was written before this call. Return True if another replica changed something unknown.
        All waiting callers share the same answers, of which there are at most a few each second. Raises StoreFault
        without contact: an unknown credential may be new from another replica.
        """
        changes, now = self._changes, monotonic()
        await self._until(lambda: self._contact.heard_at >= now)
        if self._contact.heard_at < now:
            raise StoreFault(UNSURE)
        return self._changes != changes

    async def knows(self, revision: int) -> bool:
        """Wait until this replica has heard of a revision; return False if it has not within `WAIT_SECONDS`."""
        if self.revision < revision:
            await self._until(lambda: self.revision >= revision)
        return self.revision >= revision

    async def _until(self, is_done: Callable[[], bool]) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                while not is_done() and self._contact.stale_seconds is None:
                    heard = self._heard
                    self._notices.ask()
                    await heard.wait()
