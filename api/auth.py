"""Authentication of requests: addresses, cookies, credentials, origins."""

import base64
import binascii
import hmac
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote_to_bytes, urlsplit

from api import access, errors
from api.calls import Call, Caller
from api.responses import Header
from reconciler.auth import changes
from reconciler.auth.sessions import session_digest
from reconciler.model import directory
from reconciler.model.error_codes import ErrorCode
from reconciler.model.principals import SERVICE_KEY, Principal

# The client's address of a request, even behind trusted proxies.

Network: TypeAlias = IPv4Network | IPv6Network
Address: TypeAlias = IPv4Address | IPv6Address

UNKNOWN = "unknown"
HOPS = 32  # proxies one behind the other that are followed
CLIENTS_BITS = 64  # of an IPv6 address; the rest is the client's own to choose


def address(call: Call) -> str:
    """Return the client's address of a call, even if another replica passed it on: see `client_address`."""
    if call.passed_on is not None:
        return call.passed_on.address or UNKNOWN
    peer = call.scope["client"][0] if call.scope.get("client") else None
    return client_address(peer, call.headers, trusted=call.services.trusted_proxies)


def client_address(peer: str | None, headers: Iterable[Header], *, trusted: Sequence[Network]) -> str:
    """Return the client for which attempts are counted: an IPv4 address, or the network of 64 bits of an IPv6 address.

    `peer` is the other end of the connection. Each proxy appends the address from which it got the request. Entries
    before the last address that is no trusted proxy come from the client, and may be false.
    """
    reached = None if peer is None else _address(peer.partition("%")[0])
    if reached is None:
        return UNKNOWN
    for hop in _hops(headers):
        # The nearest hop that is no trusted proxy. If the chain ends or has no address, the last proxy itself.
        if not any(reached in network for network in trusted) or (found := _address(_without_port(hop))) is None:
            break
        reached = found
    if isinstance(reached, IPv4Address):
        return str(reached)
    return str(IPv6Network((reached, CLIENTS_BITS), strict=False))


def _hops(headers: Iterable[Header]) -> Iterator[str]:
    """Yield the hops, the nearest first. Repeated headers count as one (RFC 9110, 5.3)."""
    said = b",".join(value for name, value in headers if name == b"x-forwarded-for")
    if said:
        nearest = said.rsplit(b",", HOPS)[-HOPS:]
        yield from (hop.strip(b" \t").decode("latin-1") for hop in reversed(nearest))


def _without_port(hop: str) -> str:
    """Return the address in `192.0.2.1:80`, `[2001:db8::1]:80` or `[2001:db8::1]`, as some proxies write it."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


def _address(text: str) -> Address | None:
    """Parse an address; None if it is none. IPv4 in IPv6 becomes IPv4; an address with a zone is refused."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    if isinstance(found, IPv4Address):
        return found
    return None if found.scope_id is not None else found.ipv4_mapped or found


# Cookies: reading ours from a request, and the header that sets or removes one.
#
# Over https a name begins with `__Host-`: a browser accepts such a cookie only from this host, over https and for every
# path (RFC 6265bis, 4.1.3.2). So neither a neighbouring host nor a page over http can set one.

PREFIX = "__Host-"
MOST = 100  # cookies in a request: other services of the same host name may have theirs, ports are not told apart
LONGEST = 4_096  # bytes of a value of ours, as browsers keep it


@dataclass(frozen=True, slots=True)
class Cookies:
    """Our cookies. `is_secure`: people reach the service by https."""

    is_secure: bool

    @property
    def session(self) -> str:
        """The name of the session's cookie."""
        return self._named("reconciler")

    @property
    def flow(self) -> str:
        """The name of the cookie for a sign-in through the provider."""
        return self._named("reconciler-flow")

    @property
    def done(self) -> str:
        """The name of the cookie that says on the next page what a button did."""
        return self._named("reconciler-done")

    def given(self, name: str, value: str, *, seconds: int | None = None) -> Header:
        """Return the header that sets a cookie, for a time or until the browser is closed."""
        lasting = "" if seconds is None else f"; Max-Age={seconds}"
        # Lax: a page elsewhere may lead here, as a provider does, and its forms and scripts come without the cookie.
        secure = "; Secure" if self.is_secure else ""
        return b"set-cookie", f"{name}={value}; Path=/{lasting}{secure}; HttpOnly; SameSite=Lax".encode("ascii")

    def taken(self, name: str) -> Header:
        """Return the header that removes a cookie."""
        return self.given(name, "", seconds=0)

    def _named(self, name: str) -> str:
        return f"{PREFIX}{name}" if self.is_secure else name


