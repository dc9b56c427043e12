"""The client of the API, and readers for the JSON of its answers.

This is the only module of the command line that imports httpx2. The commands decide what to do with an answer.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypedDict, Unpack, cast
from urllib.parse import quote, urlsplit

from reconciler.cli import output
from reconciler.model.error_codes import ErrorCode
from reconciler.model.errors import Refused, Transient
from reconciler.model.values import Value
from reconciler.version import __version__

if TYPE_CHECKING:
    import httpx2

DEFAULT_SERVER = "http://127.0.0.1:3001"
PASSWORD_FILE = "SERVICE_PASSWORD_FILE"  # noqa: S105 - the name of a variable
CONNECT = 5.0  # seconds
ANSWER = 120.0  # seconds without a byte: an apply of the most resources is one transaction
AGAIN = 1.0  # seconds, after which a stream that broke is opened again
LARGEST = 256 << 20  # bytes of one answer
PAGE = 1000  # resources in one request of a long list
LOOPBACK = ("127.0.0.1", "::1", "localhost")
NOT_FOUND = 404
NOT_OURS = "the answer is not one of the service; is --server or SERVICE_SERVER right?"
NOBODY = "the service needs credentials; set SERVICE_API_KEY, or name yourself with --user or SERVICE_USER"
WRONG_KEY = (
    "the service does not accept the API key: it never existed, was revoked or has expired; give the right one with "
    "SERVICE_API_KEY or --api-key"
)
WRONG_PASSWORD = "the service does not accept the name or the password (--user, SERVICE_USER, SERVICE_PASSWORD_FILE)"  # noqa: S105
PROJECTS = "`reconciler project list` shows yours"
NO_PROJECT = f"there is no project {{}}, or you have no role in it; {PROJECTS}"
NO_REPOSITORY = "there is no repository {}; `reconciler status` shows those there are"
CHOOSE_HINT = f"choose a project with --project or SERVICE_PROJECT; {PROJECTS}"
SET_A_KEY = "set SERVICE_API_KEY to a key of yours"
OF_401: Mapping[str, str] = {  # sentences for users of commands; other sentences of the service are shown as they are
    ErrorCode.NO_CREDENTIAL: NOBODY,
    ErrorCode.UNKNOWN_KEY: WRONG_KEY,
    ErrorCode.WRONG_PASSWORD: WRONG_PASSWORD,
}
MOST_SENTENCES = 5  # of a 401, which any server or proxy may send
LONGEST_SENTENCE = 500  # characters

# Errors of connections.
NO_HTTP = (
    "{} gave no HTTP answer; is --server or SERVICE_SERVER right, and does the address begin with https:// when the "
    "service has a certificate?"
)
UNREACHABLE = (
    "cannot reach {}; is the service running there (`reconciler serve`), and is --server or SERVICE_SERVER right?"
)
LATE = "{} did not answer in time; look at its log, and try again"
BROKEN = "the connection to {} broke before its answer was complete; try again"
TLS_FAULTS = {  # by OpenSSL's phrase, specific ones first
    "certificate has expired": "the certificate of {} has expired; renew it there",
    "certificate is not valid for": (
        "the certificate of {} is for another name; use a name that it holds, or renew it with this one"
    ),
    "CERTIFICATE_VERIFY_FAILED": (
        "the certificate of {} is not trusted; SSL_CERT_FILE can name a file with its authority"
    ),
    "SSL": "{} does not answer in TLS; without a certificate, its address begins with http://",
}


class Refusal(Refused):
    """The service refuses a request. `codes` has the code of each of the `errors`."""

    def __init__(self, status: int, errors: tuple[str, ...], codes: tuple[str, ...] = ()) -> None:
        super().__init__("; ".join(errors))
        self.status = status
        self.errors = errors
        self.codes = codes


class Unreachable(Transient):
    """The service does not answer."""


class RequestParts(TypedDict, total=False):
    """Optional parts of a request. `missing` is the error for a 404: the service's own sentence names paths of the API,
    not commands. `data` are bytes in place of a body, `project` is another one than the client's.
    """

    query: Mapping[str, str]
    body: Value
    data: bytes
    project: str
    missing: str


@dataclass(kw_only=True, repr=False, eq=False)
class Client:
    """The connection of a command, opened by the first request. It has a key or a user, or neither."""

    server: str = DEFAULT_SERVER
    is_named: bool = False  # an option or a variable names the server
    api_key: str | None = None
    user: str | None = None
    project: str | None = None
    is_everywhere: bool = False  # requests name no project
    _opened: ExitStack = field(default_factory=ExitStack, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def everywhere(self) -> Self:
        """Send no project: the requests are about the organization, or their paths name a project."""
        self.is_everywhere = True
        return self

    def sign_in(self) -> None:
        """Ask for the password now, before the command asks for anything else."""
        if self.user is not None:
            _ = self.password

    @cached_property
    def password(self) -> str:
        """The password of the user, from a file or a terminal. Raises Refused, OSError, click.Abort."""
        file = os.environ.get(PASSWORD_FILE)
        nobody = f"there is no terminal to ask for the password of {self.user}; name a file that holds it with "
        question = f"Password of {self.user}"
        return output.hidden_text(Path(file) if file else None, question, otherwise=nobody + PASSWORD_FILE)

    @cached_property
    def _http(self) -> "httpx2.Client":
        auth = None if self.user is None else (self.user, self.password)
        parts = urlsplit(self.server)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise Refused("the server must be a URL such as http://127.0.0.1:3001 (--server or SERVICE_SERVER)")
        project = None if self.is_everywhere else self.project
        for value, what, none, where in (
            (self.api_key, "the API key", "no key", "--api-key or SERVICE_API_KEY"),
            # A colon ends the name in basic authentication.
            (self.user and self.user.replace(":", "\n"), "the user's name", "no user's name", "--user or SERVICE_USER"),
            (project, "the project's name", "no project", "--project or SERVICE_PROJECT"),
        ):
            if value and not (value.isascii() and value.isprintable()):
                raise Refused(f"{what} holds characters that {none} has ({where})")
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        headers["User-Agent"] = f"reconciler/{__version__}"
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        if project:
            headers["X-Service-Project"] = project
        import ssl  # noqa: PLC0415 - it comes with httpx2

        import httpx2  # noqa: PLC0415 - the import takes longer than many commands

        try:
            # A proxy in the environment must not see the key of a server on this machine. Our own transport has no
            # proxy, and still uses SSL_CERT_FILE. For http it reads no authorities: that takes longer than most
            # commands.
            verify = True if parts.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            own = httpx2.HTTPTransport(verify=verify) if parts.hostname in LOOPBACK else None
            timeout = httpx2.Timeout(ANSWER, connect=CONNECT)
            made = httpx2.Client(headers=headers, auth=auth, timeout=timeout, transport=own)
        except OSError:  # from reading the authorities: nothing is connected yet
            raise Refused(
                "SSL_CERT_FILE or SSL_CERT_DIR names no file with certificates; correct it or unset it"
            ) from None
        return self._opened.enter_context(made)

    def get(self, *path: str, **parts: Unpack[RequestParts]) -> dict[str, Value]:
        """Send a GET whose answer is an object."""
        return _object(self.ask("GET", path, **parts))

    def post(self, *path: str, **parts: Unpack[RequestParts]) -> dict[str, Value]:
        """Send a POST whose answer is an object."""
        return _object(self.ask("POST", path, **parts))

    def pages(
        self, *path: str, query: Mapping[str, str] | None = None, size: int = PAGE
    ) -> Iterator[list[dict[str, Value]]]:
        """Yield a long list of resources in pages of `size`; `query` holds for each page."""
        after: dict[str, str] = {}
        while True:
            found = self.get(*path, query={"limit": str(size), **(query or {}), **after})
            resources = objects(found.get("resources"))
            yield resources
            # A shorter page is the last. A longer one comes from a server without pages.
            if len(resources) != size:
                return
            after = {"after": text(resources[-1], "metadata", "name")}

    def ask(self, method: str, path: tuple[str, ...], **parts: Unpack[RequestParts]) -> Value:
        """Send a request and return the JSON of the answer. Raises Refusal, Refused, Unreachable."""
        with self._answered(method, path, **parts) as response:
            data = _bounded(response)
        if response.status_code == 204:
            return None
        value = _json(data)
        if value is None:
            raise Refused(NOT_OURS)
        return value

    def events(self) -> Iterator[tuple[str, dict[str, Value]]]:
        """Yield events with their data, for ever. Those without a name only say that the stream is open, as the first
        does. One that breaks is opened again, once. Raises Refusal, Refused, Unreachable.
        """
        last: dict[str, str] = {}
        while True:
            is_open, fields = False, {}
            try:
                with self._answered("GET", ("events",), headers=last) as response:
                    for line in response.iter_lines():
                        name, _, value = line.partition(":")
                        fields[name] = value.removeprefix(" ")
                        if not line:
                            is_open, last = True, {"Last-Event-ID": fields.get("id", "")}
                            yield fields.get("event", ""), _object(_json(fields.get("data", "{}")))
                            fields = {}
            except Unreachable:
                if not is_open:
                    raise
            time.sleep(AGAIN)

    @contextmanager
    def _answered(
        self,
        method: str,
        path: tuple[str, ...],
        headers: Mapping[str, str] | None = None,
        **parts: Unpack[RequestParts],
    ) -> Iterator["httpx2.Response"]:
        """Send a request and open its answer, if it is a success. Raises Refusal, Refused, Unreachable."""
        if any(part in ("", ".", "..") for part in path):
            raise Refused("a kind or a name must not be empty, `.` or `..`")
        url = "/".join((self.server, "v1", *(quote(part, safe="") for part in path)))
        body = parts.get("body")
        content = None if body is None else json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        if (data := parts.get("data")) is not None:
            content, headers = data, {**(headers or {}), "Content-Type": "application/octet-stream"}
        if project := parts.get("project"):
            headers = {**(headers or {}), "X-Service-Project": project}
        import httpx2  # noqa: PLC0415 - as above

        has_begun = False
        try:
            with self._http.stream(
                method, url, params=parts.get("query"), content=content, headers=headers
            ) as response:
                has_begun = True
                if not response.is_success:
                    raise self._refused(response, path, missing=parts.get("missing"))
                yield response
        except httpx2.RequestError as problem:
            if isinstance(problem, httpx2.RemoteProtocolError) and not has_begun:
                told = NO_HTTP
            elif isinstance(problem, httpx2.ConnectTimeout | httpx2.ConnectError):
                told = next((told for phrase, told in TLS_FAULTS.items() if phrase in str(problem)), UNREACHABLE)
            else:
                told = LATE if isinstance(problem, httpx2.TimeoutException) else BROKEN
            raise Unreachable(told.format(self.server)) from None

    def _refused(self, response: "httpx2.Response", path: tuple[str, ...], *, missing: str | None) -> Refused:
        """Return the error for an answer that is no success."""
        value, after = _json(_bounded(response)), response.headers.get("Retry-After", "")
        refusal = self._refusal(response.status_code, value, after=after)
        # A path names its project, other requests that of the client.
        project = path[1] if path[0] == "projects" and len(path) > 1 else self.project
        # Not a Refusal: no command may take these for a missing resource.
        if project and refusal.codes == (ErrorCode.PROJECT_NOT_FOUND,):
            return Refused(NO_PROJECT.format(project))
        if refusal.codes == (ErrorCode.PROJECT_REQUIRED,):
            return Refused(CHOOSE_HINT)
        return Refused(missing) if missing and refusal.status == NOT_FOUND else refusal

    def _refusal(self, status: int, value: Value, *, after: str) -> Refusal:
        errors, codes = strings(value, "errors"), strings(value, "codes")
        if len(codes) != len(errors):  # from another program or an older server
            codes = []
        if status == 401:
            pairs = list(zip_longest(errors, codes, fillvalue=""))[:MOST_SENTENCES]
            told = [OF_401.get(code) or error[:LONGEST_SENTENCE].removesuffix(".") for error, code in pairs]
            refused = WRONG_PASSWORD if self.user else WRONG_KEY if self.api_key else NOBODY
            errors = told or [refused]
            if refused == NOBODY and NOBODY not in errors:
                errors.append(SET_A_KEY)
        elif not errors:
            errors = [f"{self.server} answered {status} without saying why; is it the service, or a proxy?"]
        if status == 429 and after:
            errors = [f"{errors[0].removesuffix('.')} ({after} s)"]
        return Refusal(status, tuple(errors), tuple(codes))


def _bounded(response: "httpx2.Response") -> bytes:
    data = bytearray()
    for chunk in response.iter_bytes():
        data += chunk
        if len(data) > LARGEST:
            raise Refused(f"the answer is larger than {LARGEST >> 20} MiB; ask for less at once")
    return bytes(data)


def _json(data: bytes | str) -> Value:
    """Return the value of a text; None if it is no JSON."""
    try:
        return cast("Value", json.loads(data))
    except (ValueError, RecursionError):
        return None


def _object(value: Value) -> dict[str, Value]:
    if not isinstance(value, dict):
        raise Refused(NOT_OURS)
    return value


# Readers of answers. They return an empty value if a member is missing or has another type.


def at(value: Value, *path: str) -> Value:
    """Return the value inside nested objects; None where there is nothing."""
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def objects(value: Value, *path: str) -> list[dict[str, Value]]:
    """Return the objects of a list inside nested objects."""
    found = at(value, *path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def strings(value: Value, *path: str) -> list[str]:
    """Return the strings of a list inside nested objects."""
    found = at(value, *path)
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []


def text(value: Value, *path: str) -> str:
    """Return the value inside nested objects as text; the empty text where there is nothing."""
    found = at(value, *path)
    if found is None or isinstance(found, dict | list):
        return ""
    return str(found).lower() if isinstance(found, bool) else str(found)


def number(value: Value, *path: str) -> int:
    """Return a whole number inside nested objects; 0 where there is none."""
    found = at(value, *path)
    return found if isinstance(found, int) else 0


def lines(value: Value, *path: str) -> list[str]:
    """Return the lines of a text inside nested objects. Only LF ends a line."""
    found = text(value, *path)
    return found.split("\n") if found else []


def identity(resource: Value) -> str:
    """Return `Kind/name`, as every command prints it."""
    return f"{text(resource, 'kind') or '?'}/{text(resource, 'metadata', 'name') or '?'}"


def place(value: Value) -> str:
    """Return `path:line` of a value that has a path and a line; empty when it has none."""
    path, line = text(value, "path"), text(value, "line")
    return f"{path}:{line}" if path and line else path
