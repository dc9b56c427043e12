"""The parts of one replica among several: they follow the others, and know how long ago the database answered."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial

from api.calls import Services
from reconciler.auth.sessions import Sessions
from reconciler.replicas.contact import Contact
from reconciler.replicas.following import Following
from reconciler.server.notifying import Notifying
from reconciler.store.contract import Notice, Replication, Store
from reconciler.store.notices import HintBody, NoticeKind, SessionsBody, decode
from reconciler.store.records import ResourceChange

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReplicaParts:
    """What only a replica has."""

    replication: Replication
    contact: Contact
    following: Following

    @classmethod
    def build(cls, store: Store, replication: Replication) -> "ReplicaParts":
        """Build them, before anything is read of the store."""
        contact = Contact(replication.notices)
        return cls(replication, contact, Following(replication.notices, store, contact))

    @contextlib.asynccontextmanager
    async def following_changes(self, services: Services, notifying: Notifying) -> AsyncIterator[asyncio.Task[None]]:
        """Follow the other replicas inside this context, in the task."""
        following = self.following
        following.subscribe(NoticeKind.SESSIONS, partial(_hear_sessions, services.sessions))
        following.subscribe(NoticeKind.NOTIFICATIONS, notifying.hear)
        following.subscribe(NoticeKind.HINT, partial(_hear_hint, services))
        following.reload_with(services.accounts.reload)
        following.reload_with(services.sessions.load)
        following.reload_with(services.board.reload)
        following.reload_with(partial(_everything_changed, services))
        task = asyncio.create_task(following.keep(), name="following")
        try:
            yield task
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def _hear_sessions(sessions: Sessions, notice: Notice) -> None:
    body = decode(notice.body, SessionsBody)
    await sessions.hear(put=body.put, ended=body.ended, seen=body.seen)


async def _hear_hint(services: Services, notice: Notice) -> None:
    services.repositories.hint(decode(notice.body, HintBody).repository)


async def _everything_changed(services: Services) -> None:
    """Have everything that follows changes of resources read again."""
    services.events.reset()
    every = [one.watched.name for one in services.repositories.reconcilers()]
    for project in sorted(services.accounts.directory.projects):
        services.store.announce(ResourceChange(None, touched=every, project=project, is_remote=True))
