"""When a browser is signed in: what its cookie holds, and how long that counts.

Belongs here: decisions, with the time as an argument. Does not: keeping sessions (`reconciler.signing_in.sessions`),
cookies (the doors).
"""

import base64
import hashlib
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from reconciler.model.directory import User

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
    """What a new session's cookie holds: 43 letters, digits, `-` and `_`; `randomness` is 32 bytes from the system."""
    if len(randomness) != RANDOM_BYTES:
        raise ValueError(f"a session takes {RANDOM_BYTES} bytes of randomness")
    return base64.urlsafe_b64encode(randomness).decode("ascii").rstrip("=")


def session_digest(token: str) -> bytes | None:
    """What is kept of it; None for a text that is no such token.

    No salt and no slow hash: there are 256 random bits to guess. Whoever looks a digest up learns by the time that it
    takes no more than parts of a digest, from which no token can be made.
    """
    return hashlib.sha256(token.encode("ascii")).digest() if _TOKEN.fullmatch(token) else None


def is_session_over(session: Session, *, lifetimes: SessionLifetimes, now: datetime) -> bool:
    """Whether it has ended by itself. One from the future (a clock that went back) is over as well."""
    if max(session.created_at, session.seen_at) > now + LEEWAY:
        return True
    idle, absolute = timedelta(seconds=lifetimes.idle), timedelta(seconds=lifetimes.absolute)
    return now - session.seen_at >= idle or now - session.created_at >= absolute


def is_session_of(session: Session, user: User | None) -> bool:
    """Whether the person is still who they were when it began: there, and nothing was taken from them."""
    return user is not None and (user.id, user.losses) == (session.user, session.losses)
