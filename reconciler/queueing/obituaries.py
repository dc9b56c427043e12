"""What a dead letter's frame holds: the obituary, and the bytes. Pure.

Belongs here: those bytes. Does not: the frame around them (`frames`), why something died.

A length of four bytes, little-endian; the obituary as a JSON object of so many bytes; the payload.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from reconciler.queueing.contract import Obituary, Piece, Reason

_LENGTH = struct.Struct("<I")


class _Written(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    reason: Reason
    at: int
    attempts: int
    cause: str
    taken_at: int
    status: int | None = None
    answer: bytes = b""
    outage: bool = False


class DeadLetterFrame(NamedTuple):
    """What a frame held."""

    obituary: Obituary
    taken_at: int
    payload: bytes


def encode_dead_letter(obituary: Obituary, payload: Sequence[Piece], *, taken_at: int) -> list[Piece]:
    """The pieces of a frame."""
    written = msgspec.json.encode(_Written(taken_at=taken_at, **obituary._asdict()))
    return [_LENGTH.pack(len(written)) + written, *payload]


def decode_dead_letter(data: bytes) -> DeadLetterFrame | None:
    """What a frame holds; None when it is something else."""
    try:
        (length,) = _LENGTH.unpack_from(data)
        begins = _LENGTH.size + length
        written = msgspec.json.decode(data[_LENGTH.size : begins], type=_Written)
    except (struct.error, msgspec.MsgspecError):
        return None
    obituary = Obituary(**{name: getattr(written, name) for name in Obituary._fields})
    return DeadLetterFrame(obituary, written.taken_at, data[begins:])
