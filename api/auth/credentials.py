"""What a request shows to say who asks: keys and passwords, taken out of its headers.

`Authorization: Bearer <key>`, `X-Service-Api-Key: <key>`, `Authorization: Basic` (RFC 7617) with a name and a password.
Other schemes of `Authorization` are somebody else's, a proxy's perhaps. Belongs here: reading. Does not: whether any of
it is right (`authenticating`).
"""

import base64
import binascii
import hmac
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from api import errors
from api.answers import Header
from reconciler.auth import invitations
from reconciler.model import directory

IN_URL = (b"api_key", b"api-key", b"apikey", b"access_token")
"""What the name of a parameter holds that carries a key, in lower case. Values may be anybody's names of things."""


IN_A_URL = "A key does not belong in a URL, where logs keep it: send it in a header, and revoke this one."
CODE_IN_A_URL = "An invitation code does not belong in a URL, where logs keep it: withdraw this one, and make another."


class Password(NamedTuple):
    """A person's name and password."""

    name: str
    password: str


class ShownCredentials(NamedTuple):
    """Everything that a request shows, in the order of its headers."""

    keys: list[str]
    passwords: list[Password]


def shown_credentials(headers: Iterable[Header]) -> ShownCredentials:
    """The credentials in the headers. Raises `BadRequest` for what is meant as one and cannot be read.

    With `X-Service-Api-Key`, a password in `Authorization` is the proxy's for which that header is there.
    """
    found = ShownCredentials([], [])
    basic: list[bytes] = []
    has_own = False
    for name, value in headers:
        if name == b"x-service-api-key":
            has_own = True
            found.keys.append(value.strip().decode("latin-1"))
        elif name == b"authorization":
            scheme, _, credential = value.partition(b" ")
            kind = scheme.lower()
            if kind == b"bearer":
                found.keys.append(credential.strip().decode("latin-1"))
            elif kind == b"basic":
                basic.append(credential.strip())
    if basic and not has_own:
        found.passwords.extend(map(_basic, basic))
    return found


def refuse_in_path(path: str) -> None:
    """Raise `BadRequest` for a key or an invitation code of ours in the path of a URL."""
    if directory.KEY_MARK in path and directory.holds_key(path):
        raise errors.BadRequest(IN_A_URL)
    if invitations.MARK in path and invitations.holds_code(path):
        raise errors.BadRequest(CODE_IN_A_URL)


def refuse_in_query(query: bytes, *, service_key: bytes) -> None:
    """Raise `BadRequest` for a key or a code in the query of a URL, where logs, histories and proxies keep it.

    What is ours is known by its beginning, wherever it stands; that of the environment, which may be any text, as the
    whole value of a parameter. An empty `service_key` is none.
    """
    parameters = [tuple(map(unquote_to_bytes, each.partition(b"=")[::2])) for each in query.split(b"&")]
    is_named = any(sign in name.lower() for name, _ in parameters for sign in IN_URL)
    is_service_key = any(hmac.compare_digest(value, service_key) for _, value in parameters)
    text = unquote_to_bytes(query).decode("latin-1")
    if is_named or (is_service_key and service_key) or directory.holds_key(text):
        raise errors.BadRequest(IN_A_URL)
    if invitations.holds_code(text):
        raise errors.BadRequest(CODE_IN_A_URL)


def _basic(encoded: bytes) -> Password:
    try:
        name, colon, password = base64.b64decode(encoded, validate=True).decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise _unreadable() from None
    if not colon:
        raise _unreadable()
    return Password(name, password)


def _unreadable() -> errors.BadRequest:
    return errors.BadRequest("The header Authorization is not `Basic` with a name, a colon and a password in base64.")
