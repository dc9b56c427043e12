"""A small OpenID Connect provider on loopback: honest until it is told otherwise, and then as bad as they come.

    with hostile.providing() as provider:
        provider.issuer                                  # http://127.0.0.1:<port>
        provider.behaviour.claims = {"name": "Ada", "groups": ["service-admin"]}
        back = hostile.signed_in(authorization_url)      # the parameters that a browser would bring to the redirect URI
        provider.behaviour.id_token = {"aud": []}        # from the next token on; `hostile.GONE` leaves a claim out
        provider.behaviour.answers["token"] = hostile.html()
        provider.rotate()
        provider.counted("keys")                         # how often the keys were asked for

Belongs here: the endpoints, the keys, what they may do wrong; in one module, for whoever wants a provider. Does not:
any opinion on what a client should make of it.

Everybody who comes to its authorization endpoint is signed in at once, as `behaviour.subject`. It runs in threads, so
that a service in another process, a browser or a loop of the same process may talk to it.
"""

import base64
import contextlib
import gzip
import hashlib
import hmac
import http.client
import http.server
import json
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, unquote_plus, urlencode, urlsplit

from joserfc import jwk, jws

from tests.servers.certificates import Certificate
from tests.servers.processes import ADDRESS

CLIENT_ID = "reconciler"
CLIENT_SECRET = "canary-client-secret/+%:&"  # with all that a header or a form must encode
REDIRECT_URI = "http://127.0.0.1:3001/oidc/redirect"
SUBJECT = "248289761001"
ENDPOINTS = {
    "/.well-known/openid-configuration": "discovery",
    "/keys": "keys",
    "/authorize": "authorize",
    "/token": "token",
    "/end-session": "end_session",
    "/moved-keys": "moved-keys",
}
ALGORITHMS = ("RS256", "PS256", "ES256", "EdDSA")
TOKEN_SECONDS = 300
IDLE_SECONDS = 30.0  # a connection on which nothing comes for so long is closed
TICK_SECONDS = 0.02
GONE = object()  # in place of a value: leave it out
_MAKING = threading.Lock()  # two requests at once would make two keys of one name


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of an endpoint instead of its own. `silent`: nothing, ever; `cut`: the body ends before its length;
    `trickling`: a byte at a time, without an end.
    """

    status: int = 200
    body: bytes = b"{}"
    type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    silent: bool = False
    cut: bool = False
    trickling: bool = False


def html(status: int = 200) -> Answer:
    """A page of a gateway in between."""
    return Answer(status, b"<!doctype html><title>canary-page of a gateway</title>", "text/html; charset=utf-8")


def failing(status: int = 500) -> Answer:
    """JSON of an error."""
    return Answer(status, b'{"error": "server_error", "error_description": "canary-description"}')


def large(size: int) -> Answer:
    """JSON of so many bytes and some."""
    return Answer(body=b'{"filler": "' + b"x" * size + b'"}')


def bomb(size: int = 64 << 20) -> Answer:
    """Little that unpacks to so many bytes."""
    return Answer(body=_zeros(size), headers={"Content-Encoding": "gzip"})


def redirecting(location: str, status: int = 302) -> Answer:
    """Look elsewhere."""
    return Answer(status, b"", headers={"Location": location})


def json_of(value: object, status: int = 200) -> Answer:
    """This as JSON."""
    return Answer(status, json.dumps(value).encode())


@cache
def _zeros(size: int) -> bytes:
    return gzip.compress(bytes(size), 9)


@dataclass(frozen=True, slots=True)
class Request:
    """A request that came; names of headers are small, `form` is the query or the form."""

    endpoint: str
    method: str
    path: str
    headers: Mapping[str, str]
    form: Mapping[str, str] = field(repr=False)


@dataclass
class Behaviour:
    """How the provider behaves from the next request on. Changes to JSON objects replace members, or leave them out."""

    subject: str = SUBJECT
    claims: Mapping[str, object] = field(default_factory=dict)  # in the ID token, beside what it must hold
    algorithm: str = "RS256"
    answers: dict[str, Answer] = field(default_factory=dict)  # by the names in ENDPOINTS
    document: Mapping[str, object] = field(default_factory=dict)  # changes to the discovery document
    published: list[dict[str, Any]] | None = None  # the key set, in place of the own keys
    redirect: Mapping[str, object] = field(default_factory=dict)  # changes to the parameters that the browser brings
    token: Mapping[str, object] = field(default_factory=dict)  # changes to the token endpoint's answer
    header: Mapping[str, object] = field(default_factory=dict)  # changes to the ID token's header
    id_token: Mapping[str, object] = field(default_factory=dict)  # changes to its claims
    write: Callable[[dict[str, Any], dict[str, Any]], str] | None = None  # header and claims to a token
    replays: bool = False  # a code opens more than one token
    methods: tuple[str, ...] = ("client_secret_basic", "client_secret_post")  # by which a client may say who it is


@dataclass
class Granted:
    """The sign-in that a code stands for."""

    nonce: str | None
    challenge: str
    redirect_uri: str
    subject: str
    claims: Mapping[str, object]
    used: bool = False


class Provider:
    """A provider that runs."""

    def __init__(self, *, path: str, certificate: Certificate | None, clock: Callable[[], float]) -> None:
        self.behaviour = Behaviour()
        self.requests: list[Request] = []
        self.codes: dict[str, Granted] = {}
        self.path = path
        self.clock = clock
        self.turn = self.label = 0
        self._certificate = certificate
        self._listening: _Listening | None = None
        self.port = 0
        self.start()

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"{'http' if self._certificate is None else 'https'}://{ADDRESS}:{self.port}"

    @property
    def issuer(self) -> str:
        """The name that it calls itself."""
        return self.origin + self.path

    def start(self) -> None:
        """Listen; where it was before, when it was."""
        self._listening = _Listening(self, self._certificate, self.port)
        self.port = int(self._listening.server_address[1])
        self._listening.begin()

    def stop(self) -> None:
        """Go away: connections are refused."""
        if self._listening is not None:
            self._listening.end()
            self._listening = None

    def rotate(self, *, same_ids: bool = False) -> None:
        """Sign with new keys and publish these alone; under the names of the old ones when asked to."""
        self.turn += 1
        if not same_ids:
            self.label = self.turn

    def key(self, algorithm: str = "") -> jwk.Key:
        """The private key that it signs with, of its own algorithm or another."""
        return _named(self.turn, self.label, algorithm or self.behaviour.algorithm)

    def published(self) -> dict[str, Any]:
        """The key set that it shows."""
        if self.behaviour.published is not None:
            return {"keys": self.behaviour.published}
        return {"keys": [self.key(algorithm).as_dict(private=False) for algorithm in ALGORITHMS]}

    def counted(self, endpoint: str) -> int:
        """How often an endpoint was asked."""
        return sum(request.endpoint == endpoint for request in self.requests)

    def written(self, header: dict[str, Any], claims: dict[str, Any]) -> str:
        """An ID token: as it should be, or as `behaviour.write` makes it."""
        if self.behaviour.write is not None:
            return self.behaviour.write(header, claims)
        return signed(header, claims, self.key())

    def document(self) -> dict[str, Any]:
        """Return the answer of discovery."""
        issuer = self.issuer.rstrip("/")
        document = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "jwks_uri": f"{issuer}/keys",
            "end_session_endpoint": f"{issuer}/end-session",
            "response_types_supported": ["code", "id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [*ALGORITHMS, "HS256", "none"],
            "code_challenge_methods_supported": ["plain", "S256"],
            "token_endpoint_auth_methods_supported": list(self.behaviour.methods),
            "authorization_response_iss_parameter_supported": True,
        }
        return changed(document, self.behaviour.document)

    def authorized(self, form: Mapping[str, str]) -> Answer:
        """Send the browser back with a code, as somebody who is signed in already."""
        if (
            form.get("client_id") != CLIENT_ID
            or form.get("response_type") != "code"
            or "openid" not in form.get("scope", "").split()
            or form.get("code_challenge_method") != "S256"
            or not form.get("code_challenge")
            or not form.get("redirect_uri")
        ):
            return Answer(400, b"not a request of our client", "text/plain")
        code = "canary-code-" + secrets.token_urlsafe(16)
        self.codes[code] = Granted(
            form.get("nonce"),
            form["code_challenge"],
            form["redirect_uri"],
            self.behaviour.subject,
            dict(self.behaviour.claims),
        )
        parameters = changed(
            {"code": code, "state": form.get("state", GONE), "iss": self.issuer}, self.behaviour.redirect
        )
        return redirecting(f"{form['redirect_uri']}?{urlencode(parameters, doseq=True)}")

    def exchanged(self, form: Mapping[str, str], authorization: str) -> Answer:
        """Tokens for a code."""
        if not self._is_client(form, authorization):
            return json_of({"error": "invalid_client", "error_description": "canary-description"}, 401)
        granted = self.codes.get(form.get("code", ""))
        challenge = _half(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if (
            granted is None
            or (granted.used and not self.behaviour.replays)
            or granted.redirect_uri != form.get("redirect_uri")
            or granted.challenge != challenge
            or form.get("grant_type") != "authorization_code"
        ):
            return json_of({"error": "invalid_grant", "error_description": "canary-description"}, 400)
        granted.used = True
        return json_of(self.tokens(granted))

    def tokens(self, granted: Granted) -> dict[str, Any]:
        """The token endpoint's answer for a code."""
        access_token = "canary-access-token-" + secrets.token_urlsafe(16)
        key, now = self.key(), int(self.clock())
        header = changed(
            {"alg": self.behaviour.algorithm, "kid": key.kid, "typ": "JWT"},
            self.behaviour.header,
        )
        claims: dict[str, Any] = {
            "iss": self.issuer,
            "sub": granted.subject,
            "aud": CLIENT_ID,
            "exp": now + TOKEN_SECONDS,
            "iat": now,
            "auth_time": 0,
            "nonce": GONE if granted.nonce is None else granted.nonce,
            "at_hash": _at_hash(access_token, self.behaviour.algorithm),
            **granted.claims,
        }
        answer = {
            "access_token": access_token,
            "refresh_token": "canary-refresh-token-" + secrets.token_urlsafe(16),
            "token_type": "Bearer",
            "expires_in": TOKEN_SECONDS,
            "id_token": self.written(header, changed(claims, self.behaviour.id_token)),
        }
        return changed(answer, self.behaviour.token)

    def _is_client(self, form: Mapping[str, str], authorization: str) -> bool:
        """Return True when the client said who it is in one of the ways (RFC 6749, 2.3.1)."""
        posted = (form.get("client_id"), form.get("client_secret"))
        if authorization.startswith("Basic ") and "client_secret_basic" in self.behaviour.methods:
            name, _, password = base64.b64decode(authorization[6:]).decode().partition(":")
            return (unquote_plus(name), unquote_plus(password)) == (CLIENT_ID, CLIENT_SECRET)
        return "client_secret_post" in self.behaviour.methods and posted == (CLIENT_ID, CLIENT_SECRET)


