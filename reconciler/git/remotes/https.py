"""HTTPS remotes: trust, proxy, passwords and tokens, and the headers of answers."""

import base64
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from reconciler.git.remotes import credentials
from reconciler.git.remotes.credentials import (
    CA_FILE,
    PASSWORD_FILE,
    TOKEN_FILE,
    Access,
    Credentials,
    Transport,
    inherited_path,
    quoted_path,
)
from reconciler.model.text import visible
from reconciler.settings.bounded_io import BoundedIO

# Headers of a remote's HTTP answers that git does not report: Retry-After and redirects. Git traces headers to its
# standard error, with `<redacted>` in place of secrets.

TRACING = {"GIT_TRACE_CURL": "1", "GIT_TRACE_CURL_NO_DATA": "1"}
MOST_SECONDS = 3600.0  # the longest wait that a remote may ask for
VALUE_CHARACTERS = 100  # of a Retry-After
ADDRESS_CHARACTERS = 200  # of an address in a message

# `12:00:00.000000 http.c:684   <= Recv header: Retry-After: 120`, with the name in lower case for HTTP/2. It must match
# from the beginning of a line, because a remote may write such text later in a line. A line of progress ends in a
# carriage return.
_TRACE = re.compile(rb"(?:^|(?<=\r))[0-9:.]{8,20} +[a-z.]{1,20}:[0-9]{1,6} +(==|=>|<=) ([^\n]*)(?:\n|\Z)", re.MULTILINE)
RECEIVED = b"Recv header: "
_STATUS = re.compile(r"HTTP/[0-9.]+ ([0-9]{3})")
_SECONDS = re.compile(r"[0-9]+")
_ASKING_TO_WAIT = frozenset({429, 503})
_LEADING_ELSEWHERE = frozenset({301, 302, 303, 307, 308})
_SMART = re.compile(
    r"content-type:[ \t]*application/x-git-upload-pack-(?:advertisement|result)[ \t]*(?:;|$)", re.IGNORECASE
)
_ADVERTISEMENT = "/info/refs"  # the path that git requests below a repository


class HttpAnswers:
    """The headers of one run's answers; the last answer of a kind counts."""

    def __init__(self, headers: Iterable[str]) -> None:
        self._retry_after = ""
        self._location = ""
        self._speaks_git = False
        self._status = 0
        for header in headers:
            name, _, value = header.partition(":")
            if (status := _STATUS.match(header)) is not None:
                self._status = int(status[1])
            elif name.lower() == "retry-after" and self._status in _ASKING_TO_WAIT:
                self._retry_after = value.strip()
            elif name.lower() == "location" and self._status in _LEADING_ELSEWHERE:
                self._location = value.strip()
            elif _SMART.match(header) is not None:
                self._speaks_git = True

    @property
    def is_foreign(self) -> bool:
        """Return True if the remote answered, but not with Git's smart protocol."""
        return self._status != 0 and not self._speaks_git

    def retry_after(self, now: datetime) -> float | None:
        """Return the seconds that a 429 or 503 asks to wait, at most an hour, or None (RFC 9110, 10.2.3)."""
        said = self._retry_after[:VALUE_CHARACTERS]
        if _SECONDS.fullmatch(said):
            return min(float(said), MOST_SECONDS)
        try:
            until = parsedate_to_datetime(said)
            until = until if until.tzinfo else until.replace(tzinfo=UTC)
            return min(max((until - now).total_seconds(), 0.0), MOST_SECONDS)
        except (ValueError, TypeError, IndexError, OverflowError):  # errors of the parser for no date
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


def split_trace(stderr: bytes) -> tuple[bytes, HttpAnswers]:
    """Split standard error into git's own lines and the answers in its trace."""
    headers = (
        found[2].removeprefix(RECEIVED).decode("utf-8", "replace").rstrip("\r")
        for found in _TRACE.finditer(stderr)
        if found[1] == b"<=" and found[2].startswith(RECEIVED)
    )
    return _TRACE.sub(b"", stderr), HttpAnswers(headers)


# HTTPS (and HTTP on loopback): trusted authorities, the proxy, and passwords or tokens.
#
# A password or token is a header for this host, in a configuration file in memory: so it is in no argument, no variable
# and on no disk.

# If this file exists, it has the content of all files in the folder beside it. Reading those too takes curl 25 ms of
# CPU in every run.
SYSTEM_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
NO_AUTHORITIES = "no-authorities"

# No redirects, which could send credentials to another host. HTTP/1.1, because git sends one request after the other,
# so HTTP/2 has no advantage. A connection that is silent for a minute is closed, whatever the time limit is.
CONFIGURATION = """\
[http]
	followRedirects = false
	sslVersion = tlsv1.2
	version = HTTP/1.1
	lowSpeedLimit = 1
	lowSpeedTime = 60
"""


class Https(Transport):
    """One URL with its credentials. `home` is the program's own folder."""

    def __init__(self, url: str, credentials: Credentials, *, home: Path) -> None:
        parts = urlsplit(url)
        super().__init__(parts.scheme)
        self._host = parts.netloc
        self._credentials = credentials
        self._home = home
        self._asking = BoundedIO("the files with credentials")

    def install(self) -> str:
        empty = self._home / NO_AUTHORITIES
        empty.mkdir(mode=0o700, exist_ok=True)
        return CONFIGURATION + self._configured(empty)

    def _configured(self, empty: Path) -> str:
        lines = ["[http]"]
        bundle = self._credentials.ca_file or (SYSTEM_BUNDLE if SYSTEM_BUNDLE.is_file() else None)
        if bundle is not None:
            # Without our own folder, curl would also trust the system's authorities.
            lines += [f"\tsslCAInfo = {quoted_path(str(bundle))}", f"\tsslCAPath = {quoted_path(str(empty))}"]
            lines += [f"\tproxySSLCAInfo = {quoted_path(str(bundle))}"]
        if self._credentials.proxy:
            lines += [f"\tproxy = {quoted_path(self._credentials.proxy)}"]
        return "\n".join(lines) + "\n"

    @asynccontextmanager
    async def access(self) -> AsyncIterator[Access]:
        secret = await self._asking.answer(self._read)
        if not secret:
            yield Access(environment=TRACING)
            return
        name = self._credentials.username
        if name:
            shown = f"Basic {base64.b64encode(name.encode() + b':' + secret).decode()}"
        else:
            shown = f"Bearer {secret.decode('utf-8', 'surrogateescape')}"
        origin = quoted_path(f"{self.protocol}://{self._host}")
        text = f"[http {origin}]\n\textraHeader = {quoted_path(f'Authorization: {shown}')}\n"
        with credentials.open_memory_file(text.encode("utf-8", "surrogateescape")) as descriptor:
            included = {"GIT_CONFIG_KEY_0": "include.path", "GIT_CONFIG_VALUE_0": inherited_path(descriptor)}
            yield Access(
                environment={**TRACING, "GIT_CONFIG_COUNT": "1", **included},
                descriptors=(descriptor,),
                secrets=credentials.secret_forms(secret, username=name),
            )

    def _read(self) -> bytes:
        """Return the present secret; empty if there is none. Raises GitFault for an unusable file."""
        given = self._credentials
        if given.ca_file is not None:
            credentials.secret_content(given.ca_file, CA_FILE, limit=credentials.MOST_LIST_BYTES)
        if given.password_file is not None:
            return credentials.secret_line(given.password_file, PASSWORD_FILE)
        if given.token_file is not None:
            return credentials.secret_line(given.token_file, TOKEN_FILE)
        return b""
