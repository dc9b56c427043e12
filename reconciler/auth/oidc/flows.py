"""The state of one sign-in through a provider, and the URL to sign out there."""

import base64
import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec

# The state of one sign-in: the values that the browser must return, in a sealed text that it keeps.
#
# The browser keeps it instead of the service, so nobody can fill a table of sign-ins, and a sign-in survives a restart.
# Sealed means signed with HMAC-SHA-256 under a key of the service. The browser may read all of it: RFC 7636 hides the
# verifier from readers of the redirect, not from the browser.

LIFETIME_SECONDS = 600.0  # enough to find a second factor
LEEWAY_SECONDS = 60.0  # a clock that is set back by less does not end sign-ins in progress
SECRET_BYTES = 32  # each of state, nonce and verifier
LONGEST_PATH = 1024  # characters
HOME = "/"  # the path without another one

_PURPOSE: Final = b"reconciler sign-in flow 2\0"  # a signature for another purpose is not valid here
# Plain segments and a plain query. There are no escapes, colons, and dots at the beginning of a segment, so browsers
# and proxies cannot understand another path or host.
_SEGMENT: Final = "[A-Za-z0-9_~-][A-Za-z0-9._~-]*"
_LOCAL: Final = re.compile(rf"/(?:{_SEGMENT}/)*(?:{_SEGMENT})?(?:\?(?:[A-Za-z0-9._~=&+-]|%[0-9A-Fa-f]{{2}})*)?")


@dataclass(frozen=True, slots=True)
class Flow:
    """A sign-in in progress. `back` is the local path for the return, `invitation` a code to use at the end."""

    state: str
    nonce: str
    verifier: str = field(repr=False)  # RFC 7636, 4.1
    back: str
    began: float  # seconds since the epoch
    invitation: str = field(default="", repr=False)


def local_path(text: str) -> str:
    """Return the text if it is a plain path of this service, with or without a query; otherwise `/`."""
    return text if len(text) <= LONGEST_PATH and _LOCAL.fullmatch(text) else HOME


def begin_flow(*, back: str, invitation: str, now: float) -> Flow:
    """Begin a sign-in. A `back` that is no local path becomes `/`."""
    state, nonce, verifier = (secrets.token_urlsafe(SECRET_BYTES) for _ in range(3))
    return Flow(state, nonce, verifier, local_path(back), now, invitation)


def seal_flow(flow: Flow, *, key: bytes) -> str:
    """Return the flow as the value of a cookie."""
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
    """Return the URL of the endpoint with its own query and our parameters (section 2)."""
    hint = {"id_token_hint": id_token} if 0 < len(id_token) <= LONGEST_HINT else {}
    added = urlencode({**hint, "client_id": client_id, "post_logout_redirect_uri": back})
    parts = urlsplit(endpoint)
    return urlunsplit(parts._replace(query=f"{parts.query}&{added}" if parts.query else added))
