"""What crosses the sockets between the reader child and its helpers, framed as between it and the daemon.

A helper parses what strangers commit, as the child does: nothing of what it sends is evaluated, and what does not have
its declared type ends both.

Belongs here: the messages, and sending and receiving one. Does not: who sends which when (`sharing`, `helper`).
"""

import socket
from typing import TypeAlias

import msgspec

from reconciler.git.trees import TreeFile
from reconciler.reading.allowances import CommitLimits, UsedAllowance
from reconciler.reading.messages import FRAME_LIMIT, LENGTH, Failed
from reconciler.reading.one_file import FileReading


class CrewBegin(msgspec.Struct, frozen=True, kw_only=True, tag="begin"):
    """Chunks of this commit follow. `aside`: see `CommitJob`."""

    mirror: str
    commit: str
    api_versions: frozenset[str]
    hmac_key: bytes
    limits: CommitLimits
    aside: frozenset[str]

    def __repr__(self) -> str:
        """Without the key."""
        return f"Begin({self.commit})"


class CrewChunk(msgspec.Struct, frozen=True, tag="chunk"):
    """Files to be read; `used` is what the commit took before. Each of the `sizes` is that of a file's content, which
    the child has looked up; 0 for what is not read.
    """

    number: int
    files: tuple[TreeFile, ...]
    sizes: tuple[int, ...]
    used: UsedAllowance


class CrewEnd(msgspec.Struct, frozen=True, tag="end"):
    """No more chunks follow of this commit."""


class CrewRead(msgspec.Struct, frozen=True, tag="read"):
    """Files of a chunk, in its order. `used` is what the whole chunk took, and comes with its last files."""

    number: int
    files: tuple[FileReading, ...]
    used: UsedAllowance | None

    def __repr__(self) -> str:
        """Without the documents, in which secrets are in clear."""
        return f"Read({self.number}, {len(self.files)} files)"


Order: TypeAlias = CrewBegin | CrewChunk | CrewEnd
Report: TypeAlias = CrewRead | Failed
"""What a helper sends. `Failed` has the number of the chunk."""

_encoder = msgspec.msgpack.Encoder()
_orders: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)
_reports: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)


def send_message(connection: socket.socket, message: Order | Report) -> None:
    """Send a message whole. Raises OSError."""
    payload = _encoder.encode(message)
    connection.sendall(LENGTH.pack(len(payload)))
    connection.sendall(payload)


def read_order(connection: socket.socket) -> Order | None:
    """The next order, None when the other end is closed. Raises OSError, msgspec.DecodeError, ValueError."""
    payload = _frame(connection)
    return None if payload is None else _orders.decode(payload)


def read_report(connection: socket.socket) -> Report | None:
    """The next report, None when the other end is closed. Raises OSError, msgspec.DecodeError, ValueError."""
    payload = _frame(connection)
    return None if payload is None else _reports.decode(payload)


def _frame(connection: socket.socket) -> bytearray | None:
    head = _exactly(connection, LENGTH.size)
    if head is None:
        return None
    (length,) = LENGTH.unpack(head)
    if length > FRAME_LIMIT:
        raise ValueError(f"a frame of {length} bytes")
    return _exactly(connection, length)


def _exactly(connection: socket.socket, size: int) -> bytearray | None:
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        more = connection.recv_into(view[got:])
        if not more:
            return None
        got += more
    return data
