r"""The hash chain of the audit. Pure.

    leaf(event)  = SHA-256 of the event as a JSON array, in the order of an `AuditRow`, its salt (base64 or null) last
    content      = SHA-256 of the leaves in the order of their numbers, then of each redaction [event, before, after]
    hash(link)   = SHA-256 of the hash before it, the JSON array [number, events, firstAt, lastAt, address], the content

JSON is written without spaces, in UTF-8; only `"`, `\` and control characters are escaped. The first link follows 32
bytes of zero.

Each event has a hash of its own for redactions: when a secret is removed from an event's text, the old hash stays in
its link, and the new hash is in the link of the redaction. Each event with such text has a salt of 16 random bytes,
which is removed with the text. Otherwise a person with the file could guess a short secret by the hash.
"""

import hashlib
from typing import NamedTuple

import msgspec

ZERO = bytes(32)
SALT_BYTES = 16

_encode = msgspec.json.Encoder().encode


class ChainHead(NamedTuple):
    """The last link, or the beginning of the chain."""

    number: int
    hash: bytes

    def __str__(self) -> str:
        """Return `NUMBER:HASH`, as in the log and in `--head`."""
        return f"{self.number}:{self.hash.hex()}"


class ChainAnchor(NamedTuple):
    """The last removed link, number 0 for none; the number of removed events, and the largest number of one."""

    head: ChainHead
    events: int = 0
    last_event: int = 0
    proof: bytes | None = None  # the bytes that its hash covers

    @property
    def last_at(self) -> str | None:
        """The time of the last event of its link, which the hash proves; None without a proof."""
        return None if self.proof is None else _proven(self.proof, self.head)


class ChainHeader(NamedTuple):
    """The fields of a link that are hashed with its content."""

    number: int
    events: int
    first_at: str
    last_at: str
    address: str | None


class ChainRewrite(NamedTuple):
    """The redaction of one event: its leaf before and after."""

    event: int
    before: bytes
    after: bytes


def leaf(number: int, event: tuple[object, ...], salt: bytes | None) -> bytes:
    """Return the hash of one event, over the fields that a reader of the audit gets, with its own address."""
    return hashlib.sha256(_encode((number, *event, salt))).digest()


class Content:
    """The content of a link, hashed as it arrives: the events in the order of their numbers, then the redactions."""

    __slots__ = ("_hash", "events", "first_at", "last_at", "rewrites")

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.events = self.rewrites = 0
        self.first_at = ""
        self.last_at = ""

    def add(self, leaf: bytes, *, at: str) -> None:
        """Add the next event, and its time."""
        self._hash.update(leaf)
        self.events += 1
        self.last_at = max(self.last_at, at)
        if at < self.first_at or self.events == 1:
            self.first_at = at

    def rewrite(self, one: ChainRewrite) -> None:
        """Add the redaction of an event of an earlier link, in the order of numbers."""
        self._hash.update(_encode((one.event, one.before.hex(), one.after.hex())))
        self.rewrites += 1

    def digest(self) -> bytes:
        """Return the hash of the content so far."""
        return self._hash.digest()

    def sealed(self, before: ChainHead, *, address: str | None) -> ChainHead:
        """Return the head of a link with this content after the link `before`."""
        header = ChainHeader(before.number + 1, self.events, self.first_at, self.last_at, address)
        return ChainHead(header.number, hashlib.sha256(proof(before.hash, header, self.digest())).digest())


def proof(before: bytes, header: ChainHeader, content: bytes) -> bytes:
    """Return the bytes that the hash of a link covers."""
    return before + _encode(header) + content


def _proven(proof: bytes, head: ChainHead) -> str | None:
    """Return the time of the last event if the hash covers these bytes."""
    if hashlib.sha256(proof).digest() != head.hash:
        return None
    try:
        header = msgspec.json.decode(proof[len(ZERO) : -len(ZERO)], type=ChainHeader)
    except msgspec.DecodeError:
        return None
    return header.last_at if header.number == head.number else None