def changed(value: Mapping[str, Any], changes: Mapping[str, object]) -> dict[str, Any]:
    """A JSON object with changes: members replaced, added, or left out where they are `GONE`."""
    return {name: each for name, each in {**value, **changes}.items() if each is not GONE}


def signed(header: Mapping[str, Any], claims: Mapping[str, Any], key: jwk.Key) -> str:
    """A token with a true signature, whatever is in it."""
    return jws.serialize_compact(dict(header), json.dumps(claims), key, registry=_Anything())


def unsigned(header: Mapping[str, Any], claims: Mapping[str, Any]) -> str:
    """A token with an empty signature."""
    return ".".join((_half(json.dumps(header).encode()), _half(json.dumps(claims).encode()), ""))


def hashed(header: Mapping[str, Any], claims: Mapping[str, Any], secret: bytes) -> str:
    """A token signed with HMAC-SHA-256 under a secret, for instance the text of a public key."""
    text = unsigned(header, claims).removesuffix(".")
    return f"{text}.{_half(hmac.digest(secret, text.encode(), 'sha256'))}"


def signed_in(url: str) -> dict[str, list[str]]:
    """Go where a browser would be sent; the parameters that it brings back."""
    location = visited(url)
    assert location, f"no redirect from {urlsplit(url).path}"
    return parse_qs(urlsplit(location).query, keep_blank_values=True)


