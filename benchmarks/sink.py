"""The endpoint of the delivery benchmarks, a process of its own: it counts records, as cheaply as it can, and answers.

`python -m benchmarks.sink [PORT]` listens on that port of this machine, or a free one, and prints it. Every record of
the benchmarks holds `MARK` once, so that counting is a search through bytes; one request in a hundred is parsed as
JSON, too, and what does not agree is counted as wrong. Beneath `/-/` it tells what came, and takes the status that it
is to answer.
"""

import asyncio
import contextlib
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httptools
import orjson
import uvloop

MARK = b"@record"
PARSED = 100  # one request of so many is parsed
WAIT_SECONDS = 10.0
STEP_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Counts:
    """The counters of a sink since its start; `wrong` are bodies that differ from what their records say.

    `last` is when the last body came, in seconds of `time.perf_counter`, which is one clock for all processes of Linux.
    """

    requests: int
    records: int
    size: int
    wrong: int
    last: float


@dataclass(slots=True)
class Seen:
    """The received requests, and the answers to them."""

    requests: int = 0
    records: int = 0
    size: int = 0
    wrong: int = 0
    last: float = 0.0
    status: int = 200

    def take(self, body: bytes) -> None:
        """Count one body."""
        records = body.count(MARK)
        self.requests += 1
        self.size += len(body)
        self.last = time.perf_counter()
        if self.status < 300:
            self.records += records
        if self.requests % PARSED == 1 and not _holds(body, records):
            self.wrong += 1


def _holds(body: bytes, records: int) -> bool:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return records == (len(found) if isinstance(found, list) else 1)


class Connection(asyncio.Protocol):
    """One connection; requests may be pipelined."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._parser = httptools.HttpRequestParser(self)
        self._target = b""
        self._pieces: list[bytes] = []
        self._transport: asyncio.WriteTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what is written to."""
        self._transport = transport  # type: ignore[assignment]  # uvloop's are no subclasses of asyncio's

    def data_received(self, data: bytes) -> None:
        """Parse on."""
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        """The parser's: another request."""
        self._target, self._pieces = b"", []

    def on_url(self, url: bytes) -> None:
        """The parser's: a piece of where to."""
        self._target += url

    def on_body(self, body: bytes) -> None:
        """The parser's: a piece of the body."""
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        """The parser's: the request is whole."""
        if self._target.startswith(b"/-/"):
            self._write(200, self._controlled(self._target[3:]))
        else:
            self._seen.take(b"".join(self._pieces))
            self._write(self._seen.status, b"")

    def _controlled(self, wish: bytes) -> bytes:
        name, _, value = wish.partition(b"/")
        if name == b"status":
            self._seen.status = int(value)
        seen = self._seen
        return orjson.dumps(Counts(seen.requests, seen.records, seen.size, seen.wrong, seen.last))

    def _write(self, status: int, body: bytes) -> None:
        self._transport.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))


@dataclass(frozen=True, slots=True)
class Sink:
    """A running one."""

    port: int
    process: int

    def counts(self) -> Counts:
        """Return the counters so far. Raises RuntimeError when a body was not the JSON that it should be."""
        found = Counts(**json.loads(self._ask("counts")))
        if found.wrong:
            raise RuntimeError(f"{found.wrong} of the bodies that were parsed do not hold the records that they show")
        return found

    def answer(self, status: int) -> None:
        """Answer with this from now on; what is not 2xx takes no records."""
        self._ask(f"status/{status}")

    def until(self, records: int, *, seconds: float) -> float:
        """Wait until exactly so many records have come since the start, at most so long; when the last of them did."""
        end = time.perf_counter() + seconds
        while (counts := self.counts()).records < records and time.perf_counter() < end:
            time.sleep(STEP_SECONDS)
        if counts.records != records:
            raise RuntimeError(f"{counts.records} records came within {seconds:g} s, where {records} should")
        return counts.last

    def _ask(self, wish: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", f"/-/{wish}")
            return connection.getresponse().read()


@contextlib.contextmanager
def running(port: int = 0) -> Iterator[Sink]:
    """A sink for as long as the context lasts, on a free port if none is given."""
    with subprocess.Popen([sys.executable, "-m", "benchmarks.sink", str(port)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield Sink(int(process.stdout.readline()), process.pid)
        finally:
            process.terminate()


async def _serve(port: int) -> None:
    seen = Seen()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(seen), "127.0.0.1", port, backlog=512, reuse_address=True
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(_serve(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
