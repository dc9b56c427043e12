"""HTTPS remotes: trust, proxy, passwords and tokens, and what the answers' headers say."""

import asyncio
import contextlib
import os
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import quote, urljoin, urlsplit

from reconciler.git.remotes import credentials
from reconciler.git.remotes.credentials import CA_FILE, PASSWORD_FILE, TOKEN_FILE, Credentials, inherited_path
from reconciler.model.text import visible
from reconciler.settings import bounded_io
from reconciler.settings.bounded_io import BoundedIO, FileIdentity

# What a remote said in the headers of its HTTP answers that git keeps to itself: when to ask again, and where else.

MOST_SECONDS = 3600.0  # longer than that nobody is left alone, whatever a remote asks
LINE_BYTES = 8 * 1024  # of the trace; longer lines are passed over
SUCCESS = 2  # the first digit of such a status
VALUE_CHARACTERS = 100  # of a Retry-After
ADDRESS_CHARACTERS = 200  # of the one that people read

# `12:00:00.000000 http.c:684   <= Recv header: Retry-After: 120`, the name in small letters under HTTP/2.
# From the beginning of the line on: what a remote says may stand in any other.
_HEADER = re.compile(rb"[0-9:.]{1,20} +[a-z.]{1,20}:[0-9]{1,6} +(?:(<=) Recv|=> Send) header: ?([^\r\n]*)")
_STATUS = re.compile(r"HTTP/[0-9.]+ ([0-9]{3})")
_SECONDS = re.compile(r"[0-9]+")
_ASKING_TO_WAIT = frozenset({429, 503})
_LEADING_ELSEWHERE = frozenset({301, 302, 303, 307, 308})
_SMART = "application/x-git-upload-pack-advertisement"
_ADVERTISEMENT = "/info/refs"  # what git asks for beneath a repository
_GET = "GET "
_ASKING_FOR_REFS = re.compile(r"GET \S*/info/refs\?(?:\S*&)?service=git-upload-pack HTTP/[0-9.]+")
_BLANK = " \t"  # what curl and git pass over


class HttpAnswers:
    """The headers of one run's answers, fed with the trace as it comes; the last answer of a kind counts."""

    def __init__(self) -> None:
        self._rest = b""
        self._status = 0
        self._retry_after = ""
        self._location = ""
        self._asks_for_refs = False
        self._types: set[str] = set()  # of the answer that is coming
        self._speaks_git = False
        self._strayed = False

    @property
    def is_foreign(self) -> bool:
        """Return whether the remote does not speak Git's smart protocol: it strayed from it, or never came to it."""
        return self._strayed or (self._status != 0 and not self._speaks_git)

    @property
    def has_strayed(self) -> bool:
        """Return whether git was told the refs in another way than by the smart protocol, or goes on without it:
        by the older one it would get objects that nobody checks or counts.
        """
        return self._strayed

    def feed(self, trace: bytes) -> None:
        """Take the next piece of the trace."""
        *lines, self._rest = (self._rest + trace).split(b"\n")
        for line in lines:
            if (found := _HEADER.match(line[:LINE_BYTES])) is not None:
                header = found[2].decode("utf-8", "replace")
                if found[1] is None:
                    self._sent(header)
                else:
                    self._header(header)
        if len(self._rest) > LINE_BYTES:
            self._rest = self._rest[:LINE_BYTES]

    def _sent(self, header: str) -> None:
        """A line of a request. The first one says what is asked."""
        is_get = header.startswith(_GET)
        if is_get or header.endswith((" HTTP/1.1", " HTTP/1.0")):
            self._asks_for_refs = _ASKING_FOR_REFS.fullmatch(header) is not None
            self._strayed |= is_get and not self._asks_for_refs

    def _header(self, header: str) -> None:
        if (status := _STATUS.match(header)) is not None:
            self._status = int(status[1])
            self._types = set()
            return
        if not header:
            self._judge()
            return
        name, _, value = header.partition(":")
        if name.lower() == "retry-after" and self._status in _ASKING_TO_WAIT:
            self._retry_after = value.strip()
        elif name.lower() == "location" and self._status in _LEADING_ELSEWHERE:
            self._location = value.strip()
        elif name.lower() == "content-type":
            self._types.add(value.partition(";")[0].strip(_BLANK).lower())

    def _judge(self) -> None:
        """The headers of an answer are over: whether git takes it for one of the smart protocol."""
        if self._asks_for_refs and self._status // 100 == SUCCESS:
            is_smart = self._types == {_SMART}
            self._speaks_git |= is_smart
            self._strayed |= not is_smart

    def retry_after(self, now: datetime) -> float | None:
        """The seconds that a 429 or 503 asks to wait, at most an hour; None when none did (RFC 9110, 10.2.3)."""
        said = self._retry_after[:VALUE_CHARACTERS]
        if _SECONDS.fullmatch(said):
            return min(float(said), MOST_SECONDS)
        try:
            until = parsedate_to_datetime(said)
            until = until if until.tzinfo else until.replace(tzinfo=UTC)
            return min(max((until - now).total_seconds(), 0.0), MOST_SECONDS)
        except (ValueError, TypeError, IndexError, OverflowError):  # whatever the parser meets in what is no date
            return None

    def redirect(self, url: str) -> str | None:
        """Return the target of a redirect, for people: one line without user name and query; None without one."""
        if not self._location:
            return None
        try:
            there = urlsplit(urljoin(url + _ADVERTISEMENT, self._location))
            host, port = there.hostname or "", "" if there.port is None else f":{there.port}"
        except ValueError:
            return "an address that is none"
        place = f"{there.scheme}://{f'[{host}]' if ':' in host else host}{port}{there.path}"
        return visible(place.removesuffix(_ADVERTISEMENT)[:ADDRESS_CHARACTERS])


