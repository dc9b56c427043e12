r"""The hash chain of the audit. Pure.

    leaf(event)  = SHA-256 of the event as a JSON array, in the order of an `AuditRow`, its salt (base64 or null) last
    content      = SHA-256 of the leaves in the order of their numbers, then of each redaction [event, before, after]
    hash(link)   = SHA-256 of the hash before it, the JSON array [number, events, firstAt, lastAt, address], the content

JSON is written without spaces, in UTF-8; only `"`, `\` and control characters are escaped. The first link follows 32
bytes of zero.

Why an event is hashed by itself: when a secret has to go out of the text of one, its hash stays for the link, and the
new hash is in the link of the redaction. The salt, 16 random bytes in each event that has such text, goes with the
text. Otherwise a person with the file could guess a short secret by the hash.
"""

import hashlib
from typing import NamedTuple

import msgspec

ZERO = bytes(32)
SALT_BYTES = 16

_encode = msgspec.json.Encoder().encode


class ChainHead(NamedTuple):
    """The last link, or where the chain begins."""

    number: int
    hash: bytes

    def __str__(self) -> str:
        """`NUMBER:HASH`, as the log has it and a person gives it back."""
        return f"{self.number}:{self.hash.hex()}"


class ChainAnchor(NamedTuple):
    """The last link that went, number 0 where none did; how many events went so far, and the largest number of one."""

    head: ChainHead
    events: int = 0
    last_event: int = 0
    proof: bytes | None = None  # what its hash is of

    @property
    def last_at(self) -> str | None:
        """When the last event of its link was, as its hash proves it; None when it does not."""
        return None if self.proof is None else _proven(self.proof, self.head)


class ChainHeader(NamedTuple):
    """The fields of a link that are hashed beside its content."""

    number: int
    events: int
    first_at: str
    last_at: str
    address: str | None


class ChainRewrite(NamedTuple):
    """One event was redacted: the leaf before, and the leaf now."""

    event: int
    before: bytes
    after: bytes


def leaf(number: int, event: tuple[object, ...], salt: bytes | None) -> bytes:
    """Return the hash of one event, whose members are those that a reader of the audit gets, with its own address."""
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
        """The next event, and when it was."""
        self._hash.update(leaf)
        self.events += 1
        self.last_at = max(self.last_at, at)
        if at < self.first_at or self.events == 1:
            self.first_at = at

    def rewrite(self, one: ChainRewrite) -> None:
        """An event of an earlier link was redacted; they come in the order of their numbers."""
        self._hash.update(_encode((one.event, one.before.hex(), one.after.hex())))
        self.rewrites += 1

    def digest(self) -> bytes:
        """The hash of all that came."""
        return self._hash.digest()

    def sealed(self, before: ChainHead, *, address: str | None) -> ChainHead:
        """The link that has this content, behind the one before."""
        header = ChainHeader(before.number + 1, self.events, self.first_at, self.last_at, address)
        return ChainHead(header.number, hashlib.sha256(proof(before.hash, header, self.digest())).digest())


def proof(before: bytes, header: ChainHeader, content: bytes) -> bytes:
    """The bytes that the hash of a link is of."""
    return before + _encode(header) + content


def _proven(proof: bytes, head: ChainHead) -> str | None:
    """The instant of the last event, when these are the bytes that the hash is of."""
    if hashlib.sha256(proof).digest() != head.hash:
        return None
    try:
        header = msgspec.json.decode(proof[len(ZERO) : -len(ZERO)], type=ChainHeader)
    except msgspec.DecodeError:
        return None
    return header.last_at if header.number == head.number else None
