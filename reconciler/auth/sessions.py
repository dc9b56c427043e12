"""Sessions of browsers."""

import asyncio
import base64
import hashlib
import logging
import re
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from reconciler.auth.accounts import Accounts
from reconciler.auth.oidc import flows
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.directory import Directory, User
from reconciler.store.contract import Operations, StoreFault
from reconciler.store.records import SessionRow

# A session: the token in its cookie, and its lifetime.

RANDOM_BYTES = 32
MOST = 10_000  # sessions in all
MOST_OF_ONE = 20  # of one person
LEEWAY = timedelta(minutes=1)  # by which a clock that is set right may go back without signing anybody out

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class SessionLifetimes:
    """In seconds: after the last request, and in all (`auth.session`)."""

    idle: float
    absolute: float


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that is signed in; `user` is an id, `losses` are those of the person when it began."""

    digest: bytes = field(repr=False)  # SHA-256 of what its cookie holds
    user: str
    created_at: datetime
    seen_at: datetime
    losses: int = 0
    id_token: str = field(default="", repr=False)


def make_session(randomness: bytes) -> str:
    """Make the token of a new session's cookie: 43 letters, digits, `-` and `_`; `randomness` is 32 bytes."""
    if len(randomness) != RANDOM_BYTES:
        raise ValueError(f"a session takes {RANDOM_BYTES} bytes of randomness")
    return base64.urlsafe_b64encode(randomness).decode("ascii").rstrip("=")


def session_digest(token: str) -> bytes | None:
    """Return the digest that is kept of a token; None for a text that is none.

    No salt and no slow hash: there are 256 random bits to guess. Whoever looks a digest up learns by the time that it
    takes no more than parts of a digest, from which no token can be made.
    """
    return hashlib.sha256(token.encode("ascii")).digest() if _TOKEN.fullmatch(token) else None


def is_session_over(session: Session, *, lifetimes: SessionLifetimes, now: datetime) -> bool:
    """Return True for a session that ended by itself. One from the future (a clock that went back) is over too."""
    if max(session.created_at, session.seen_at) > now + LEEWAY:
        return True
    idle, absolute = timedelta(seconds=lifetimes.idle), timedelta(seconds=lifetimes.absolute)
    return now - session.seen_at >= idle or now - session.created_at >= absolute


def is_session_of(session: Session, user: User | None) -> bool:
    """Return True when the person of a session is still there, and nothing was taken from them since it began."""
    return user is not None and (user.id, user.losses) == (session.user, session.losses)


# Browsers that are signed in: beginning a session, finding it with each request, ending it.
#
# A session is on the disk before its cookie is given out, and gone from memory before it is taken from the disk.
# A person who loses access loses all sessions at once (`accounts`); the rows are deleted within a minute.

log = logging.getLogger(__name__)

KEEP_SECONDS = 60.0  # between two writes of when sessions were seen
AT_A_STRETCH = 1_000  # sessions looked at before others have their turn, about a millisecond


class SessionGone(Exception):
    """The person was removed, lost a role or changed the password while the session was begun."""