def visited(url: str) -> str:
    """Ask for a page of the provider as a browser does, without following; where it sends the browser, or nothing."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=IDLE_SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", f"{parts.path}?{parts.query}")
        return connection.getresponse().headers.get("Location", "")


@contextlib.contextmanager
def providing(
    *, path: str = "", certificate: Certificate | None = None, clock: Callable[[], float] = time.time
) -> Iterator[Provider]:
    """A provider for as long as the context lasts. `path` is the issuer's, without or with a slash at its end;
    `clock` gives the seconds since the epoch that it writes into tokens.
    """
    provider = Provider(path=path, certificate=certificate, clock=clock)
    try:
        yield provider
    finally:
        provider.stop()


class _Anything(jws.JWSRegistry):
    """Signs whatever is asked for."""

    def get_alg(self, name: str) -> Any:
        return self.algorithms.get(name) or self.algorithms["RS256"]

    def check_header(self, header: dict[str, Any]) -> None:
        """Every header is welcome."""


def fresh_key(algorithm: str, turn: int) -> jwk.Key:
    """A new key for an algorithm. They are the same in all tests of a process, because RSA takes long to make."""
    with _MAKING:
        return _made(algorithm, turn)


@cache
def _made(algorithm: str, turn: int) -> jwk.Key:  # noqa: ARG001 - each turn has keys of its own
    if algorithm.startswith("ES"):
        return jwk.ECKey.generate_key({"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[algorithm])
    if algorithm in ("EdDSA", "Ed25519"):
        return jwk.OKPKey.generate_key("Ed25519")
    return jwk.RSAKey.generate_key(2048)


@cache
def _named(turn: int, label: int, algorithm: str) -> jwk.Key:
    """The key of a turn under its name."""
    key, kid = fresh_key(algorithm, turn), f"{algorithm}-{label}"
    return jwk.import_key({**key.as_dict(private=True), "kid": kid, "use": "sig", "alg": algorithm})


def _at_hash(access_token: str, algorithm: str) -> str:
    """OpenID Connect Core 1.0, 3.1.3.6."""
    bits = "512" if algorithm.startswith("Ed") else algorithm[2:]
    digest = hashlib.new(f"sha{bits}", access_token.encode()).digest()
    return _half(digest[: len(digest) // 2])


def _half(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class _Listening(http.server.ThreadingHTTPServer):
    """The socket, its connections and their threads."""

    daemon_threads = False
    block_on_close = True  # no thread is left when it is closed
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(self, provider: Provider, certificate: Certificate | None, port: int) -> None:
        super().__init__((ADDRESS, port), _Handler)
        self.provider = provider
        self.closing = threading.Event()
        self._context = None if certificate is None else certificate.context()
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._thread = threading.Thread(target=self.serve_forever, args=(TICK_SECONDS,), name="provider")

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Cut what is connected, and wait for the threads."""
        self.closing.set()
        self.shutdown()
        self._thread.join()
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def finish_request(self, request: Any, client_address: Any) -> None:
        connection: socket.socket = request
        if self._context is not None:
            connection = self._context.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        connection.settimeout(IDLE_SECONDS)
        with self._lock:
            self._connections.add(connection)
        try:
            if isinstance(connection, ssl.SSLSocket):
                connection.do_handshake()
            _Handler(connection, client_address, self)
        except OSError:
            pass  # a client that went away, or does not trust us
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away in the middle is no error of ours."""


class _Handler(http.server.BaseHTTPRequestHandler):
    """One connection, one request."""

    server: _Listening

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name is the library's
        """Nothing: what came is in `requests`."""

    def do_GET(self) -> None:
        self._answer(urlsplit(self.path).query)

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode())

    def _answer(self, form: str) -> None:
        provider = self.server.provider
        path = urlsplit(self.path).path
        endpoint = ENDPOINTS.get(path.removeprefix(provider.path.rstrip("/")), "")
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(endpoint, self.command, self.path, headers, dict(parse_qsl(form, keep_blank_values=True)))
        provider.requests.append(request)
        self._send(provider.behaviour.answers.get(endpoint) or _own(provider, request))

    def _send(self, answer: Answer) -> None:
        if answer.silent:
            self.server.closing.wait()
            return
        self.send_response(answer.status)
        for name, value in {
            "Content-Type": answer.type,
            "Set-Cookie": "session=canary-cookie",
            **answer.headers,
        }.items():
            self.send_header(name, value)
        if not answer.trickling:
            self.send_header("Content-Length", str(len(answer.body) + answer.cut))
        self.end_headers()
        while answer.trickling and not self.server.closing.wait(TICK_SECONDS):
            self.wfile.write(b" ")
        self.wfile.write(answer.body)


def _own(provider: Provider, request: Request) -> Answer:
    """Return the answer that an endpoint gives by itself."""
    match request.endpoint:
        case "discovery":
            return json_of(provider.document())
        case "keys":
            return json_of(provider.published())
        case "authorize":
            return provider.authorized(request.form)
        case "token" if request.method == "POST":
            return provider.exchanged(request.form, request.headers.get("authorization", ""))
        case "end_session":
            return _left(request.form)
    return Answer(404, b"{}")


def _left(form: Mapping[str, str]) -> Answer:
    """Signed out there, and sent back when the client asked for that."""
    where, state = form.get("post_logout_redirect_uri"), form.get("state")
    if not where:
        return Answer(200, b"<!doctype html><title>Signed out</title>", "text/html")
    return redirecting(where + (f"?state={quote(state)}" if state else ""))
