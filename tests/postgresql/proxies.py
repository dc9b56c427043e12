"""A proxy between a client and the socket of a PostgreSQL server, which can lose connections at a chosen moment."""

import contextlib
import selectors
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from tests.postgresql.servers import SERVICE, Server

COMMIT = b"Q\0\0\0\x0bcommit\0"  # a message of the protocol: its kind, its length, the statement


class Proxy:
    """Connections through it are lost when one of them sends a commit, as soon as `lose` says so."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.lose: str | None = None  # `before` the server gets the commit, or `after` it answered
        self._target = str(server.socket / f".s.PGSQL.{server.port}")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / f".s.PGSQL.{server.port}"))
        self._listener.listen()
        self._folder, self._port = folder, server.port
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, database: str) -> str:
        """The URL of a database through the proxy."""
        return f"postgresql://{SERVICE}@:{self._port}/{database}?host={quote(str(self._folder), safe='')}"

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server, contextlib.suppress(OSError):
            server.connect(self._target)
            self._pass_on(client, server)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        other = {client: server, server: client}
        is_committing = False
        with selectors.DefaultSelector() as ready:
            for one in other:
                ready.register(one, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    source = client if key.fileobj is client else server
                    data = source.recv(1 << 16)
                    is_committing = is_committing or (source is client and COMMIT in data)
                    is_lost = is_committing and (self.lose == "before" or (self.lose == "after" and source is server))
                    if not data or is_lost:
                        return
                    other[source].sendall(data)


@contextlib.contextmanager
def proxy(server: Server, folder: Path) -> Iterator[Proxy]:
    made = Proxy(server, folder)
    try:
        yield made
    finally:
        made.close()
