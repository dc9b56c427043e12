"""Sessions of browsers: beginning one, finding it with each request, ending it.

A session is on the disk before its cookie is sent, and an ended one leaves memory before it is removed from the disk. A
person who loses access loses all sessions at once (`accounts`); the rows are deleted within a minute.

Each replica has all sessions in memory. It hears within milliseconds of those that another one begins and ends, and
within a minute of when they were seen there: with several replicas, a session without requests lasts that much longer.
"""

import asyncio
import hashlib
import logging
import re
import secrets
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from reconciler.auth.accounts import Accounts
from reconciler.auth.oidc import flows
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.directory import Directory, User
from reconciler.store.contract import Operations, StoreFault
from reconciler.store.records import SessionRow

log = logging.getLogger(__name__)

TOKEN_BYTES = 32
MOST = 10_000  # sessions in all
MOST_OF_ONE = 20  # of one person
LEEWAY = timedelta(minutes=1)  # by which a clock may be set back without ending sessions
KEEP_SECONDS = 60.0  # between two writes of when sessions were seen

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class SessionLifetimes:
    """In seconds: after the last request, and in all (`auth.session`)."""

    idle: float
    absolute: float


def session_digest(token: str) -> bytes | None:
    """Return the stored digest of a token; None for a text that is no token.

    It needs no salt and no slow hash, because a token has 256 random bits. The time of a look-up may reveal parts of a
    digest, but no token can be made from a digest.
    """
    return hashlib.sha256(token.encode("ascii")).digest() if _TOKEN.fullmatch(token) else None


def is_session_over(session: SessionRow, *, lifetimes: SessionLifetimes, now: datetime) -> bool:
    """Return True if a session has expired. A session from the future (the clock went back) has expired too."""
    if max(session.created_at, session.seen_at) > rfc3339(now + LEEWAY):
        return True
    idle, absolute = timedelta(seconds=lifetimes.idle), timedelta(seconds=lifetimes.absolute)
    return session.seen_at <= rfc3339(now - idle) or session.created_at <= rfc3339(now - absolute)


def is_session_of(session: SessionRow, user: User | None) -> bool:
    """Return True if the person of a session still exists and lost no access since it began."""
    return user is not None and (user.id, user.losses) == (session.user, session.losses)


class SessionGone(Exception):
    """The person was removed, lost a role or changed the password while the session began."""


