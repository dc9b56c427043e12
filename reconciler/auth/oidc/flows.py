"""One sign-in on its way through a provider, and signing out there."""

import base64
import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec

# One sign-in on its way through a provider: what the browser must bring back, and the sealed text that it carries.
#
# The browser keeps it instead of the service: nobody can fill a table of begun sign-ins, and one that was begun before
# a restart goes on after it. Sealed means: signed with HMAC-SHA-256 under a key of the service, and nothing secret from
# the browser that carries it is in it (RFC 7636 keeps the verifier from whoever reads the redirect, not from the
# browser).

LIFETIME_SECONDS = 600.0  # for whoever has to look for a second factor
LEEWAY_SECONDS = 60.0  # a clock that was set back by less does not end what was begun
SECRET_BYTES = 32  # each of state, nonce and verifier
LONGEST_PATH = 1024  # characters
HOME = "/"  # where whoever has nowhere else to go is led

_PURPOSE: Final = b"reconciler sign-in flow 2\0"  # a key that signs other things signs none that passes for this
# Plain segments and a plain query. Without escapes, colons, and dots at the beginning of a segment, no browser and no
# proxy reads another path or another host out of it.
_SEGMENT: Final = "[A-Za-z0-9_~-][A-Za-z0-9._~-]*"
_LOCAL: Final = re.compile(rf"/(?:{_SEGMENT}/)*(?:{_SEGMENT})?(?:\?(?:[A-Za-z0-9._~=&+-]|%[0-9A-Fa-f]{{2}})*)?")


@dataclass(frozen=True, slots=True)
class Flow:
    """A sign-in that was begun. `back` is the local path to return to; `invitation` a code to be taken at the end."""

    state: str
    nonce: str
    verifier: str = field(repr=False)  # RFC 7636, 4.1
    back: str
    began: float  # seconds since the epoch
    invitation: str = field(default="", repr=False)


def local_path(text: str) -> str:
    """Return the text when it is a plain path of this service, with its query or without; else `/`."""
    return text if len(text) <= LONGEST_PATH and _LOCAL.fullmatch(text) else HOME


def begin_flow(*, back: str, invitation: str, now: float) -> Flow:
    """Return a new one. A `back` that is no local path leads to `/`."""
    state, nonce, verifier = (secrets.token_urlsafe(SECRET_BYTES) for _ in range(3))
    return Flow(state, nonce, verifier, local_path(back), now, invitation)


def seal_flow(flow: Flow, *, key: bytes) -> str:
    """As a cookie's value."""
    body = base64.urlsafe_b64encode(msgspec.json.encode(flow)).decode()
    return f"{body}.{_signature(body, key)}"


def open_flow(text: str, *, key: bytes, now: float) -> Flow | None:
    """Return the sealed flow; None for another key, a changed text, or one that is too old."""
    body, _, signature = text.partition(".")
    if not text.isascii() or not hmac.compare_digest(_signature(body, key), signature):
        return None
    flow = msgspec.json.decode(base64.urlsafe_b64decode(body), type=Flow)
    return flow if -LEEWAY_SECONDS <= now - flow.began <= LIFETIME_SECONDS else None


def _signature(body: str, key: bytes) -> str:
    return hmac.digest(key, _PURPOSE + body.encode(), "sha256").hex()


# Signing out at the provider too (OpenID Connect RP-Initiated Logout 1.0).

LONGEST_HINT = 4096  # characters: servers refuse a longer line, and with the hint left out the provider asks the person


def sign_out_url(endpoint: str, *, id_token: str, client_id: str, back: str) -> str:
    """Return the endpoint with its own query and ours (2)."""
    hint = {"id_token_hint": id_token} if 0 < len(id_token) <= LONGEST_HINT else {}
    added = urlencode({**hint, "client_id": client_id, "post_logout_redirect_uri": back})
    parts = urlsplit(endpoint)
    return urlunsplit(parts._replace(query=f"{parts.query}&{added}" if parts.query else added))