def cookies(call: Call) -> Cookies:
    """Return our cookies for this `webURL` and a listener with or without TLS."""
    return Cookies(is_secure=call.services.has_tls or call.services.web_url.lower().startswith("https:"))


def read_cookie(headers: Iterable[Header], name: str) -> str:
    """Return the value of one of our cookies; empty if it is missing or occurs twice.

    A browser also sends cookies of a neighbouring host or another path, in an order that their author chooses (RFC
    6265, 4.2.2). So with two of a name, neither can be trusted.
    """
    # All headers together are one (RFC 6265, 4.2.1).
    pieces = b";".join(value for header, value in headers if header == b"cookie").split(b";", MOST)
    pairs = [piece.partition(b"=")[::2] for piece in pieces]
    found = [value.strip(b" \t") for each, value in pairs if each.strip(b" \t") == name.encode("ascii")]
    is_one = len(pieces) <= MOST and len(found) == 1 and len(found[0]) <= LONGEST and found[0].isascii()
    return found[0].decode("ascii") if is_one else ""


async def catch_up(call: Call) -> None:
    """Hear what other replicas changed until now, such as a password, an invitation or a session."""
    if call.services.following is not None:
        await call.services.following.catch_up()


# The caller with a browser: the person of the cookie's session.


async def browser(call: Call) -> Caller | None:
    """Return the person of this browser; None without a valid session. Another replica may have begun it just now."""
    token, services = read_cookie(call.headers, cookies(call).session), call.services
    session = services.sessions.find(token) if token else None
    if session is None and session_digest(token) is not None:
        await catch_up(call)
        session = services.sessions.find(token)
    if session is None:
        return None
    user = call.directory.user(session.user)
    return None if user is None else Caller(call.directory.principal(user), call.directory, session)


# The credentials in the headers of a request: keys and passwords.
#
# They are `Authorization: Bearer <key>`, `X-Service-Api-Key: <key>`, and `Authorization: Basic` (RFC 7617) with a name
# and a password, or with a key as the password and any name: a Collector sends nothing else. Other schemes of
# `Authorization` may be for a proxy, and are ignored. This only reads credentials; `authenticate` checks them.

IN_URL = (b"api_key", b"api-key", b"apikey", b"access_token")
"""Parts of the names of parameters that carry a key, in lower case. Values may be names of anything."""


IN_A_URL = (
    "A key or an invitation code does not belong in a URL, where logs keep it: send it in a header, revoke this one, "
    "and make another."
)


class Password(NamedTuple):
    """A person's name and password."""

    name: str
    password: str


class ShownCredentials(NamedTuple):
    """All credentials of a request, in the order of its headers."""

    keys: list[str]
    passwords: list[Password]


def shown_credentials(call: Call) -> ShownCredentials:
    """Return the credentials in the headers. Raises `BadRequest` for a malformed one.

    With `X-Service-Api-Key`, a password in `Authorization` is for a proxy, and is ignored.
    """
    found = ShownCredentials([], [])
    has_own = b"x-service-api-key" in call.named
    for name, value in call.headers:
        if name == b"x-service-api-key":
            found.keys.append(value.strip().decode("latin-1"))
        elif name == b"authorization":
            scheme, _, credential = value.partition(b" ")
            if scheme.lower() == b"bearer":
                found.keys.append(credential.strip().decode("latin-1"))
            elif scheme.lower() == b"basic" and not has_own:
                given = _basic(credential.strip())
                if _is_key(call, given.password):
                    found.keys.append(given.password)
                else:
                    found.passwords.append(given)
    return found


def _is_key(call: Call, password: str) -> bool:
    """Return True if a password is meant as a key. A key has too much randomness to be guessed, so a wrong one is
    not slowed down as a person's password is; the audit counts it.
    """
    return password.startswith(directory.KEY_MARK) or _is_service_key(call, password.encode())


def refuse_in_url(call: Call) -> None:
    """Raise `BadRequest` for a key or an invitation code in a URL, because logs, histories and proxies keep URLs.

    Our keys and codes are recognised by their beginning, anywhere in the URL. The key of the environment may be any
    text, so it is recognised only as the whole value of a parameter of the query.
    """
    path, query = call.scope["path"], call.query
    if not query and directory.KEY_MARK not in path and changes.MARK not in path:
        return
    parameters = [tuple(map(unquote_to_bytes, each.partition(b"=")[::2])) for each in query.split(b"&")]
    is_named = any(sign in name.lower() for name, _ in parameters for sign in IN_URL)
    is_service_key = any(_is_service_key(call, value) for _, value in parameters)
    text = f"{path}?{unquote_to_bytes(query).decode('latin-1')}"
    if is_named or is_service_key or directory.holds_key(text) or changes.holds_code(text):
        raise errors.BadRequest(IN_A_URL)


