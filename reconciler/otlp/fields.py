"""Fields of protobuf's wire format, read where they are.

Belongs here: tags, lengths, integers, and what of them nobody may write. Does not: which fields a message has.

Refused are integers of more than ten bytes, the field number 0, and the wire types 3, 4, 6, 7: groups, which proto3 has
not, and what nobody has. The caller compares a field's end with its message's, and takes an IndexError for `malformed`.
"""

from collections.abc import Iterator
from typing import NamedTuple

from reconciler.otlp.refusals import MalformedRequest

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


class Field(NamedTuple):
    """`tag` is the field's number times eight and its wire type; `start` is where that is written, and `content` where
    what has a length begins.
    """

    tag: int
    start: int
    content: int
    end: int


def fields(data: bytes, at: int, end: int) -> Iterator[Field]:
    """The fields of a message."""
    while at < end:
        one = field(data, at)
        at = one.end
        if at > end:
            raise malformed()
        yield one


def field(data: bytes, start: int) -> Field:
    """The field that begins there; its end may lie beyond the data."""
    tag, content = _varint(data, start)
    kind = tag & 7
    if tag < 8 or tag >= 1 << 32:
        raise malformed()
    if kind == _LENGTH:
        size, content = _varint(data, content)
        return Field(tag, start, content, content + size)
    if kind == _VARINT:
        return Field(tag, start, content, _varint(data, content)[1])
    if kind == _FIXED64:
        return Field(tag, start, content, content + 8)
    if kind == _FIXED32:
        return Field(tag, start, content, content + 4)
    raise malformed()


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The integer that begins there, and where it ends."""
    value = data[at]
    if value < 0x80:
        return value, at + 1
    value &= 0x7F
    for shift in range(7, 70, 7):
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
    raise malformed()


def sized(size: int) -> bytes:
    """A length as it is written."""
    written = bytearray()
    while size > 0x7F:
        written.append(size & 0x7F | 0x80)
        size >>= 7
    written.append(size)
    return bytes(written)


def malformed() -> MalformedRequest:
    """What is wrong with all of it: whoever made these bytes is no exporter of logs."""
    return MalformedRequest(
        "The request is no ExportLogsServiceRequest in protobuf; look at what sends it, and its Content-Type."
    )
