"""HTTPS (and HTTP on loopback): whom git trusts, the proxy, and how it shows a password or token.

Belongs here: git's configuration for it, and what a run gets. Does not: reading files (`secret_files`), what the
remote answers (`http_answers`).

A password is asked of our askpass when the remote wants one. A bearer token git could not ask for before 2.46: it is
a header in a configuration file that is in memory alone. So neither is in an argument, a variable or on a disk.
"""

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

from reconciler.remotes import askpass, hiding, memory_files, secret_files
from reconciler.remotes.credentials import CA_FILE, PASSWORD_FILE, TOKEN_FILE, Credentials
from reconciler.remotes.http_answers import HttpAnswers
from reconciler.remotes.memory_files import inherited_path
from reconciler.remotes.transports import Access, Transport, quoted_path
from reconciler.settings import bounded_io
from reconciler.settings.bounded_io import BoundedIO, FileIdentity

# Where there is such a file, it holds all that the folder beside it holds, one file each. Reading those as well takes
# curl 25 ms of CPU in every run.
SYSTEM_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
NO_AUTHORITIES = "no-authorities"
TRACE_SECONDS = 0.05  # a full pipe makes git wait for so long
TRACE_BYTES = 64 * 1024  # what a pipe holds
TRACE_PIECES = 4

# A redirect could lead credentials and trust to another host. HTTP/1.1: git asks one thing after the other, so HTTP/2
# gains it nothing. A connection on which nothing comes for a minute is given up, whatever the time limit.
CONFIGURATION = """\
[http]
	followRedirects = false
	sslVerify = true
	sslVersion = tlsv1.2
	version = HTTP/1.1
	emptyAuth = false
	lowSpeedLimit = 1
	lowSpeedTime = 60
[credential]
	helper =
[transfer]
	credentialsInUrl = die
[protocol]
	version = 2
"""


