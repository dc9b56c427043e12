"""The OpenID Connect provider: the authorization code flow with PKCE (OpenID Connect Core 1.0, 3.1; RFC 7636).

Belongs here: the order of a sign-in, and what is kept of the provider (its discovery document and keys, for a while).
Does not: what an ID token must say (`tokens`), bounded requests (`fetching`), who is let in (`reconciler.access`).

The libraries are imported when there is a provider, not when this module is named: most services have none.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from reconciler.model.directory import ProvedIdentity
from reconciler.model.errors import ReconcilerError
from reconciler.oidc import callbacks, discovery, leaving
from reconciler.oidc.configuration import ProviderConfiguration
from reconciler.oidc.discovery import ProviderDocument
from reconciler.oidc.faults import Declined, NotProved, ProviderUnfit, ProviderUnreachable
from reconciler.oidc.flows import LIFETIME_SECONDS, Flow
from reconciler.oidc.keeping import CachedFetch
from reconciler.oidc.limits import LIMITS, ProviderLimits
from reconciler.oidc.spent import ReplayGuard

if TYPE_CHECKING:
    from reconciler.oidc.fetching import ProviderAnswer
    from reconciler.oidc.oauth import Tokens
    from reconciler.oidc.signatures import SigningKey

__all__ = ["Declined", "NotProved", "Provider", "ProviderConfiguration", "ProviderUnfit", "ProviderUnreachable"]


class Provider:
    """One provider, for the life of the service."""

    def __init__(
        self,
        configuration: ProviderConfiguration,
        *,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
        limits: ProviderLimits = LIMITS,
    ) -> None:
        from reconciler.oidc import fetching, oauth, signatures, tokens  # noqa: PLC0415 - a fifth of a second, 17 MB

        self._oauth, self._signatures, self._tokens, self._asked = oauth, signatures, tokens, fetching.ProviderAnswer
        self._configuration = configuration
        self._clock = clock
        self._limits = limits
        self._fetching = fetching.ProviderClient(
            proxy=configuration.proxy, ca_file=configuration.ca_file, limits=limits
        )
        self._document = CachedFetch(self._fetch_document, name="oidc discovery", limits=limits, monotonic=monotonic)
        self._keys = CachedFetch(self._fetch_keys, name="oidc keys", limits=limits, monotonic=monotonic)
        self._spent = ReplayGuard(lifetime=LIFETIME_SECONDS, monotonic=monotonic)

    async def check(self) -> None:
        """Whether it can be used at this moment. Raises Unreachable, Unfit."""
        await self._document.get()
        await self._keys.get()

    async def authorization(self, flow: Flow) -> str:
        """Where the browser goes to sign in. Raises Unreachable, Unfit."""
        return await self._oauth.authorization_url(self._configuration, await self._document.get(), flow)

    async def proved(self, callback: Mapping[str, list[str]], flow: Flow) -> ProvedIdentity:
        """Who came back. `callback` has every parameter of the redirect's query.

        A state opens one callback only. Raises NotProved, Declined, Unreachable, Unfit.
        """
        if not callbacks.is_callback_of(callback, flow):
            raise NotProved(f"This browser did not begin this sign-in; {callbacks.AGAIN}.")
        if not self._spent.take(flow.state):
            raise NotProved(f"This sign-in came to its end before; {callbacks.AGAIN}.")
        document = await self._document.get()
        code = callbacks.callback_code(callback, document)
        tokens = await self._oauth.exchange_code(
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
        return leaving.sign_out_url(
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

    async def _judged(self, tokens: "Tokens", document: ProviderDocument, flow: Flow) -> ProvedIdentity:
        """Whom the ID token proves, with the keys of now when those that are kept did not sign it."""
        alg, kid = self._tokens.token_header(tokens.id_token, allowed=document.algorithms)
        among = await self._keys.get()
        payload = self._signatures.signed_payload(tokens.id_token, alg=alg, kid=kid, among=among)
        if payload is None:
            among = await self._keys.newer(among)
            payload = self._signatures.signed_payload(tokens.id_token, alg=alg, kid=kid, among=among)
        if payload is None:
            raise self._tokens.not_signed()
        return self._tokens.proved_identity(
            payload,
            tokens,
            alg=alg,
            configuration=self._configuration,
            nonce=flow.nonce,
            now=self._clock().timestamp(),
        )

    async def _fetch_document(self) -> ProviderDocument:
        issuer = self._configuration.issuer
        told = await self._fetching.obj(self._ask("The discovery document", discovery.discovery_url(issuer)))
        return discovery.provider_document(told, issuer=issuer)

    async def _fetch_keys(self) -> "tuple[SigningKey, ...]":
        document = await self._document.get()
        return self._signatures.signing_keys(await self._fetching.obj(self._ask("The key set", document.jwks_uri)))

    def _ask(self, what: str, url: str) -> "ProviderAnswer":
        return self._asked(what=what, url=url, most_bytes=self._limits.document_bytes)
