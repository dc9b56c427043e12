"""The client of the API, and readers for the JSON of its answers.

This is the only module of the command line that imports httpx2. The commands decide what to do with an answer.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, cast
from urllib.parse import quote, urlsplit

from reconciler.model.error_codes import ErrorCode
from reconciler.model.errors import Refused, Transient
from reconciler.model.values import Value
from reconciler.version import __version__

if TYPE_CHECKING:
    import ssl

    import httpx2

CONNECT = 5.0  # seconds
ANSWER = 120.0  # seconds without a byte: an apply of the most resources is one transaction
LARGEST = 256 << 20  # bytes of one answer
PAGE = 1000  # resources in one request of a long list
LOOPBACK = ("127.0.0.1", "::1", "localhost")
NOT_FOUND = 404
NOT_OURS = "the answer is not one of the service; is --server or SERVICE_SERVER right?"
NOBODY = "the service wants to know who asks; set SERVICE_API_KEY, or name yourself with --user or SERVICE_USER"
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
OF_401: Mapping[str, str] = {  # in words of commands; every other sentence of the service stands for itself
    ErrorCode.NO_CREDENTIAL: NOBODY,
    ErrorCode.UNKNOWN_KEY: WRONG_KEY,
    ErrorCode.WRONG_PASSWORD: WRONG_PASSWORD,
}
MOST_SENTENCES = 5  # of a 401, which any server or proxy may send
LONGEST_SENTENCE = 500  # characters

Query = Mapping[str, str]


class Refusal(Refused):
    """The service refuses a request. `codes` has the code of each of the `errors`."""

    def __init__(self, status: int, errors: tuple[str, ...], codes: tuple[str, ...] = ()) -> None:
        super().__init__("; ".join(errors))
        self.status = status
        self.errors = errors
        self.codes = codes


class Unreachable(Transient):
    """The service does not answer."""


class Target(NamedTuple):
    """The server of a connection, the credential and the project."""

    server: str
    api_key: str | None = None
    user: str | None = None
    password: str | None = None
    project: str | None = None


class Client:
    """A connection to one server; use it in a `with`.

    Requests take `missing`, the sentence for a 404 (the service's own names paths of the API, not commands), and
    `options`, the names of options by the pointers with which errors lead into the body (`/expiry: must be ...`).
    """

    def __init__(self, target: Target) -> None:
        import httpx2  # noqa: PLC0415 - the import takes longer than many commands

        parts = urlsplit(target.server)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise Refused("the server must be a URL such as http://127.0.0.1:3001 (--server or SERVICE_SERVER)")
        self.server = target.server.rstrip("/")
        self.project = target.project
        self._refused = WRONG_PASSWORD if target.user else WRONG_KEY if target.api_key else NOBODY
        self._errors = httpx2
        timeout = httpx2.Timeout(ANSWER, connect=CONNECT)
        try:
            # A proxy of the environment is for other machines; it must not see a local server's key.
            # A transport of our own has none, and still minds SSL_CERT_FILE.
            own = httpx2.HTTPTransport(verify=_verifying(parts.scheme)) if parts.hostname in LOOPBACK else None
            self._http = httpx2.Client(headers=_headers(target), timeout=timeout, transport=own)
        except OSError:  # nothing is connected yet: only the authorities were read
            raise Refused(
                "SSL_CERT_FILE or SSL_CERT_DIR names no file with certificates; correct it or unset it"
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, *path: str, query: Query | None = None, missing: str = "") -> dict[str, Value]:
        """Send a GET whose answer is an object."""
        return _object(self.ask("GET", path, query=query, missing=missing))

    def post(
        self,
        *path: str,
        body: Value = None,
        query: Query | None = None,
        missing: str = "",
        options: Mapping[str, str] | None = None,
    ) -> dict[str, Value]:
        """Send a POST whose answer is an object."""
        return _object(self.ask("POST", path, query=query, body=body, missing=missing, options=options))

    def pages(self, *path: str, query: Query | None = None, size: int = PAGE) -> Iterator[list[dict[str, Value]]]:
        """Yield a long list of resources in pages of `size`; `query` holds for each page."""
        after: dict[str, str] = {}
        while True:
            found = self.get(*path, query={"limit": str(size), **(query or {}), **after})
            resources = objects(found.get("resources"))
            yield resources
            # Fewer than asked for means the end; more, a server that knows no pages.
            if len(resources) != size:
                return
            after = {"after": text(resources[-1], "metadata", "name")}

    def ask(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        query: Query | None = None,
        body: Value = None,
        missing: str = "",
        options: Mapping[str, str] | None = None,
    ) -> Value:
        """Send a request and return the JSON of the answer. Raises Refusal, Refused, Unreachable."""
        if any(part in ("", ".", "..") for part in path):
            raise Refused("a kind or a name must not be empty, `.` or `..`")
        url = "/".join((self.server, "v1", *(quote(part, safe="") for part in path)))
        content = None if body is None else json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        request = self._http.build_request(method, url, params=query, content=content)
        try:
            response = self._http.send(request, stream=True)
        except self._errors.RequestError as problem:
            raise Unreachable(self._no_answer(problem)) from None
        try:
            data = _bounded(response)
        except self._errors.RequestError as problem:
            raise Unreachable(self._broken(problem)) from None
        finally:
            response.close()
        if response.status_code == 204:
            return None
        try:
            value = cast("Value", json.loads(data))
        except (ValueError, RecursionError):
            value = None
        if not 200 <= response.status_code < 300:
            after = response.headers.get("Retry-After", "")
            refusal = self._refusal(response.status_code, value, after=after, options=options or {})
            # A path names its project, other requests the one of the session.
            project = path[1] if path[0] == "projects" and len(path) > 1 else self.project
            if project and refusal.codes == (ErrorCode.PROJECT_NOT_FOUND,):
                told = NO_PROJECT.format(project)
            elif refusal.codes == (ErrorCode.PROJECT_REQUIRED,):
                told = CHOOSE_HINT
            elif missing and refusal.status == NOT_FOUND:
                told = missing
            else:
                raise refusal
            # Not a Refusal: no command may take it for a missing resource.
            raise Refused(told)
        if value is None:
            raise Refused(NOT_OURS)
        return value

    def _refusal(self, status: int, value: Value, *, after: str, options: Mapping[str, str]) -> Refusal:
        errors, codes = tuple(strings(at(value, "errors"))), tuple(strings(at(value, "codes")))
        if len(codes) != len(errors):  # of another program, or an older server
            codes = ()
        if status == 401:
            told = tuple(
                OF_401.get(code) or error[:LONGEST_SENTENCE].removesuffix(".")
                for error, code in list(zip_longest(errors, codes, fillvalue=""))[:MOST_SENTENCES]
            )
            if self._refused == NOBODY and told and NOBODY not in told:
                told = (*told, SET_A_KEY)
            return Refusal(status, told or (self._refused,), codes)
        if not errors:
            errors = (f"{self.server} answered {status} without saying why; is it the service, or a proxy?",)
        if status == 429 and after:
            errors = (f"{errors[0].removesuffix('.')} ({after} s)",)
        return Refusal(status, tuple(_with_option(error, options) for error in errors), codes)

    def _no_answer(self, problem: "httpx2.RequestError") -> str:
        """Return why there is no answer, as a sentence."""
        errors, said = self._errors, str(problem)
        if isinstance(problem, errors.RemoteProtocolError):
            return (
                f"{self.server} gave no HTTP answer; is --server or SERVICE_SERVER right, and does the address begin "
                "with https:// when the service has a certificate?"
            )
        if not isinstance(problem, errors.ConnectTimeout | errors.ConnectError):
            return self._broken(problem)
        for phrase, told in (
            ("certificate has expired", "the certificate of {} has expired; renew it there"),
            (
                "certificate is not valid for",
                "the certificate of {} is for another name; use a name that it holds, or renew it with this one",
            ),
            (
                "CERTIFICATE_VERIFY_FAILED",
                "the certificate of {} is not trusted; SSL_CERT_FILE can name a file with its authority",
            ),
            ("SSL", "{} does not answer in TLS; without a certificate, its address begins with http://"),
        ):
            if phrase in said:
                return told.format(self.server)
        return (
            f"cannot reach {self.server}; is the service running there (`reconciler serve`), and is --server "
            "or SERVICE_SERVER right?"
        )

    def _broken(self, problem: "httpx2.RequestError") -> str:
        """Return why an answer is not whole, as a sentence."""
        if isinstance(problem, self._errors.TimeoutException):
            return f"{self.server} did not answer in time; look at its log, and try again"
        return f"the connection to {self.server} broke before its answer was complete; try again"


def _with_option(error: str, options: Mapping[str, str]) -> str:
    pointer, _, rest = error.partition(": ")
    return f"{options[pointer]} {rest}" if rest and pointer in options else error


def _verifying(scheme: str) -> "ssl.SSLContext | Literal[True]":
    """Return the usual authorities; for http none, since reading them takes longer than most commands."""
    import ssl  # noqa: PLC0415 - it comes with httpx2

    return True if scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _headers(target: Target) -> dict[str, str]:
    headers = {
        "Accept": "application/json",
        "Content-Type": "application/json",
        "User-Agent": f"reconciler/{__version__}",
    }
    if target.api_key:
        if not (target.api_key.isascii() and target.api_key.isprintable()):
            raise Refused("the API key holds characters that no key has (--api-key or SERVICE_API_KEY)")
        headers["Authorization"] = f"Bearer {target.api_key}"
    if (user := target.user) is not None:
        if not (user.isascii() and user.isprintable()) or ":" in user:
            raise Refused("the user's name holds characters that no user's name has (--user or SERVICE_USER)")
        basic = base64.b64encode(f"{user}:{target.password or ''}".encode()).decode()
        headers["Authorization"] = f"Basic {basic}"
    if target.project:
        if not (target.project.isascii() and target.project.isprintable()):
            raise Refused("the project's name holds characters that no project has (--project or SERVICE_PROJECT)")
        headers["X-Service-Project"] = target.project
    return headers


def _bounded(response: "httpx2.Response") -> bytes:
    chunks, size = [], 0
    for chunk in response.iter_bytes():
        size += len(chunk)
        if size > LARGEST:
            raise Refused(f"the answer is larger than {LARGEST >> 20} MiB; ask for less at once")
        chunks.append(chunk)
    return b"".join(chunks)


def _object(value: Value) -> dict[str, Value]:
    if not isinstance(value, dict):
        raise Refused(NOT_OURS)
    return value


# Readers of an answer. They return an empty value where an answer has nothing, or something else.


def at(value: Value, *path: str) -> Value:
    """Return the value inside nested objects; None where there is nothing."""
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def objects(value: Value) -> list[dict[str, Value]]:
    """Return the objects of a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def strings(value: Value) -> list[str]:
    """Return the strings of a list."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


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
    """Return the lines of a text inside nested objects. LF alone ends one, whatever else Python takes for an end."""
    found = text(value, *path)
    return found.split("\n") if found else []


def identity(resource: Value) -> str:
    """Return `Kind/name`, as every command prints it."""
    return f"{text(resource, 'kind') or '?'}/{text(resource, 'metadata', 'name') or '?'}"


def place(value: Value) -> str:
    """Return `path:line` of a value that has a path and a line; empty when it has none."""
    path, line = text(value, "path"), text(value, "line")
    return f"{path}:{line}" if path and line else path
