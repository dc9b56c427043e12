"""The client of the API; the only module that imports httpx2 here.

What a command does with an answer is the command's own business.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, cast
from urllib.parse import quote, urlsplit

from reconciler.cli.tables import answer_objects, answer_strings, answer_text
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
NOT_OURS = "the answer is not one of the service; is --server or SERVICE_SERVER right?"
NO_PROJECT = "There is no such project."  # as the service says it, of whatever was asked for
CHOOSE = "Choose a project with the header X-Service-Project; GET /v1/me lists yours."  # likewise
NOBODY = "the service wants to know who asks; set SERVICE_API_KEY, or name yourself with --user or SERVICE_USER"
WRONG_KEY = (
    "the service does not accept the API key: it never existed, was revoked or has expired; give the right one with "
    "SERVICE_API_KEY or --api-key"
)
PROJECTS = "`reconciler project list` shows yours"
CHOOSE_HINT = f"choose a project with --project or SERVICE_PROJECT; {PROJECTS}"
WRONG_PASSWORD = "the service does not accept the name or the password (--user, SERVICE_USER, SERVICE_PASSWORD_FILE)"  # noqa: S105
SET_A_KEY = "set SERVICE_API_KEY to a key of yours"
OF_401: Mapping[str, str] = {  # what the service says, in words of commands; whatever else it says stands for itself
    "Say who asks: a key as `Authorization: Bearer <key>` or `X-Service-Api-Key: <key>`, or a name and a password as "
    "`Authorization: Basic`.": NOBODY,
    "The key is not known.": WRONG_KEY,
    "The name or the password is wrong.": WRONG_PASSWORD,
}
MOST_SENTENCES = 5  # of a 401, which may come from anybody
LONGEST_SENTENCE = 500  # characters

Query = Mapping[str, str]


class Refusal(Refused):
    """The service answered that it will not."""

    def __init__(self, status: int, errors: tuple[str, ...]) -> None:
        super().__init__("; ".join(errors))
        self.status = status
        self.errors = errors


class Unreachable(Transient):
    """The service did not answer."""


class Target(NamedTuple):
    """Which server, as whom, for which project."""

    server: str
    api_key: str | None = None
    user: str | None = None
    password: str | None = None
    project: str | None = None


class Client:
    """A connection to one server; use it in a `with`."""

    def __init__(self, target: Target) -> None:
        import httpx2  # noqa: PLC0415 - the import takes longer than many commands

        parts = urlsplit(target.server)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise Refused("the server must be a URL such as http://127.0.0.1:3001 (--server or SERVICE_SERVER)")
        self._server = target.server.rstrip("/")
        self._refused = WRONG_PASSWORD if target.user else WRONG_KEY if target.api_key else NOBODY
        self.project = target.project
        self._errors = httpx2
        try:
            self._http = httpx2.Client(
                headers=_headers(target),
                timeout=httpx2.Timeout(ANSWER, connect=CONNECT),
                # A proxy of the environment is for other machines; it must not see a local server's key.
                # A transport of our own has none, and still minds SSL_CERT_FILE.
                transport=httpx2.HTTPTransport(verify=_verifying(parts.scheme)) if parts.hostname in LOOPBACK else None,
            )
        except OSError:  # nothing is connected yet: only the authorities were read
            raise Refused(
                "SSL_CERT_FILE or SSL_CERT_DIR names no file with certificates; correct it or unset it"
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    @property
    def server(self) -> str:
        """Where the service is, as a URL."""
        return self._server

    def get(self, *path: str, query: Query | None = None) -> dict[str, Value]:
        """A GET whose answer is an object."""
        return _object(self.ask("GET", path, query=query))

    def post(self, *path: str, body: Value = None, query: Query | None = None) -> dict[str, Value]:
        """A POST whose answer is an object."""
        return _object(self.ask("POST", path, query=query, body=body))

    def pages(self, *path: str, query: Query | None = None, size: int = PAGE) -> Iterator[list[dict[str, Value]]]:
        """A long list of resources in pages of a size; what the query asks for besides holds for each."""
        after: dict[str, str] = {}
        while True:
            found = self.get(*path, query={"limit": str(size), **(query or {}), **after})
            resources = answer_objects(found.get("resources"))
            yield resources
            # Fewer than asked for means the end; more, a server that knows no pages.
            if len(resources) != size:
                return
            after = {"after": answer_text(resources[-1], "metadata", "name")}

    def ask(self, method: str, path: tuple[str, ...], *, query: Query | None = None, body: Value = None) -> Value:
        """One request; the answer's JSON, or what went wrong as one sentence."""
        content = None if body is None else json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        request = self._http.build_request(method, self._url(path), params=query, content=content)
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
        return self._judged(response.status_code, data, after=response.headers.get("Retry-After", ""))

    def _url(self, path: tuple[str, ...]) -> str:
        if any(part in ("", ".", "..") for part in path):
            raise Refused("a kind or a name must not be empty, `.` or `..`")
        return "/".join((self._server, "v1", *(quote(part, safe="") for part in path)))

    def _no_answer(self, problem: "httpx2.RequestError") -> str:
        """Why no answer came, as a sentence."""
        server, errors = self._server, self._errors
        if isinstance(problem, errors.ConnectTimeout | errors.ConnectError):
            return _not_connected(server, str(problem))
        if isinstance(problem, errors.RemoteProtocolError):
            return (
                f"{server} gave no HTTP answer; is --server or SERVICE_SERVER right, and does the address begin with "
                "https:// when the service has a certificate?"
            )
        return self._broken(problem)

    def _broken(self, problem: "httpx2.RequestError") -> str:
        """Why an answer did not come to its end, as a sentence."""
        if isinstance(problem, self._errors.TimeoutException):
            return f"{self._server} did not answer in time; look at its log, and try again"
        return f"the connection to {self._server} broke before its answer was complete; try again"

    def _judged(self, status: int, data: bytes, *, after: str) -> Value:
        if status == 204:
            return None
        value = _decoded(data)
        if 200 <= status < 300:
            if value is None:
                raise Refused(NOT_OURS)
            return value
        errors = tuple(answer_strings(value.get("errors"))) if isinstance(value, dict) else ()
        if status == 401:
            raise Refusal(status, self._unrecognised(errors))
        if not errors:
            errors = (f"{self._server} answered {status} without saying why; is it the service, or a proxy?",)
        if status == 429 and after:
            errors = (f"{errors[0].removesuffix('.')} ({after} s)",)
        # No refusals: none of what asks about a resource is to take it for a missing one.
        if self.project and errors == (NO_PROJECT,):
            raise Refused(no_project(self.project))
        if errors == (CHOOSE,):
            raise Refused(CHOOSE_HINT)
        raise Refusal(status, errors)

    def _unrecognised(self, errors: tuple[str, ...]) -> tuple[str, ...]:
        """Why the service does not know who asks: it knows best, as long as it says something."""
        told = tuple(OF_401.get(one, one[:LONGEST_SENTENCE].removesuffix(".")) for one in errors[:MOST_SENTENCES])
        if self._refused == NOBODY and told and NOBODY not in told:
            return (*told, SET_A_KEY)
        return told or (self._refused,)


