"""What is kept beside the resources, in a file of its own (`ops.db`), so that a sign-in never waits for a large commit.

Belongs here: the rows and what the file can do. Does not: SQLite (`sqlite`), when somebody is signed in
(`reconciler.access.sessions`).

What is taken from somebody ends their sessions without this file: the store counts it with the person, in the same
transaction, and a session counts only with the number that it began with. So nobody is removed later because this file
cannot be written, and no session comes back with a file that was not.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec


class SessionRow(NamedTuple):
    """A browser that is signed in. Instants are RFC 3339, UTC, as everywhere."""

    digest: bytes  # SHA-256 of what its cookie holds
    user: str  # an id
    losses: int  # those of the person when it began
    created_at: str
    seen_at: str
    id_token: str  # of the provider, for its own sign-out; empty for a person with a password

    def __repr__(self) -> str:
        return f"SessionRow(user={self.user!r}, created_at={self.created_at!r})"


class NotificationRow(NamedTuple):
    """A notification that is kept; `body` is JSON, which `reconciler.notifying.keeping` reads and writes."""

    id: str
    body: bytes


class NotificationStatusRow(NamedTuple):
    """What somebody did with a notification. Of one that they have not looked at there is no row."""

    notification: str
    user: str
    status: str


class AlertRow(msgspec.Struct, frozen=True, gc=False):
    """An alert that is still to be sent: to which target, and the body as it is sent at each attempt.

    One look may make 20,000 of them. They refer to nothing that could refer to them, so that the garbage collector,
    which holds everything up, need not go through them.
    """

    id: str
    target: str
    body: bytes
    made_at: str

    def __repr__(self) -> str:
        return f"AlertRow(id={self.id!r}, target={self.target!r})"


class Noted(NamedTuple):
    """What one look changed: rows to put, the ids of notifications to forget with all that people did with them, those
    of notifications that nobody has read any more, and alerts to send. `targets` are the names of all that alerts go to
    from now on; None leaves those that are kept.
    """

    put: Sequence[NotificationRow] = ()
    forget: Collection[str] = ()
    unread: Collection[str] = ()
    alerts: Sequence[AlertRow] = ()
    targets: Collection[str] | None = None


class Operations(Protocol):
    """The file. Each method raises `StoreFault` (`reconciler.store.contract`) when the disk or SQLite does, and where
    too much waits to be written.
    """

    async def flow_key(self) -> bytes:
        """The key of sealed sign-ins (`reconciler.oidc.flows`), 32 random bytes that were made once."""

    async def sessions(self) -> list[SessionRow]:
        """Every session, by its age."""

    async def put_session(self, row: SessionRow, *, without: Collection[bytes] = ()) -> None:
        """Keep a new one and forget those with these digests, both or neither, on the disk before this returns."""

    async def remove_sessions(self, digests: Collection[bytes]) -> None:
        """Forget these, on the disk before this returns."""

    async def touch_sessions(self, seen: Mapping[bytes, str]) -> None:
        """When these were seen last; nobody waits for the disk."""

    async def notifications(self) -> list[NotificationRow]:
        """Every notification, by its id."""

    async def notification_statuses(self) -> list[NotificationStatusRow]:
        """What people did with them, by notification and person."""

    async def alerts(self) -> list[AlertRow]:
        """The alerts that are still to be sent, in the order in which they were made."""

    async def alert_targets(self) -> list[str]:
        """The names of all that alerts went to when they were noted last, sorted."""

    async def note(self, noted: Noted) -> None:
        """Keep what a look changed, all of it or nothing, on the disk before this returns."""

    async def put_notification_status(self, row: NotificationStatusRow) -> None:
        """Keep what somebody did with a notification, in place of what they did before; `unread` removes that. On the
        disk before this returns.
        """

    async def remove_alerts(self, ids: Collection[str]) -> None:
        """Forget alerts that are sent, or given up, on the disk before this returns."""

    async def close(self) -> None:
        """End with what is under way."""
