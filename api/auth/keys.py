"""Keys: `Authorization: Bearer <key>` or `X-Service-Api-Key: <key>`. What an actor may do belongs to `access`."""

import hmac
from collections.abc import Iterable

from api import errors
from api.answers import Header
from reconciler.access.actors import SERVICE_KEY, Actor

CHALLENGE = b'Bearer realm="service"'


def authenticate(headers: Iterable[Header], *, key: bytes) -> Actor:
    """Who holds the key that the request carries; an empty `key` is one that nobody holds.

    A request may say its key in both headers; each must then be right, so that no proxy and no client in the chain
    believes in another one than we do. Raises `Unauthenticated`.
    """
    presented = credentials(headers)
    if not presented:
        raise errors.Unauthenticated(
            "Send a key, as `Authorization: Bearer <key>` or as `X-Service-Api-Key: <key>`.", challenge=CHALLENGE
        )
    # All are compared, each in constant time, whatever the first comparison says.
    right = [hmac.compare_digest(candidate, key) for candidate in presented]
    if not key or not all(right):
        raise errors.Unauthenticated("The key is not known.", challenge=CHALLENGE + b', error="invalid_token"')
    return SERVICE_KEY


def credentials(headers: Iterable[Header]) -> list[bytes]:
    """Every key in the headers. Other schemes of `Authorization` are somebody else's, a proxy's perhaps."""
    found = []
    for name, value in headers:
        if name == b"x-service-api-key":
            found.append(value.strip())
        elif name == b"authorization":
            scheme, _, credential = value.partition(b" ")
            if scheme.lower() == b"bearer":
                found.append(credential.strip())
    return found
