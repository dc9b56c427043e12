"""The OpenID Connect provider: the authorization code flow with PKCE (OpenID Connect Core 1.0, 3.1; RFC 7636).

Belongs here: the order of a sign-in, and what is kept of the provider (its discovery document and keys, for a while).
Does not: what an ID token must say (`tokens`), bounded requests (`fetching`), who is let in (`reconciler.access`).

The libraries are imported when there is a provider, not when this module is named: most services have none.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from reconciler.access.identities import Proved
from reconciler.errors import ReconcilerError
from reconciler.oidc import callbacks, discovery, leaving
from reconciler.oidc.configuration import Configuration
from reconciler.oidc.discovery import Document
from reconciler.oidc.faults import Declined, NotProved, Unfit, Unreachable
from reconciler.oidc.flows import LIFETIME_SECONDS, Flow
from reconciler.oidc.keeping import Kept
from reconciler.oidc.limits import LIMITS, Limits
from reconciler.oidc.spent import Spent

if TYPE_CHECKING:
    from reconciler.oidc.fetching import Asked
    from reconciler.oidc.oauth import Tokens
    from reconciler.oidc.signatures import Key

__all__ = ["Configuration", "Declined", "NotProved", "Provider", "Unfit", "Unreachable"]


class Provider:
    """One provider, for the life of the service."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
        limits: Limits = LIMITS,
    ) -> None:
        from reconciler.oidc import fetching, oauth, signatures, tokens  # noqa: PLC0415 - a fifth of a second, 17 MB

        self._oauth, self._signatures, self._tokens, self._asked = oauth, signatures, tokens, fetching.Asked
        self._configuration = configuration
        self._clock = clock
        self._limits = limits
        self._fetching = fetching.Fetching(proxy=configuration.proxy, ca_file=configuration.ca_file, limits=limits)
        self._document = Kept(self._fetch_document, name="oidc discovery", limits=limits, monotonic=monotonic)
        self._keys = Kept(self._fetch_keys, name="oidc keys", limits=limits, monotonic=monotonic)
        self._spent = Spent(lifetime=LIFETIME_SECONDS, monotonic=monotonic)

    async def check(self) -> None:
        """Whether it can be used at this moment. Raises Unreachable, Unfit."""
        await self._document.get()
        await self._keys.get()

    async def authorization(self, flow: Flow) -> str:
        """Where the browser goes to sign in. Raises Unreachable, Unfit."""
        return await self._oauth.authorization_url(self._configuration, await self._document.get(), flow)

    async def proved(self, callback: Mapping[str, list[str]], flow: Flow) -> Proved:
        """Who came back. `callback` has every parameter of the redirect's query.

        A state opens one callback only. Raises NotProved, Declined, Unreachable, Unfit.
        """
        if not callbacks.is_of(callback, flow):
            raise NotProved(f"This browser did not begin this sign-in; {callbacks.AGAIN}.")
        if not self._spent.take(flow.state):
            raise NotProved(f"This sign-in came to its end before; {callbacks.AGAIN}.")
        document = await self._document.get()
        code = callbacks.code(callback, document)
        tokens = await self._oauth.exchanged(
            self._configuration,
            document,
            self._fetching,
            code=code,
            verifier=flow.verifier,
            most_bytes=self._limits.token_bytes,
        )
        return await self._judged(tokens, document, flow)

    async def end_session(self, *, id_token: str) -> str | None:
        """Where the browser goes to sign out there as well (OpenID Connect RP-Initiated Logout 1.0); None when the
        provider offers none or cannot be asked at this moment.
        """
        try:
            document = self._document.at_hand or await self._document.get()
        except ReconcilerError:
            return None
        if document.end_session_endpoint is None:
            return None
        return leaving.url(
            document.end_session_endpoint,
            id_token=id_token,
            client_id=self._configuration.client_id,
            back=self._configuration.signed_out_uri,
        )

    async def close(self) -> None:
        """Ask it nothing more."""
        self._fetching.close()
        await self._document.close()
        await self._keys.close()

    async def _judged(self, tokens: "Tokens", document: Document, flow: Flow) -> Proved:
        """Whom the ID token proves, with the keys of now when those that are kept did not sign it."""
        alg, kid = self._tokens.header(tokens.id_token, allowed=document.algorithms)
        among = await self._keys.get()
        payload = self._signatures.payload(tokens.id_token, alg=alg, kid=kid, among=among)
        if payload is None:
            among = await self._keys.newer(among)
            payload = self._signatures.payload(tokens.id_token, alg=alg, kid=kid, among=among)
        if payload is None:
            raise self._tokens.unsigned()
        return self._tokens.proved(
            payload,
            tokens,
            alg=alg,
            configuration=self._configuration,
            nonce=flow.nonce,
            now=self._clock().timestamp(),
        )

    async def _fetch_document(self) -> Document:
        issuer = self._configuration.issuer
        told = await self._fetching.obj(self._ask("The discovery document", discovery.url_of(issuer)))
        return discovery.document(told, issuer=issuer)

    async def _fetch_keys(self) -> "tuple[Key, ...]":
        document = await self._document.get()
        return self._signatures.keys(await self._fetching.obj(self._ask("The key set", document.jwks_uri)))

    def _ask(self, what: str, url: str) -> "Asked":
        return self._asked(what=what, url=url, most_bytes=self._limits.document_bytes)
