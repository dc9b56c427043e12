"""The parts of one replica among several: they follow the others, and know how long ago the database answered."""

import asyncio
import contextlib
import logging
import secrets
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial

from api.calls import Services
from api.responses import Header
from reconciler.auth.accounts import Accounts
from reconciler.auth.sessions import Sessions
from reconciler.model.errors import Refused
from reconciler.replicas import tokens
from reconciler.replicas.cache import ResourceCache
from reconciler.replicas.calling import CalledPeers
from reconciler.replicas.contact import Contact
from reconciler.replicas.following import Following
from reconciler.replicas.keeper import LeaseKeeper
from reconciler.replicas.tokens import PeerTokens
from reconciler.server.notifying import Notifying
from reconciler.settings.models import Settings
from reconciler.store.contract import Notice, Replication, Store
from reconciler.store.notices import HintBody, KeyUsesBody, NoticeKind, SessionsBody, decode
from reconciler.store.records import ResourceChange
from reconciler.store.replica_records import ReplicaRow
from reconciler.version import __version__

log = logging.getLogger(__name__)

PROCESS_BYTES = 8  # of the random id of this process


@dataclass(frozen=True, slots=True)
class ReplicaParts:
    """The parts that only a replica has."""

    replication: Replication
    contact: Contact
    following: Following
    cache: ResourceCache
    keeper: LeaseKeeper
    peers: CalledPeers
    tokens: PeerTokens

    @classmethod
    @contextlib.asynccontextmanager
    async def opened(
        cls, settings: Settings, *, store: Store, replication: Replication, flow_key: bytes
    ) -> AsyncIterator["ReplicaParts"]:
        """Build them, before anything is read of the store. Raises Refused."""
        contact = Contact(replication.notices)
        following = Following(replication.notices, store, contact)
        process, name = secrets.token_hex(PROCESS_BYTES), settings.replica.name
        keeper = LeaseKeeper(replication.leases, ReplicaRow(name, settings.replica.url, __version__, process, ""))
        signing = PeerTokens(tokens.derived_key(flow_key), process=process, clock=time.time)
        tls = await asyncio.to_thread(_trusted, settings)
        async with CalledPeers(name, signing=signing, others=keeper.peers, known=keeper.known, tls=tls) as peers:
            try:
                yield cls(replication, contact, following, ResourceCache(store), keeper, peers, signing)
            finally:
                await replication.leases.close()

    @property
    def header(self) -> Header:
        """The header of every answer: the replica that the client talks to."""
        return b"x-replica", self.keeper.name.encode()

    @contextlib.asynccontextmanager
    async def following_changes(self, services: Services, notifying: Notifying) -> AsyncIterator[asyncio.Task[None]]:
        """Follow the other replicas inside this context, in the task."""
        following = self.following
        following.subscribe(NoticeKind.SESSIONS, partial(_hear_sessions, services.sessions))
        following.subscribe(NoticeKind.NOTIFICATIONS, notifying.hear)
        following.subscribe(NoticeKind.KEY_USES, partial(_hear_uses, services.accounts))
        services.accounts.tell_uses = self._tell_uses
        following.subscribe(NoticeKind.HINT, partial(_hear_hint, services))
        following.reload_with(self.cache.clear)
        following.reload_with(services.accounts.reload)
        following.reload_with(services.sessions.load)
        following.reload_with(services.repositories.recall)
        following.reload_with(services.board.reload)
        following.reload_with(partial(_everything_changed, services))
        task = asyncio.create_task(following.keep(), name="following")
        try:
            yield task
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _tell_uses(self, used: Mapping[str, str]) -> None:
        await self.replication.notices.tell(NoticeKind.KEY_USES, KeyUsesBody(dict(used)))


def _trusted(settings: Settings) -> ssl.SSLContext | None:
    """Return the authorities that other replicas' certificates are checked with; None for those of the system."""
    file = settings.outbound.ca_file
    if file is None:
        return None
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as problem:
        raise Refused(f"{file} cannot be read as certificates ({problem}); mend `outbound.caFile`.") from problem


async def _hear_sessions(sessions: Sessions, notice: Notice) -> None:
    body = decode(notice.body, SessionsBody)
    await sessions.hear(put=body.put, ended=body.ended, seen=body.seen)


async def _hear_uses(accounts: Accounts, notice: Notice) -> None:
    accounts.follow_uses(decode(notice.body, KeyUsesBody).used)


async def _hear_hint(services: Services, notice: Notice) -> None:
    services.repositories.hinted(decode(notice.body, HintBody).repository)


async def _everything_changed(services: Services) -> None:
    """Have everything that follows changes of resources read again."""
    services.events.reset()
    every = [one.watched.name for one in services.repositories.reconcilers()]
    for project in sorted(services.accounts.directory.projects):
        services.store.announce(ResourceChange(None, touched=every, project=project, is_remote=True))
