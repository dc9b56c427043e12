"""One sign-in on its way through a provider, and signing out there."""

import base64
import binascii
import hmac
import json
import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlencode, urlsplit, urlunsplit

# One sign-in on its way through a provider: what the browser must bring back, and the sealed text that it carries.
#
# The browser keeps it instead of the service: nobody can fill a table of begun sign-ins, and one that was begun before
# a restart goes on after it. Sealed means: signed with HMAC-SHA-256 under a key of the service, and nothing secret from
# the browser that carries it is in it (RFC 7636 keeps the verifier from whoever reads the redirect, not from the
# browser).

LIFETIME_SECONDS = 600.0  # for whoever has to look for a second factor
RANDOM_BYTES = 96  # 32 each for state, nonce and verifier
LEEWAY_SECONDS = 60.0  # a clock that was set back by less does not end what was begun
LONGEST_SEALED = 3072  # characters: a cookie has 4,096 with its name and attributes
LONGEST_PATH = 1024  # characters
LONGEST_INVITATION = 64  # characters
SHORTEST_KEY = 32  # bytes
HOME = "/"  # where whoever has nowhere else to go is led

_VERSION: Final = "1"
_PURPOSE: Final = (
    b"reconciler sign-in flow 1\0"  # a key that signs other things as well signs none that passes for this
)
_PART: Final = RANDOM_BYTES // 3
_SEALED: Final = re.compile(r"1\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]{43})", re.ASCII)
_RANDOM: Final = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_INVITATION: Final = re.compile(rf"[!-~]{{0,{LONGEST_INVITATION}}}", re.ASCII)

# RFC 3986, 3.3 and 3.4: a path and a query, without a fragment, which no server sees.
_LOCAL: Final = re.compile(
    r"(/(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*)(?:\?((?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*))?",
    re.ASCII,
)


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
    """The text when it is a path of this service, with its query or without; else `/`.

    It leads nowhere else in any browser, and no proxy reads another path out of it: no scheme, no host, no backslash,
    no control character, no dot segment, nothing of these in escapes, no more than 1,024 characters.
    """
    found = _LOCAL.fullmatch(text) if len(text) <= LONGEST_PATH else None
    if found is None:
        return HOME
    *segments, last = found[1][1:].split("/")
    safe = all(map(_is_segment, segments)) and (not last or _is_segment(last))
    return text if safe and _is_text(found[2] or "") else HOME


def begin_flow(*, back: str, invitation: str, now: float, randomness: bytes) -> Flow:
    """A new one. `randomness` is `RANDOM_BYTES` from the system's source.

    A `back` that is no local path leads to `/`; an `invitation` that cannot be one is left out.
    """
    if len(randomness) != RANDOM_BYTES:
        raise ValueError(f"a sign-in needs {RANDOM_BYTES} random bytes")
    state, nonce, verifier = (_text(randomness[at : at + _PART]) for at in range(0, RANDOM_BYTES, _PART))
    invitation = invitation if _INVITATION.fullmatch(invitation) else ""
    return Flow(state, nonce, verifier, local_path(back), float(now), invitation)


def seal_flow(flow: Flow, *, key: bytes) -> str:
    """As a cookie's value: letters, digits, `-`, `_` and `.`; at most 3,072 characters.

    Raises ValueError for a flow that `begin` did not make, and for a key of less than 32 bytes.
    """
    parts = [flow.state, flow.nonce, flow.verifier, flow.back, flow.began, flow.invitation]
    if _flow(parts) != flow:
        raise ValueError("a sign-in that could not be opened again is not sealed")
    body = _text(json.dumps(parts, separators=(",", ":"), allow_nan=False).encode())
    return f"{_VERSION}.{body}.{_signature(body, key)}"


def open_flow(text: str, *, key: bytes, now: float) -> Flow | None:
    """Return the sealed flow; None for another key, a changed text, or one that is too old."""
    found = _SEALED.fullmatch(text) if len(text) <= LONGEST_SEALED else None
    if found is None or not hmac.compare_digest(_signature(found[1], key), found[2]):
        return None
    flow = _flow(_parts(found[1]))
    if flow is None or not -LEEWAY_SECONDS <= now - flow.began <= LIFETIME_SECONDS:
        return None
    return flow


def _is_segment(segment: str) -> bool:
    """Return True when a part of a path has one meaning, also when its escapes are read twice."""
    return (
        bool(segment)
        and _is_text(segment)
        and (plain := unquote(segment)) not in (".", "..")
        and not any(character in plain for character in "/\\%")
    )


def _is_text(escaped: str) -> bool:
    """Return True when the escapes stand for visible characters, as UTF-8."""
    try:
        return unquote(escaped, errors="strict").isprintable()
    except ValueError:
        return False


def _signature(body: str, key: bytes) -> str:
    if len(key) < SHORTEST_KEY:
        raise ValueError(f"a sign-in is sealed with a key of at least {SHORTEST_KEY} bytes")
    return _text(hmac.digest(key, _PURPOSE + body.encode(), "sha256"))


def _parts(body: str) -> object:
    """Return the content of the signed text; None when it is not JSON."""
    try:
        return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (ValueError, RecursionError, binascii.Error):
        return None


def _flow(parts: object) -> Flow | None:
    """The flow of these parts, when each is what it should be: also what is signed may be of another version."""
    match parts:
        case [str(state), str(nonce), str(verifier), str(back), float(began), str(invitation)]:
            random = all(_RANDOM.fullmatch(part) for part in (state, nonce, verifier))
            whole = local_path(back) == back and _INVITATION.fullmatch(invitation) and began >= 0  # which NaN is not
            return Flow(state, nonce, verifier, back, began, invitation) if random and whole else None
    return None


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


# Signing out at the provider too (OpenID Connect RP-Initiated Logout 1.0).

LONGEST_HINT = 4096  # characters: servers refuse a longer line, and with the hint left out the provider asks the person


def sign_out_url(endpoint: str, *, id_token: str, client_id: str, back: str) -> str:
    """The endpoint with its own query and ours (2)."""
    hint = {"id_token_hint": id_token} if 0 < len(id_token) <= LONGEST_HINT else {}
    added = urlencode({**hint, "client_id": client_id, "post_logout_redirect_uri": back})
    parts = urlsplit(endpoint)
    return urlunsplit(parts._replace(query=f"{parts.query}&{added}" if parts.query else added))
