"""A way to PostgreSQL that is cut at the worst moment: the server commits, and its answer never comes.

with cut(server) as line:
    store = PostgresqlStore(line.url(database.url))
    line.cuts = 1
    await store.commit(...)  # its connection is lost during COMMIT

It may also stop in the middle of a transaction, as a process that gets SIGSTOP does.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator

from tests.postgresql.servers import Server

COMMIT = b"commit\0"  # as the text of a simple query ends
READ_BYTES = 1 << 16


class Line:
    """A port that leads to a server's."""

    def __init__(self, listener: socket.socket, server: Server) -> None:
        self.cuts = 0  # how many of the next commits lose their answer
        self.reaches = True  # the server gets the commit nevertheless
        self.stops_after = b""  # a statement with this text is the last one that the server gets on its connection
        self.ended = threading.Event()
        self.lost = threading.Semaphore(0)  # released for each
        self._listener = listener
        self._server = server

    def url(self, url: str) -> str:
        """The same URL through this line."""
        return url.replace(f":{self._server.port}/", f":{self._listener.getsockname()[1]}/")

    def serve(self) -> None:
        """Pass connections on until the listener is closed."""
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection((self._server.host, self._server.port))
                threading.Thread(target=self._carry, args=(client, server), daemon=True).start()

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        with client, server:
            answers = threading.Thread(target=self._pass, args=(server, client), daemon=True)
            answers.start()
            self._ask(client, server)
            answers.join()

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(READ_BYTES):
                if data.endswith(COMMIT) and self.cuts:
                    self.cuts -= 1
                    client.shutdown(socket.SHUT_RDWR)  # nothing comes back
                    if self.reaches:
                        server.sendall(data)
                    with contextlib.suppress(OSError):  # its answer, which cannot be passed on, may have ended it
                        server.shutdown(socket.SHUT_WR)  # the server reads it, commits, and ends
                    self.lost.release()
                    return
                server.sendall(data)
                if self.stops_after and self.stops_after in data:
                    self.ended.wait()
        _end(client, server)

    def _pass(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(READ_BYTES):
                client.sendall(data)
        _end(client, server)


def _end(*ends: socket.socket) -> None:
    for one in ends:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def cut(server: Server) -> Iterator[Line]:
    """A line to a server that listens on TCP."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        line = Line(listener, server)
        serving = threading.Thread(target=line.serve, daemon=True)
        serving.start()
        yield line
        line.ended.set()
        _end(listener)
        serving.join()
