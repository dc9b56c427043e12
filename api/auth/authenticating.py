"""Who asks: the principal behind the credentials of a request.

Belongs here: what is right, and what is said when nothing is. Does not: reading headers (`credentials`), what somebody
may do (`reconciler.access`).
"""

import hmac
from collections.abc import Callable

from api import errors
from api.auth.credentials import Password, Shown
from reconciler.access.principals import SERVICE_KEY, Principal
from reconciler.accounts import Accounts
from reconciler.signing_in import SigningIn

CHALLENGE = b'Bearer realm="service", Basic realm="service", charset="UTF-8"'
WRONG_KEY = b'Bearer realm="service", error="invalid_token"'

ASK = (
    "Say who asks: a key as `Authorization: Bearer <key>` or `X-Service-Api-Key: <key>`, or a name and a password as "
    "`Authorization: Basic`."
)


class Authenticator:
    """Recognises keys at once, and passwords off the loop."""

    def __init__(
        self, accounts: Accounts, signing_in: SigningIn, *, service_key: str, anybody: Principal | None
    ) -> None:
        """An empty `service_key` is one that nobody holds. `anybody` is who asks without credentials, or None."""
        self._accounts = accounts
        self._signing_in = signing_in
        self._service_key = service_key.encode()
        self._anybody = anybody

    async def principal(self, shown: Shown, *, address: Callable[[], str]) -> Principal:
        """Who this is. Raises `Unauthenticated`, `Throttled`.

        `address` says where the request comes from; it is asked for passwords alone, since keys need no such counting.
        A request may show several credentials; each must be right and mean the same, so that no proxy and no client in
        the chain believes in another one than we do.
        """
        if len(shown.keys) == 1 and not shown.passwords:
            return self._holder(shown.keys[0])
        # Keys come first: a wrong one ends it before a password is compared.
        found = [self._holder(key) for key in shown.keys]
        found += [await self._person(one, address=address()) for one in shown.passwords]
        if found:
            if any(one != found[0] for one in found):
                raise errors.Unauthenticated("The credentials mean different callers; send one.", challenge=CHALLENGE)
            return found[0]
        if self._anybody is None:
            raise errors.Unauthenticated(ASK, challenge=CHALLENGE)
        return self._anybody

    def _holder(self, key: str) -> Principal:
        # In constant time, whatever the directory says; who has the key learns nothing from a quick answer.
        is_service_key = hmac.compare_digest(key.encode("utf-8", "surrogatepass"), self._service_key)
        if is_service_key and self._service_key:
            return SERVICE_KEY
        holder = self._accounts.holder(key)
        if holder is None:
            raise errors.Unauthenticated("The key is not known.", challenge=WRONG_KEY)
        return holder

    async def _person(self, one: Password, *, address: str) -> Principal:
        found = await self._signing_in.principal(one.name, one.password, address=address)
        if found is None:
            raise errors.Unauthenticated("The name or the password is wrong.", challenge=CHALLENGE)
        return found
