"""The HTTP server inside the daemon's loop, and its certificate, which may be replaced while connections last.

The daemon owns the signals and the socket.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn

from reconciler.model import errors
from reconciler.server.connections import HEAD_SECONDS, BoundedConnection, ConnectionPool, Place
from reconciler.settings.models import Settings

log = logging.getLogger(__name__)


class Certificate(NamedTuple):
    """The listener's certificate chain and private key, PEM files."""

    chain: Path
    key: Path


def configured_certificate(settings: Settings) -> Certificate | None:
    """Return the certificate of the settings; None without TLS."""
    chain, key = settings.tls.cert_file, settings.tls.key_file
    return None if chain is None or key is None else Certificate(chain=chain, key=key)


def read_certificate(certificate: Certificate) -> ssl.SSLContext:
    """Return a context that shows this certificate, with TLS 1.2 or later. Raises Refused for files that are missing or
    do not fit.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        for file in (certificate.chain, certificate.key):
            file.open("rb").close()  # the library does not say which of the two it cannot read
        # A key with a password must not ask for it on a terminal: there is none to give.
        context.load_cert_chain(certificate.chain, certificate.key, password=str)
    except (OSError, ValueError) as error:
        files = f"{certificate.chain} with the key {certificate.key}"
        raise errors.Refused(
            f"The certificate {files} cannot be used ({_reason(error)}); mend `tls.certFile` or `tls.keyFile`."
        ) from error
    return context


def _reason(error: OSError | ValueError) -> str:
    """Return why the files do not fit, without places in the library's source code."""
    if isinstance(error, ssl.SSLError):
        if error.reason == "KEY_VALUES_MISMATCH":
            return "the key is not this certificate's"
        named = (error.reason or "").lower().replace("_", " ")
        return named or "one of them is not PEM, or the key has a password"
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)


class PresentedCertificate:
    """The certificate for new connections.

    The listener keeps its first context, and passes each handshake to the current one. Loading another certificate into
    a used context would keep the old one too, if their keys are of different kinds.
    """

    def __init__(self, first: ssl.SSLContext) -> None:
        self.listener = first
        self._current = first
        first.sni_callback = self._hand_over

    def replace(self, context: ssl.SSLContext) -> None:
        """Show this one from the next handshake on; connections that exist continue."""
        self._current = context

    def _hand_over(self, connection: ssl.SSLObject, _name: str | None, _of: ssl.SSLContext) -> None:
        """Pass a handshake to the current context. The library calls it even if the client names no host."""
        connection.context = self._current


BACKLOG = 512  # connections that wait to be accepted
ACCEPT_AGAIN_SECONDS = 1.0  # after the process had no more files
KEEP_ALIVE_SECONDS = 30
TLS_END = 2.0  # seconds, for a client's part in closing a TLS connection


class _Listener:
    """Accepts connections on one socket. `open_connection` makes the protocol of one.

    The event loop's own server would start TLS before the connection is counted, so silent clients would not count.
    """

    def __init__(
        self,
        listener: socket.socket,
        *,
        pool: ConnectionPool,
        tls: ssl.SSLContext | None,
        open_connection: Callable[[Place], BoundedConnection],
    ) -> None:
        self._listener = listener
        self._pool = pool
        self._tls = tls
        self._open_connection = open_connection
        self._handshakes: set[asyncio.Task[None]] = set()
        listener.listen(BACKLOG)
        listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(), name="http-accept")

    def close(self) -> None:
        """Accept no more connections."""
        self._accepting.cancel()
        for handshake in self._handshakes:
            handshake.cancel()

    async def wait_closed(self) -> None:
        """Wait until the socket is closed."""
        await asyncio.gather(self._accepting, *self._handshakes, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        with self._listener:
            while True:
                try:
                    client, address = await loop.sock_accept(self._listener)
                except OSError as error:
                    log.warning("No HTTP connection can be accepted (%s); trying again.", error.strerror)
                    await asyncio.sleep(ACCEPT_AGAIN_SECONDS)
                    continue
                handshake = asyncio.create_task(self._start(client, address[0]), name="http-handshake")
                self._handshakes.add(handshake)
                handshake.add_done_callback(self._handshakes.discard)

    async def _start(self, client: socket.socket, address: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        place = self._pool.admit(address, close=task.cancel)
        if place is None:
            client.close()
            return
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        seconds = {} if self._tls is None else {"ssl_handshake_timeout": HEAD_SECONDS, "ssl_shutdown_timeout": TLS_END}
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                partial(self._open_connection, place), client, ssl=self._tls, **seconds
            )
        except BaseException as error:
            place.leave()
            client.close()
            if not isinstance(error, OSError):  # a failed handshake is an OSError
                raise


class _Server(uvicorn.Server):
    """One server for all listeners: their connections are counted together, and end together."""

    def __init__(
        self, doors: Sequence[tuple[uvicorn.Config, socket.socket]], tls: ssl.SSLContext | None, pool: ConnectionPool
    ) -> None:
        super().__init__(doors[0][0])
        self._doors = doors
        self._tls = tls
        self._pool = pool
        self.is_up = asyncio.Event()
        self.running = asyncio.create_task(self.serve(), name="http-server")

    async def end(self) -> None:
        """Stop, after requests in progress have ended."""
        self.should_exit = True
        await self.running

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing: the daemon handles signals, and a second handler would race with it."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - each door has its own
        """Start the listeners."""
        listeners: list[Any] = [  # uvicorn calls `close` and `wait_closed` alone
            _Listener(listener, pool=self._pool, tls=self._tls, open_connection=partial(self._open_connection, config))
            for config, listener in self._doors
        ]
        self.servers = listeners
        self.started = True
        self.is_up.set()

    def _open_connection(self, config: uvicorn.Config, place: Place) -> BoundedConnection:
        return BoundedConnection(config, self.server_state, {}, place=place)


def bind(host: str, port: int, *, setting: str = "listen") -> socket.socket:
    """Bind a listening address, before anything else is started. Raises Refused with the name of the setting if it is
    not available.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise errors.Refused(
            f"Cannot listen on {host}:{port} ({error.strerror}); choose another address with `{setting}`."
        ) from error
    return listener


class Served(NamedTuple):
    """A running server. `end` stops it after requests in progress, while other parts end too. `shown` has the
    certificate for new connections; None without TLS. Only the start decides if there is TLS.
    """

    end: Callable[[], Awaitable[None]]
    shown: PresentedCertificate | None


@contextlib.asynccontextmanager
async def serve(
    doors: Sequence[tuple[Any, socket.socket]],
    *,
    certificate: Certificate | None = None,
    drain_seconds: float,
    trusted_proxies: Sequence[IPv4Network | IPv6Network] = (),
) -> AsyncIterator[Served]:
    """Serve each application on its listener inside this context; then wait for requests in progress, for at most
    `drain_seconds`.

    All listeners have the same certificate. Raises Refused if it cannot be used.
    """
    shown = None if certificate is None else PresentedCertificate(read_certificate(certificate))
    configs = [(_config(application, drain_seconds=drain_seconds), listener) for application, listener in doors]
    server = _Server(configs, None if shown is None else shown.listener, ConnectionPool(trusted_proxies))
    try:
        await server.is_up.wait()
        yield Served(server.end, shown)
    finally:
        await server.end()


def _config(application: Any, *, drain_seconds: float) -> uvicorn.Config:
    config = uvicorn.Config(
        application,
        http=BoundedConnection,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # uvicorn would believe whoever connects from this machine; `api.auth` decides
        date_header=True,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, round(drain_seconds)),
        lifespan="off",
        ws="none",
    )
    config.load()
    return config
