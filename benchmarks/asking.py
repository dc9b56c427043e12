"""One kept-alive connection to a server on this machine, as cheap for the asker as it can be.

Belongs here: requests as bytes, answers as status and body, chunked ones too. Does not: what is asked, how often.
"""

import socket
import time
from dataclasses import dataclass
from types import TracebackType

TIMEOUT_SECONDS = 90.0  # a change waits for its project for a minute
RECEIVED_BYTES = 1 << 20  # at a time
LAST_CHUNK = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """How a request was answered. The body is as it came, with the lines around its chunks; `first` and `whole` are the
    seconds from the request to the first byte and to the last.
    """

    status: int
    head: bytes
    body: bytes
    first: float
    whole: float


class Connection:
    """One connection; one request at a time."""

    def __init__(self, port: int, *, host: str = "127.0.0.1") -> None:
        self._socket = socket.create_connection((host, port), timeout=TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> "Connection":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it."""
        self._socket.close()

    def ask(self, request: bytes) -> Answer:
        """Send a request and read its answer whole. Raises OSError when the connection ends before that."""
        begun = time.perf_counter()
        self._socket.sendall(request)
        got = self._more()
        first = time.perf_counter() - begun
        while b"\r\n\r\n" not in got:
            got += self._more()
        head, _, rest = got.partition(b"\r\n\r\n")
        body = self._body(head.lower(), rest)
        return Answer(int(head[9:12]), head, body, first, time.perf_counter() - begun)

    def _body(self, head: bytes, begun: bytes) -> bytes:
        pieces, length = [begun], len(begun)
        if b"content-length:" in head:
            wanted = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            while length < wanted:
                pieces.append(self._more())
                length += len(pieces[-1])
        elif b"transfer-encoding: chunked" in head:
            end = begun[-len(LAST_CHUNK) :]
            while end != LAST_CHUNK:  # the texts are JSON, in which no line ends like that
                pieces.append(self._more())
                end = (end + pieces[-1])[-len(LAST_CHUNK) :]
        return b"".join(pieces)

    def _more(self) -> bytes:
        data = self._socket.recv(RECEIVED_BYTES)
        if not data:
            raise ConnectionResetError("the connection ended before its answer")
        return data