# How git gets to a repository: what a run needs for that, beside what every run has.


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The variables of one run, the open files that they name, and the texts that must not leave the run.

    `answers` fills while git runs, and is whole once the context that gave this has ended. When `halt` comes to be
    set, git must not go on.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    descriptors: tuple[int, ...] = ()
    secrets: frozenset[bytes] = frozenset()
    answers: HttpAnswers | None = None
    halt: asyncio.Event | None = None


class Transport:
    """One way to a repository, for as long as its URL and credentials are in the settings: here `file` and `git`.

    `protocol` is what GIT_ALLOW_PROTOCOL calls it.
    """

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol

    def install(self) -> str:
        """Write what every run needs into the program's own folder; the answer goes into git's configuration file."""
        return ""

    @asynccontextmanager
    async def access(self) -> AsyncIterator[Access]:
        """Return what a run needs, from the files as they are now. Raises GitFault for a file that is of no use."""
        yield Access()

    async def close(self) -> None:
        """End what was kept for later runs. A later run begins it again."""


def quoted_path(text: str) -> str:
    """Text as a value, or the name of a section's part, in git's configuration. It holds no control character."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# HTTPS (and HTTP on loopback): whom git trusts, the proxy, and how it shows a password or token.
#
# A password is asked of our askpass when the remote wants one. A bearer token git could not ask for before 2.46: it is
# a header in a configuration file that is in memory alone. So neither is in an argument, a variable or on a disk.

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
            credentials.install_askpass(self._home)
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
                descriptors.append(stack.enter_context(credentials.open_memory_file(self._answer(secret))))
                environment |= self._naming(descriptors[0])
            answers, halt = HttpAnswers(), asyncio.Event()
            descriptors.append(await stack.enter_async_context(_traced(answers, halt)))
            yield Access(
                environment=environment | _tracing(descriptors[-1]),
                descriptors=tuple(descriptors),
                secrets=credentials.secret_forms(secret, username=self._credentials.username)
                if secret
                else frozenset(),
                answers=answers,
                halt=halt,
            )

    def _read(self) -> bytes:
        """The secret as it is now; empty when there is none. Raises GitFault for a file that is of no use."""
        given = self._credentials
        if given.ca_file is not None:
            self._check_authorities(given.ca_file)
        if given.password_file is not None:
            return credentials.secret_line(given.password_file, PASSWORD_FILE)
        if given.token_file is not None:
            return credentials.secret_line(given.token_file, TOKEN_FILE)
        return b""

    def _check_authorities(self, path: Path) -> None:
        """curl would say of a broken file only that it cannot connect."""
        found = bounded_io.file_identity(path)
        if found is None or found != self._checked:
            _check(path)
            self._checked = found

    def _answer(self, secret: bytes) -> bytes:
        """Return what the file in memory holds: the answer of askpass, or configuration with the header."""
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
        asked = credentials.askpass_variables(plain, inherited_path(descriptor), encoded=encoded)
        return {"GIT_ASKPASS": str(self._home / credentials.NAME), **asked}


def _check(path: Path) -> None:
    text = credentials.secret_content(path, CA_FILE, limit=credentials.MOST_LIST_BYTES)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with contextlib.suppress(ssl.SSLError, ValueError):
        context.load_verify_locations(cadata=text.decode("ascii", "ignore"))
    if not context.cert_store_stats()["x509"]:
        credentials.refuse_file(path, CA_FILE, "holds no certificate", "put the authorities there, in the PEM format")


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