class Https(Transport):
    """One URL with its credentials. `home` is the program's own folder."""

    def __init__(self, url: str, credentials: Credentials, *, home: Path) -> None:
        parts = urlsplit(url)
        super().__init__(parts.scheme)
        self._host = parts.netloc
        self._credentials = credentials
        self._checked: FileIdentity | None = None
        self._home = home
        self._asking = BoundedIO("the files with credentials")

    def install(self) -> str:
        if self._credentials.username:
            askpass.install_askpass(self._home)
        empty = self._home / NO_AUTHORITIES
        empty.mkdir(mode=0o700, exist_ok=True)
        return CONFIGURATION + self._configured(empty)

    def _configured(self, empty: Path) -> str:
        lines = ["[http]"]
        bundle = self._credentials.ca_file or (SYSTEM_BUNDLE if SYSTEM_BUNDLE.is_file() else None)
        if bundle is not None:
            # Without a folder of ours, curl trusts the system's authorities besides.
            lines += [f"\tsslCAInfo = {quoted_path(str(bundle))}", f"\tsslCAPath = {quoted_path(str(empty))}"]
            lines += [f"\tproxySSLCAInfo = {quoted_path(str(bundle))}"]
        if self._credentials.proxy:
            lines += [f"\tproxy = {quoted_path(self._credentials.proxy)}"]
        if self._credentials.username:
            lines += [
                f"[credential {quoted_path(self._origin)}]",
                f"\tusername = {quoted_path(self._credentials.username)}",
            ]
        return "\n".join(lines) + "\n"

    @property
    def _origin(self) -> str:
        return f"{self.protocol}://{self._host}"

    @asynccontextmanager
    async def access(self) -> AsyncIterator[Access]:
        secret = await self._asking.answer(self._read)
        async with contextlib.AsyncExitStack() as stack:
            environment: dict[str, str] = {}
            descriptors: list[int] = []
            if secret:
                descriptors.append(stack.enter_context(memory_files.open_memory_file(self._answer(secret))))
                environment |= self._naming(descriptors[0])
            answers, halt = HttpAnswers(), asyncio.Event()
            descriptors.append(await stack.enter_async_context(_traced(answers, halt)))
            yield Access(
                environment=environment | _tracing(descriptors[-1]),
                descriptors=tuple(descriptors),
                secrets=hiding.secret_forms(secret, username=self._credentials.username) if secret else frozenset(),
                answers=answers,
                halt=halt,
            )

    def _read(self) -> bytes:
        """The secret as it is now; empty when there is none. Raises GitFault for a file that is of no use."""
        given = self._credentials
        if given.ca_file is not None:
            self._check_authorities(given.ca_file)
        if given.password_file is not None:
            return secret_files.secret_line(given.password_file, PASSWORD_FILE)
        if given.token_file is not None:
            return secret_files.secret_line(given.token_file, TOKEN_FILE)
        return b""

    def _check_authorities(self, path: Path) -> None:
        """curl would say of a broken file only that it cannot connect."""
        found = bounded_io.file_identity(path)
        if found is None or found != self._checked:
            _check(path)
            self._checked = found

    def _answer(self, secret: bytes) -> bytes:
        """What the file in memory holds: the answer of askpass, or configuration with the header."""
        if self._credentials.username:
            return secret + b"\n"
        header = quoted_path("Authorization: Bearer " + secret.decode("utf-8", "surrogateescape"))
        text = f"[http {quoted_path(self._origin)}]\n\textraHeader = {header}\n"
        return text.encode("utf-8", "surrogateescape")

    def _naming(self, descriptor: int) -> dict[str, str]:
        """The variables by which git finds that file."""
        if not self._credentials.username:
            included = {"GIT_CONFIG_KEY_0": "include.path", "GIT_CONFIG_VALUE_0": inherited_path(descriptor)}
            return {"GIT_CONFIG_COUNT": "1", **included}
        name = self._credentials.username
        plain, encoded = (f"Password for '{self.protocol}://{one}@{self._host}': " for one in (name, quote(name, "")))
        asked = askpass.askpass_variables(plain, inherited_path(descriptor), encoded=encoded)
        return {"GIT_ASKPASS": str(self._home / askpass.NAME), **asked}


def _check(path: Path) -> None:
    text = secret_files.secret_content(path, CA_FILE, limit=secret_files.MOST_LIST_BYTES)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with contextlib.suppress(ssl.SSLError, ValueError):
        context.load_verify_locations(cadata=text.decode("ascii", "ignore"))
    if not context.cert_store_stats()["x509"]:
        secret_files.refuse_file(path, CA_FILE, "holds no certificate", "put the authorities there, in the PEM format")


def _tracing(descriptor: int) -> dict[str, str]:
    # Headers alone; git writes `<redacted>` for the secrets in them.
    return {"GIT_TRACE_CURL": inherited_path(descriptor), "GIT_TRACE_CURL_NO_DATA": "1"}


@asynccontextmanager
async def _traced(answers: HttpAnswers, halt: asyncio.Event) -> AsyncIterator[int]:
    """A pipe into which git writes its trace, however long: it is read now and then, and never kept."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    following = asyncio.create_task(_follow(reading, answers, halt), name="read git's trace")
    try:
        yield writing
    finally:
        following.cancel()
        await asyncio.wait([following])
        _drain(reading, answers)
        os.close(writing)
        os.close(reading)


async def _follow(reading: int, answers: HttpAnswers, halt: asyncio.Event) -> None:
    """Git writes each line by itself: to wake up for each would cost more than the rest of the run."""
    while True:
        await asyncio.sleep(TRACE_SECONDS)
        _drain(reading, answers)
        if answers.has_strayed:
            halt.set()


def _drain(reading: int, answers: HttpAnswers) -> None:
    with contextlib.suppress(BlockingIOError):
        for _ in range(TRACE_PIECES):
            answers.feed(os.read(reading, TRACE_BYTES))
