"""An endpoint on loopback that notes which records came, and fails as endpoints do: at random, or for as long as told.

What is expected of whoever sends is in the tests.
"""

import asyncio
import contextlib
import random
import re
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from tests.servers import loops

LONGEST_BODY = 16 << 20
SLOW_SECONDS = 0.3
NUMBER = re.compile(rb"record (\d+)")
POISON = b"poison"


class Mood(Enum):
    """How an endpoint answers."""

    WELL = auto()
    MOODY = auto()  # takes most, and fails in every way
    DOWN = auto()  # 503, whatever comes


class Fault(Enum):
    """One way to fail, or to be slow."""

    NONE = 0
    SLOW = 1
    RESET = 2
    SILENT_END = 3
    BUSY = 429  # a status
    BROKEN = 500


@dataclass
class Endpoint:
    """Received requests: `delivered` counts the numbers of records that were answered with 200.

    `says` is the status and body of every answer, where there is one.
    """

    chance: random.Random
    says: tuple[int, str] | None = None
    mood: Mood = Mood.MOODY
    is_picky: bool = True  # refuses for ever what holds POISON
    delivered: Counter[int] = field(default_factory=Counter)
    port: int = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, request after request."""
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            assert length <= LONGEST_BODY
            if not await self._answered(await reader.readexactly(length), writer):
                return

    async def _answered(self, body: bytes, writer: asyncio.StreamWriter) -> bool:
        """Return True if the connection stays open."""
        fault = self._fault()
        refusal = self._refusal(body, fault)
        if refusal is not None:
            await _write(writer, refusal[0], body=refusal[1])
            return True
        if fault is Fault.RESET:
            _reset(writer)
        if fault in (Fault.RESET, Fault.SILENT_END):
            return False
        if fault is Fault.SLOW:
            await asyncio.sleep(self.chance.uniform(0, SLOW_SECONDS))
        # Counted before the answer: nobody knows whether that arrives.
        self.delivered.update(int(number) for number in NUMBER.findall(body))
        await _write(writer, 200)
        return True

    def _refusal(self, body: bytes, fault: "Fault") -> tuple[int, str] | None:
        """The status and the body of an answer that takes nothing."""
        if self.says is not None:
            return self.says
        if self.mood is Mood.DOWN:
            return 503, "down"
        if self.is_picky and POISON in body:
            return 400, "no"
        return (fault.value, "not now") if fault.value in (429, 500) else None

    def _fault(self) -> Fault:
        if self.mood is Mood.WELL:
            return Fault.NONE
        return self.chance.choices(list(Fault), weights=(20, 4, 1, 1, 1, 1))[0]


@contextlib.contextmanager
def endpoint(chance: random.Random) -> Iterator[Endpoint]:
    """An endpoint for as long as the context lasts."""
    made = Endpoint(chance)
    with loops.listening(made.connected) as listener:
        made.port = listener.port
        yield made


async def _write(writer: asyncio.StreamWriter, status: int, *, body: str = "") -> None:
    wait = "Retry-After: 1\r\n" if status == Fault.BUSY.value else ""
    writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{wait}\r\n{body}".encode())
    await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