def _basic(encoded: bytes) -> Password:
    try:
        name, colon, password = base64.b64decode(encoded, validate=True).decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        colon = ""
    if not colon:
        raise errors.BadRequest(
            "The header Authorization is not `Basic` with a name, a colon and a password in base64."
        )
    return Password(name, password)


# The caller: the principal of the credentials of a request.

CHALLENGE = b'Bearer realm="service", Basic realm="service", charset="UTF-8"'
OF_KEYS = b'Bearer realm="service"'  # where passwords open nothing, a browser must not ask for one
WRONG_KEY = b'Bearer realm="service", error="invalid_token"'

ASK = (
    "Say who asks: a key as `Authorization: Bearer <key>` or `X-Service-Api-Key: <key>`, or a name and a password as "
    "`Authorization: Basic`."
)
ASK_FOR_A_KEY = (
    "Say who asks: a key as `Authorization: Bearer <key>` or `X-Service-Api-Key: <key>`. People sign in with a "
    "browser, at {}."
)
NO_PASSWORDS = "Passwords open nothing here: people sign in with a browser, at {}. Programs send a key."


def unauthenticated(call: Call, sentence: str, *, code: ErrorCode) -> errors.Unauthenticated:
    """Return the 401, which needs a challenge (RFC 9110, 11.6.1)."""
    challenge = OF_KEYS if call.services.auth_type == "oidc" else CHALLENGE
    return errors.Unauthenticated(sentence, code=code, headers=((b"www-authenticate", challenge),))


def again(call: Call) -> None:
    """Check the permission again after slow work, such as reading a body or comparing a password: the caller may have
    been removed, or have another role. Raises what `access.judge` does, `Unauthenticated`, `CutOff`.
    """
    assert call.caller is not None
    services, (before, since, session) = call.services, call.caller
    if services.contact is not None:
        services.contact.check()
    now = services.accounts.still(before, since=since)
    if now is None or (session is not None and not services.sessions.is_live(session)):
        raise unauthenticated(call, "What you showed opens nothing any more.", code=ErrorCode.CREDENTIAL_REVOKED)
    call.caller = Caller(now, since, session)
    access.judge(call)


async def authenticate(call: Call, shown: ShownCredentials) -> Principal:
    """Return the caller by the request's credentials. Raises `Unauthenticated`, `Throttled`.

    Another replica may have made a key, a person or a password just now, so before a refusal this one catches up.
    """
    following = call.services.following
    if following is None or not any(shown):
        return await _authenticate(call, shown)
    try:
        return await _authenticate(call, shown)
    except errors.Unauthenticated:
        before = call.directory
        if not await following.catch_up() or call.directory is before:
            raise
    return await _authenticate(call, shown)


async def _authenticate(call: Call, shown: ShownCredentials) -> Principal:
    """Return the caller, as this replica knows them.

    If there are several credentials, each must be valid and belong to the same principal: otherwise a proxy could use
    another one than we do.
    """
    services = call.services
    if len(shown.keys) == 1 and not shown.passwords:
        return _holder(call, shown.keys[0])  # nearly always
    # Keys come first: a wrong one ends it before a password is compared.
    found = [_holder(call, key) for key in shown.keys]
    found += [await _person(call, one) for one in shown.passwords]
    if any(one != found[0] for one in found):
        sentence = "The credentials mean different callers; send one."
        raise unauthenticated(call, sentence, code=ErrorCode.CREDENTIALS_CONFLICT)
    if found:
        return found[0]
    if services.anybody is not None:
        return services.anybody
    if services.auth_type == "oidc":
        raise unauthenticated(call, ASK_FOR_A_KEY.format(services.web_url), code=ErrorCode.KEY_REQUIRED)
    raise unauthenticated(call, ASK, code=ErrorCode.NO_CREDENTIAL)


def _holder(call: Call, key: str) -> Principal:
    """Return the holder of a key. Raises `Unauthenticated`."""
    if _is_service_key(call, key.encode("utf-8", "surrogatepass")):
        return SERVICE_KEY
    holder = call.services.accounts.holder(key)
    if holder is None:
        challenge = (b"www-authenticate", WRONG_KEY)
        raise errors.Unauthenticated("The key is not known.", code=ErrorCode.UNKNOWN_KEY, headers=(challenge,))
    return holder