def no_project(name: str) -> str:
    """What to say of a project that does not exist, or not for whoever asks."""
    return f"there is no project {name}, or you have no role in it; {PROJECTS}"


def _not_connected(server: str, problem: str) -> str:
    if "certificate has expired" in problem:
        return f"the certificate of {server} has expired; renew it there"
    if "certificate is not valid for" in problem:
        return f"the certificate of {server} is for another name; use a name that it holds, or renew it with this one"
    if "CERTIFICATE_VERIFY_FAILED" in problem:
        return f"the certificate of {server} is not trusted; SSL_CERT_FILE can name a file with its authority"
    if "SSL" in problem:
        return f"{server} does not answer in TLS; without a certificate, its address begins with http://"
    return (
        f"cannot reach {server}; is the service running there (`reconciler serve`), and is --server "
        "or SERVICE_SERVER right?"
    )


def _verifying(scheme: str) -> "ssl.SSLContext | Literal[True]":
    """The usual authorities; for http none, which trusts nobody: reading them takes longer than most commands."""
    import ssl  # noqa: PLC0415 - as above

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
    if target.user is not None:
        headers["Authorization"] = _basic(target.user, target.password or "")
    if target.project:
        if not (target.project.isascii() and target.project.isprintable()):
            raise Refused("the project's name holds characters that no project has (--project or SERVICE_PROJECT)")
        headers["X-Service-Project"] = target.project
    return headers


def _basic(user: str, password: str) -> str:
    if not (user.isascii() and user.isprintable()) or ":" in user:
        raise Refused("the user's name holds characters that no user's name has (--user or SERVICE_USER)")
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _bounded(response: "httpx2.Response") -> bytes:
    chunks, size = [], 0
    for chunk in response.iter_bytes():
        size += len(chunk)
        if size > LARGEST:
            raise Refused(f"the answer is larger than {LARGEST >> 20} MiB; ask for less at once")
        chunks.append(chunk)
    return b"".join(chunks)


def _decoded(data: bytes) -> Value:
    try:
        return cast("Value", json.loads(data))
    except (ValueError, RecursionError):
        return None


def _object(value: Value) -> dict[str, Value]:
    if not isinstance(value, dict):
        raise Refused(NOT_OURS)
    return value