class Sessions:
    """All sessions: at most `MOST` in all and `MOST_OF_ONE` of one person. The least recently used ones end first."""

    def __init__(
        self,
        operations: Operations,
        accounts: Accounts,
        *,
        lifetimes: SessionLifetimes,
        clock: Clock,
        is_shared: bool = False,
    ) -> None:
        """`is_shared`: other replicas have the same sessions."""
        self._operations = operations
        self._accounts = accounts
        self._lifetimes = replace(lifetimes, idle=lifetimes.idle + KEEP_SECONDS) if is_shared else lifetimes
        self._is_shared = is_shared
        self._clock = clock
        self._live: OrderedDict[bytes, SessionRow] = OrderedDict()  # by digest, the longest unused first
        self._seen: set[bytes] = set()  # since the last write
        self._ended: set[bytes] = set()  # ended, and not yet removed from the disk

    async def load(self) -> None:
        """Read the stored sessions that have not expired, at the start or again. Raises StoreFault."""
        before = {*self._live}
        rows = await self._operations.sessions()
        if self._is_shared:  # another replica may have changed the person's access just before the session began
            await self._accounts.reload()
        # The rows may lack sessions that began or ended here meanwhile.
        begun = [session for digest, session in self._live.items() if digest not in before]
        ended = self._ended | (before - self._live.keys())
        known, self._live = self._live, OrderedDict()
        for row in sorted([*rows, *begun], key=lambda row: row.seen_at):
            if row.digest in ended:
                continue
            if self._counts(row):
                self._keep(max(row, known.get(row.digest, row), key=lambda one: one.seen_at))
            else:
                self._drop(row.digest)
        self._seen &= self._live.keys()
        self._make_room()
        await self.touch()

    async def hear(self, *, put: Collection[bytes], ended: Collection[bytes], seen: Mapping[bytes, str]) -> None:
        """Follow what another replica did: sessions that it began or ended, and when it saw others. Raises
        StoreFault.
        """
        for digest in ended:
            self._seen.discard(digest)
            self._live.pop(digest, None)
        for digest, at in seen.items():
            if (session := self._live.get(digest)) is not None and session.seen_at < at:
                self._keep(session._replace(seen_at=at))
        for row in await self._operations.sessions(put) if put else ():
            if row.digest not in self._ended:
                self._keep(row)
        self._make_room()

    async def begin(self, user: User, *, since: Directory, id_token: str = "", instead_of: str = "") -> str:
        """Begin a session and return the value of its cookie. The session of the token `instead_of` ends, against
        session fixation. `since` is the directory in which the person was found.

        Raises SessionGone, StoreFault. A cancelled call may leave a session without a cookie.
        """
        return await asyncio.shield(
            asyncio.create_task(
                self._begin(user, since=since, id_token=id_token, instead_of=instead_of), name="begin a session"
            )
        )

    async def _begin(self, user: User, *, since: Directory, id_token: str, instead_of: str) -> str:
        known, now = since.user(user.id), rfc3339(self._clock())
        if known is None:
            raise SessionGone
        token = secrets.token_urlsafe(TOKEN_BYTES)
        digest = session_digest(token)
        assert digest is not None
        # A longer token is not sent back to the provider anyway.
        told = id_token if len(id_token) <= flows.LONGEST_HINT else ""
        session = SessionRow(digest, user.id, known.losses, created_at=now, seen_at=now, id_token=told)
        self._check_still(session)
        before = self._found(instead_of)
        if before is not None:
            self._drop(before.digest)
        await self._operations.put_session(session, without=() if before is None else (before.digest,))
        self._keep(session)
        self._make_room(user.id)
        self._check_still(session)
        return token

    def find(self, token: str) -> SessionRow | None:
        """Return the session of a cookie, and note that it was seen now. None if it has ended, is unknown, or its
        person was removed.
        """
        session = self._found(token)
        if session is None:
            return None
        if not self._counts(session):
            self._drop(session.digest)
            return None
        seen = session._replace(seen_at=max(session.seen_at, rfc3339(self._clock())))
        self._keep(seen)
        self._seen.add(seen.digest)
        return seen

    def is_live(self, session: SessionRow) -> bool:
        """Return True if a session that was found earlier is still valid."""
        found = self._live.get(session.digest)
        return found is not None and self._counts(found)

    async def end(self, token: str) -> SessionRow | None:
        """Sign out. Return the session that ended, or None. After a StoreFault it has ended in memory nevertheless, and
        is removed from the disk later.
        """
        session = self._found(token)
        if session is not None:
            self._drop(session.digest)
            await self._write_ended()
        return session

    def of_user(self, user: str) -> list[SessionRow]:
        """Return the valid sessions of a person, by id; the one that was used last comes first."""
        return [one for one in reversed(self._live.values()) if one.user == user and self._counts(one)]

    async def end_all(self, user: str) -> None:
        """Sign a person out everywhere. A StoreFault is as with `end`."""
        for session in self.of_user(user):
            self._drop(session.digest)
        await self._write_ended()

    async def keep(self, *, every: float = KEEP_SECONDS) -> None:
        """Each minute, write when sessions were seen, and remove expired ones, until cancelled."""
        while True:
            await asyncio.sleep(every)
            await self.sweep()

    async def sweep(self) -> None:
        """Remove expired sessions, and write the pending changes."""
        for session in [*self._live.values()]:
            if not self._counts(session):
                self._drop(session.digest)
        await self.touch()

    async def touch(self) -> None:
        """Write the ended sessions, and when the others were seen. A failed write is repeated later."""
        try:
            await self._write_ended()
            seen = {digest: self._live[digest].seen_at for digest in self._seen}
            self._seen = set()  # cleared before the write: a session may be seen again meanwhile
            try:
                if seen:
                    await self._operations.touch_sessions(seen)
            except BaseException:
                self._seen |= seen.keys() & self._live.keys()
                raise
        except StoreFault as fault:
            log.warning("Which sessions have ended, and when others were seen, could not be written: %s", fault.message)

    async def _write_ended(self) -> None:
        ended = frozenset(self._ended)
        if ended:
            await self._operations.remove_sessions(ended)
            self._ended -= ended

    def _found(self, token: str) -> SessionRow | None:
        digest = session_digest(token)
        return None if digest is None else self._live.get(digest)

    def _counts(self, session: SessionRow) -> bool:
        user = self._accounts.directory.user(session.user)
        if not is_session_of(session, user):
            return False
        return not is_session_over(session, lifetimes=self._lifetimes, now=self._clock())

    def _check_still(self, session: SessionRow) -> None:
        """Raise SessionGone if the person lost access since they were found."""
        if not is_session_of(session, self._accounts.directory.user(session.user)):
            self._drop(session.digest)
            raise SessionGone

    def _keep(self, session: SessionRow) -> None:
        """Keep a session in memory, as the most recently used one."""
        self._live[session.digest] = session
        self._live.move_to_end(session.digest)

    def _make_room(self, user: str = "") -> None:
        of_one = [session.digest for session in self._live.values() if session.user == user]
        for digest in of_one[:-MOST_OF_ONE]:
            self._drop(digest)
        while len(self._live) > MOST:
            self._drop(next(iter(self._live)))

    def _drop(self, digest: bytes) -> None:
        """Remove a session from memory, and from the disk later."""
        self._ended.add(digest)
        self._seen.discard(digest)
        self._live.pop(digest, None)
