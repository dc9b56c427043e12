"""The token of a request from one replica to another.

It is a MAC of all relevant parts of the request: method, path with query, headers, body, the principal, and the
receiving process. Its key is derived from a key in the store, which only replicas can read, and the worker cannot. A
token is valid once, for one process and some seconds, so an eavesdropper cannot use it.
"""

import base64
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from reconciler.model import directory
from reconciler.model.directory import Directory
from reconciler.model.errors import Refused
from reconciler.model.principals import UNLISTED, Principal, Scope
from reconciler.replicas.peers import Header

HEADER: Final = b"x-reconciler-peer"  # of a request that has a token
REFUSED: Final = b"x-reconciler-refused"  # of an answer: the token was not accepted, so nothing was done
SECONDS = 30.0  # between the sender's clock and the receiver's, in both directions: clocks may differ by some seconds
LONGEST = 16_384  # characters of a token: its headers may be those of a request
NONCE_BYTES = 16
_PURPOSE: Final = b"reconciler peers 1\0"  # a signature for another purpose is no valid token


class BadToken(Refused):
    """The token does not prove that a replica of this service sent this request to this process a moment ago."""


class PeerPrincipal(msgspec.Struct, frozen=True):
    """The identity of the caller. The receiver reads the permissions in its own directory."""

    name: str
    user: str | None
    scopes: tuple[Scope, ...]


class PeerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The signed content of a token. `at` is Unix time in seconds, `to` the receiving process."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: str  # SHA-256
    principal: PeerPrincipal
    to: str
    at: float
    nonce: str
    sender: str
    request: str  # the id of the request that the sender answers
    address: str | None  # of that request's client


_decoder = msgspec.json.Decoder(PeerRequest)


def derived_key(flow_key: bytes) -> bytes:
    """Derive the key of tokens from the key of sign-ins (`Operations.flow_key`)."""
    return hmac.digest(flow_key, _PURPOSE, "sha256")


def body_digest(body: bytes) -> str:
    """Return the digest of a body in a token."""
    return hashlib.sha256(body).hexdigest()


def new_nonce() -> str:
    """Return a random text that no other token has."""
    return secrets.token_urlsafe(NONCE_BYTES)


def identified(principal: Principal) -> PeerPrincipal:
    """Return the identity of a principal in a token."""
    return PeerPrincipal(principal.name, principal.user, tuple(sorted(principal.scopes)))


def known(identity: PeerPrincipal, directory_: Directory, *, now: str) -> Principal | None:
    """Return the principal in this directory; None if it is missing or its key has expired."""
    if identity.user is not None:
        user = directory_.user(identity.user)
        found = None if user is None else directory_.principal(user)
        return found if found is not None and found.name == identity.name else None
    key = next((key for key in directory_.keys.values() if f"key:{key.id}" == identity.name), None)
    if key is None or directory.is_expired(key, now=now):
        return None
    holder = directory_.holder_of(key)
    return replace(holder, scopes=holder.scopes & frozenset(identity.scopes))


def is_unlisted(identity: PeerPrincipal) -> bool:
    """Return True for a principal that is in no directory. The settings of the receiver decide if it exists."""
    return any((identity.name, identity.user) == (one.name, one.user) for one in UNLISTED)


class PeerTokens:
    """Signs requests, and checks those for this process."""

    def __init__(self, key: bytes, *, process: str, clock: Callable[[], float]) -> None:
        """`process` is the random id of this process, `clock` returns Unix time in seconds."""
        self._key = key
        self._process = process
        self._clock = clock
        self._spent: OrderedDict[str, float] = OrderedDict()  # used nonces, with the time at which each is forgotten

    def sign(
        self,
        method: str,
        path: str,
        *,
        to: str,
        principal: Principal,
        body: bytes,
        headers: Sequence[Header],
        sender: str,
        request: str,
        address: str | None,
    ) -> str:
        """Return the token of a request that is sent now."""
        told = PeerRequest(
            method=method,
            path=path,
            headers=tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers),
            body=body_digest(body),
            principal=identified(principal),
            to=to,
            at=self._clock(),
            nonce=new_nonce(),
            sender=sender,
            request=request,
            address=address,
        )
        text = base64.urlsafe_b64encode(msgspec.json.encode(told)).decode()
        return f"{text}.{self._mac(text)}"

    def check(self, token: str, *, method: str, path: str) -> PeerRequest:
        """Return the content of a token, and use it up. The caller must still compare the body. Raises BadToken."""
        text, _, mac = token.partition(".")
        if len(token) > LONGEST or not token.isascii() or not hmac.compare_digest(self._mac(text), mac):
            raise BadToken("This is not signed by a replica of this service.")
        try:
            told = _decoder.decode(base64.urlsafe_b64decode(text))
        except (msgspec.MsgspecError, ValueError):  # a token of another version
            raise BadToken("This is signed by a replica that this one does not understand.") from None
        now = self._clock()
        if told.to != self._process:
            raise BadToken("This is for another replica, or for an earlier process of this one.")
        if (told.method, told.path) != (method, path):
            raise BadToken("This is signed for another request.")
        if not -SECONDS <= now - told.at <= SECONDS:
            raise BadToken(f"This was signed more than {SECONDS:g} seconds from now; set the replicas' clocks right.")
        while self._spent and next(iter(self._spent.values())) < now:
            self._spent.popitem(last=False)
        if told.nonce in self._spent:
            raise BadToken("This came before.")
        self._spent[told.nonce] = now + 2 * SECONDS  # the sender's clock may be ahead of ours
        return told

    def _mac(self, text: str) -> str:
        return hmac.digest(self._key, _PURPOSE + text.encode("ascii", "replace"), "sha256").hex()
