"""Who asks: the principal behind the credentials of a request.

Belongs here: what is right, and what is said when nothing is. Does not: reading headers (`credentials`), what somebody
may do (`reconciler.access`).
"""

import hmac
from collections.abc import Callable
from dataclasses import replace

from api import errors
from api.auth.credentials import Password, ShownCredentials
from reconciler.model import directory
from reconciler.model.principals import SERVICE_KEY, Principal, Scope
from reconciler.server.services import Services

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


def challenge(auth_type: str) -> bytes:
    """What a 401 asks for (RFC 9110, 11.6.1)."""
    return OF_KEYS if auth_type == "oidc" else CHALLENGE


class Authenticator:
    """Recognises keys at once, and passwords off the loop."""

    def __init__(self, services: Services) -> None:
        """Of a service. Its key that is empty is one that nobody holds."""
        self._accounts = services.accounts
        self._signing_in = services.signing_in
        self._service_key = services.api_key.encode()
        self._anybody = services.anybody
        self._has_passwords = services.auth_type != "oidc"
        self._challenge = challenge(services.auth_type)
        self._web_url = services.web_url

    async def principal(self, shown: ShownCredentials, *, address: Callable[[], str]) -> Principal:
        """Who this is. Raises `Unauthenticated`, `Throttled`.

        `address` says where the request comes from; it is asked for passwords alone, since keys need no such counting.
        A request may show several credentials; each must be right and mean the same, so that no proxy and no client in
        the chain believes in another one than we do.
        """
        if len(shown.keys) == 1 and not shown.passwords:
            return self.holder(shown.keys[0])
        # Keys come first: a wrong one ends it before a password is compared.
        found = [self.holder(key) for key in shown.keys]
        found += [self._loader(one) or await self._person(one, address=address()) for one in shown.passwords]
        if found:
            if any(one != found[0] for one in found):
                raise errors.Unauthenticated(
                    "The credentials mean different callers; send one.", challenge=self._challenge
                )
            return found[0]
        if self._anybody is None:
            asking = ASK if self._has_passwords else ASK_FOR_A_KEY.format(self._web_url)
            raise errors.Unauthenticated(asking, challenge=self._challenge)
        return self._anybody

    def holder(self, key: str) -> Principal:
        """Who holds a key. Raises `Unauthenticated`."""
        # In constant time, whatever the directory says; who has the key learns nothing from a quick answer.
        is_service_key = hmac.compare_digest(key.encode("utf-8", "surrogatepass"), self._service_key)
        if is_service_key and self._service_key:
            return SERVICE_KEY
        holder = self._accounts.holder(key)
        if holder is None:
            raise errors.Unauthenticated("The key is not known.", challenge=WRONG_KEY)
        return holder

    def _loader(self, one: Password) -> Principal | None:
        """Return who holds a key that is given as a password, or None: a Collector loads its configuration with Basic
        alone. Such a key must have the scope `raw`, and opens nothing else so. It has too much randomness to be
        guessed, so nothing is counted; the name may be any.
        """
        holder = self._accounts.holder(one.password) if directory.key_prefix(one.password) is not None else None
        if holder is None or Scope.RAW not in holder.scopes:
            return None
        return replace(holder, scopes=frozenset({Scope.RAW}))

    async def _person(self, one: Password, *, address: str) -> Principal:
        if not self._has_passwords:
            raise errors.Unauthenticated(NO_PASSWORDS.format(self._web_url), challenge=self._challenge)
        found = await self._signing_in.principal(one.name, one.password, address=address)
        if found is None:
            raise errors.Unauthenticated("The name or the password is wrong.", challenge=self._challenge)
        return found
