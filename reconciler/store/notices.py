"""The bodies of notices (`contract.Notice`), as msgpack.

Replicas of two versions run together during an upgrade: unknown fields are ignored, and missing ones have a default.
"""

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from typing import TypeVar

import msgspec

from reconciler.model.directory import Amendment
from reconciler.store.records import Committed, KeyRow, Named, Noted, ResourceChange


class NoticeKind(StrEnum):
    """The kinds of notices. Those that a replica does not know are ignored."""

    COMMIT = "commit"
    AMENDMENT = "amendment"
    SESSIONS = "sessions"
    NOTIFICATIONS = "notifications"
    HINT = "hint"
    KEY_USES = "key-uses"


class CommitBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a commit that subscribers hear."""

    revision: int = 0
    keys: tuple[KeyRow, ...] = ()
    runs: tuple[Named, ...] = ()
    repositories: tuple[Named, ...] = ()
    released: bool = False
    changes: tuple[ResourceChange, ...] = ()


class AmendmentBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of the directory."""

    amendment: Amendment


class SessionsBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """Sessions by digest: those to read, those that ended, and when others were seen last."""

    put: tuple[bytes, ...] = ()
    ended: tuple[bytes, ...] = ()
    seen: dict[bytes, str] = {}


class NotificationsBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of the notifications, and its number."""

    number: int = 0
    noted: Noted = Noted()


class KeyUsesBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """When a replica saw keys last: RFC 3339 by the keys' ids."""

    used: dict[str, str] = {}


class HintBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """A forge reports a push: the repository's holder polls it now."""

    repository: str = ""


B = TypeVar("B", bound=msgspec.Struct)


def encode(body: msgspec.Struct) -> bytes:
    """Return a body as it is stored."""
    return msgspec.msgpack.encode(body)


def decode(body: bytes, shape: type[B]) -> B:
    """Read a body. Raises msgspec.MsgspecError for one that this version cannot read."""
    return msgspec.msgpack.decode(body, type=shape)


def commit_body(told: Committed, changes: Iterable[ResourceChange]) -> CommitBody:
    """Return the body of a commit."""
    return CommitBody(
        told.revision, tuple(told.keys), tuple(told.runs), tuple(told.repositories), told.released, tuple(changes)
    )


def heard_changes(body: CommitBody) -> list[ResourceChange]:
    """Return the changes of a commit of another replica."""
    return [replace(one, is_remote=True) for one in body.changes]


def heard_commit(body: CommitBody) -> Committed:
    """Return a commit of another replica."""
    return Committed(body.revision, body.keys, body.runs, body.repositories, body.released, is_remote=True)