class Sessions:
    """Every session. At most `MOST` in all and `MOST_OF_ONE` of one person: the longest unused go first."""

    def __init__(
        self,
        operations: Operations,
        accounts: Accounts,
        *,
        lifetimes: SessionLifetimes,
        clock: Clock,
        randomness: Callable[[int], bytes],
    ) -> None:
        self._operations = operations
        self._accounts = accounts
        self._lifetimes = lifetimes
        self._clock = clock
        self._randomness = randomness
        self._live: OrderedDict[bytes, Session] = OrderedDict()  # by digest, the longest unused first
        self._of: defaultdict[str, OrderedDict[bytes, None]] = defaultdict(OrderedDict)  # by person, likewise
        self._seen: set[bytes] = set()  # since they were written
        self._ended: set[bytes] = set()  # and still to be taken from the disk

    async def load(self) -> None:
        """Take over what an earlier start left, less what is over. Raises StoreFault."""
        for row in sorted(await self._operations.sessions(), key=lambda row: row.seen_at):
            session = _session(row)
            if session is not None and self._counts(session, now=self._clock()):
                self._keep(session)
            else:
                self._drop(row.digest)
        self._make_room()
        await self.touch()

    async def begin(self, user: User, *, since: Directory, id_token: str = "", instead_of: str = "") -> str:
        """A new session, as what its cookie holds; the one of the token `instead_of` ends, so that nobody goes on with
        an id that was there before (session fixation). `since` is the directory by which the person was recognised.

        Raises Gone, StoreFault. Whoever is cancelled meanwhile leaves a session that nobody has the cookie of.
        """
        return await asyncio.shield(
            asyncio.create_task(
                self._begin(user, since=since, id_token=id_token, instead_of=instead_of), name="begin a session"
            )
        )

    async def _begin(self, user: User, *, since: Directory, id_token: str, instead_of: str) -> str:
        known, now = since.user(user.id), self._clock()
        if known is None:
            raise SessionGone
        token = make_session(self._randomness(RANDOM_BYTES))
        made = session_digest(token)
        assert made is not None
        # A longer one would not be given back to the provider anyway.
        told = id_token if len(id_token) <= flows.LONGEST_HINT else ""
        session = Session(made, user.id, created_at=now, seen_at=now, losses=known.losses, id_token=told)
        self._is_still(session)
        before = session_digest(instead_of)
        without = () if before is None or before not in self._live else (before,)
        for digest in without:
            self._drop(digest)
        await self._operations.put_session(_row(session), without=without)
        self._keep(session)
        self._make_room()
        self._is_still(session)
        return token

    def find(self, token: str) -> Session | None:
        """The session of a cookie, which counts as seen now; None for one that is over, ended or none of ours, and
        where the person is no more.
        """
        wanted, now = session_digest(token), self._clock()
        session = None if wanted is None else self._live.get(wanted)
        if session is None:
            return None
        if not self._counts(session, now=now):
            self._drop(session.digest)
            return None
        seen = session if now <= session.seen_at else replace(session, seen_at=now)
        self._keep(seen)
        self._seen.add(seen.digest)
        return seen

    def is_live(self, session: Session) -> bool:
        """Return True when a session that was found a while ago still counts."""
        found = self._live.get(session.digest)
        return found is not None and self._counts(found, now=self._clock())

    async def end(self, token: str) -> Session | None:
        """Sign out; what ended, or None. Raises StoreFault: then it has ended in memory all the same, and is taken from
        the disk as soon as that can be written.
        """
        wanted = session_digest(token)
        session = None if wanted is None else self._live.get(wanted)
        if session is None:
            return None
        self._drop(session.digest)
        await self._write_ended()
        return session

    async def keep(self, *, every: float = KEEP_SECONDS) -> None:
        """Write when sessions were seen and forget those that are over, each minute, until cancelled."""
        while True:
            await asyncio.sleep(every)
            await self.sweep()

    async def sweep(self) -> None:
        """Forget those that are over, and write what is to be written."""
        live = list(self._live)
        for start in range(0, len(live), AT_A_STRETCH):
            now = self._clock()
            for digest in live[start : start + AT_A_STRETCH]:
                session = self._live.get(digest)
                if session is not None and not self._counts(session, now=now):
                    self._drop(digest)
            await asyncio.sleep(0)
        await self.touch()

    async def touch(self) -> None:
        """Write which sessions have ended, and when the others were seen; what cannot be written waits."""
        try:
            await self._write_ended()
            await self._write_seen()
        except StoreFault as fault:
            log.warning("Which sessions have ended, and when others were seen, could not be written: %s", fault.message)

    async def _write_ended(self) -> None:
        ended = frozenset(self._ended)
        if ended:
            await self._operations.remove_sessions(ended)
            self._ended -= ended

    async def _write_seen(self) -> None:
        seen = {digest: rfc3339(self._live[digest].seen_at) for digest in self._seen}
        self._seen = set()  # before they are written: one may be seen once more meanwhile
        try:
            if seen:
                await self._operations.touch_sessions(seen)
        except BaseException:
            self._seen |= seen.keys() & self._live.keys()
            raise

    def _counts(self, session: Session, *, now: datetime) -> bool:
        user = self._accounts.directory.user(session.user)
        return is_session_of(session, user) and not is_session_over(session, lifetimes=self._lifetimes, now=now)

    def _is_still(self, session: Session) -> None:
        """Raises Gone when something was taken from the person since they were recognised."""
        if not is_session_of(session, self._accounts.directory.user(session.user)):
            self._drop(session.digest)
            raise SessionGone

    def _keep(self, session: Session) -> None:
        """Have it in memory, as the one that was used last."""
        of_one = self._of[session.user]
        for kept in (self._live, of_one):
            kept.pop(session.digest, None)
        self._live[session.digest] = session
        of_one[session.digest] = None
        if len(of_one) > MOST_OF_ONE:
            self._drop(next(iter(of_one)))

    def _make_room(self) -> None:
        while len(self._live) > MOST:
            self._drop(next(iter(self._live)))

    def _drop(self, digest: bytes) -> None:
        """It counts no more, and is to be taken from the disk."""
        self._ended.add(digest)
        self._seen.discard(digest)
        session = self._live.pop(digest, None)
        if session is not None:
            of_one = self._of[session.user]
            del of_one[digest]
            if not of_one:
                del self._of[session.user]


def _session(row: SessionRow) -> Session | None:
    """The session of a row; None for one whose instants cannot be read."""
    try:
        created_at, seen_at = _instant(row.created_at), _instant(row.seen_at)
    except ValueError:
        return None
    return Session(
        row.digest, row.user, created_at=created_at, seen_at=seen_at, losses=row.losses, id_token=row.id_token
    )


def _instant(text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError("the instant has no time zone")
    return instant


def _row(session: Session) -> SessionRow:
    return SessionRow(
        digest=session.digest,
        user=session.user,
        losses=session.losses,
        created_at=rfc3339(session.created_at),
        seen_at=rfc3339(session.seen_at),
        id_token=session.id_token,
    )