def _is_service_key(call: Call, key: bytes) -> bool:
    """Return True for the key of the environment, in constant time. An empty key is never valid."""
    is_same = hmac.compare_digest(key, call.services.api_key.encode())
    return is_same and bool(key)


async def _person(call: Call, one: Password) -> Principal:
    if call.services.auth_type == "oidc":
        told = NO_PASSWORDS.format(call.services.web_url)
        raise unauthenticated(call, told, code=ErrorCode.PASSWORDS_DISABLED)
    found = await call.services.signing_in.principal(one.name, one.password, address=address(call))
    if found is None:
        raise unauthenticated(call, "The name or the password is wrong.", code=ErrorCode.WRONG_PASSWORD)
    return found


# The check of origins, by headers that pages cannot forge.
#
# A page of another site can attack in two ways. Its own name may lead to this machine (DNS rebinding): then the browser
# sends that name as `Host`, so without authentication only known names are answered. Or it sends a form to us: then the
# browser sends `Sec-Fetch-Site`, or at least `Origin`. Other programs send neither.

LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})
OWN_SITE = frozenset({b"same-origin", b"none"})  # `none`: a person typed the address
PROVEN = frozenset({b"same-origin"})


def check_host(call: Call) -> None:
    """Check `Host`. Raise `BadRequest` if it occurs twice, because a proxy may have used the other one (RFC 9112, 3.2).
    Without authentication, raise `Forbidden` unless it is a name of this machine, with any port.
    """
    hosts = call.header(b"host")
    if call.services.anybody is None:
        if len(hosts) > 1:
            raise errors.BadRequest("The header Host is given more than once.")
        return
    allowed = LOCAL | {_name(urlsplit(call.services.web_url).netloc.lower())}
    if len(hosts) != 1 or _name(hosts[0].decode("latin-1").lower()) not in allowed:
        raise errors.Forbidden(
            "This service asks nobody who they are, and answers to its own host names alone: localhost, 127.0.0.1, "
            "[::1], and the host of `webURL` in its settings.",
            code=ErrorCode.OTHER_SITE,
        )


def check_origin(call: Call, *, needs_proof: bool = False) -> None:
    """Raise `Forbidden` for a write that a browser sends for a page of another site.

    A browser adds its stored password or its network position to requests of any page. `Sec-Fetch-Site` counts first.
    Without it, as over plain http from another machine, the origin must be the request's host. A proxy may have changed
    the host, so the origin of `web_url` is accepted too.

    A request with a cookie, or one that begins a session, `needs_proof`: it must have one of these headers.
    """
    web_url, origins, sites = call.services.web_url, call.header(b"origin"), call.header(b"sec-fetch-site")
    if len(origins) == 1 and origins[0].decode("latin-1").lower() == origin_of(web_url):
        return
    if needs_proof and not sites and not origins:
        raise errors.Forbidden(
            "This says not of which site it comes (`Origin`), as a browser does for whoever signed in with one; "
            "programs use a key.",
            code=ErrorCode.OTHER_SITE,
        )
    if sites:
        ours = len(sites) == 1 and sites[0] in (PROVEN if needs_proof else OWN_SITE)
    else:
        ours = not origins or _asked_itself(origins, call.header(b"host"))
        # Where people come by https, whoever is in between may put a page of their own under the same name over http.
        ours = ours and not (needs_proof and web_url.startswith("https:") and origins[0].lower().startswith(b"http:"))
    if not ours:
        raise errors.Forbidden(
            "A browser sent this for a page of another site; only pages of this service may change anything. Behind a "
            "proxy, set `webURL` to the address that people use.",
            code=ErrorCode.OTHER_SITE,
        )


def origin_of(url: str) -> str:
    """Return the origin as a browser writes it, without the scheme's default port."""
    parts = urlsplit(url.lower())
    return f"{parts.scheme}://{parts.netloc.removesuffix({'https': ':443', 'http': ':80'}.get(parts.scheme, ' '))}"


def _asked_itself(origins: list[bytes], hosts: list[bytes]) -> bool:
    _, separator, authority = origins[0].partition(b"://")
    return len(origins) == len(hosts) == 1 and bool(separator) and authority.lower() == hosts[0].lower()


def _name(host: str) -> str:
    """Return the host of an authority, without port and final dot."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isascii() and port.isdigit() else host).removesuffix(".")
