"""A relay of TCP connections to a port of this machine, which may swallow everything: no byte, no end, no refusal."""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from tests.servers import loops, processes

PIECE = 1 << 16


@dataclass
class Relay:
    """A relay that runs."""

    target: int
    port: int = 0
    is_silent: bool = False

    def swallow(self) -> None:
        """From now on nothing arrives anywhere, on connections that there are and on new ones."""
        self.is_silent = True

    def pass_on(self) -> None:
        """From now on everything arrives again; what was swallowed is lost."""
        self.is_silent = False

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection. While the relay is silent, it is accepted and leads nowhere."""
        if self.is_silent:
            await reader.read()
            return
        server_reader, server_writer = await asyncio.open_connection(processes.ADDRESS, self.target)
        copies = [asyncio.create_task(self._copy(*one)) for one in ((reader, server_writer), (server_reader, writer))]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
            if self.is_silent:
                await asyncio.wait(copies)
        finally:
            for one in copies:
                one.cancel()
            await asyncio.wait(copies)
            await loops.closed(server_writer)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(PIECE):
                if not self.is_silent:
                    writer.write(piece)
                    await writer.drain()


@contextlib.contextmanager
def relayed(target: int) -> Iterator[Relay]:
    """Relay to a port until the context ends."""
    relay = Relay(target)
    with loops.listening(relay.handle) as listener:
        relay.port = listener.port
        yield relay
