"""The OpenID Connect provider: the authorization code flow with PKCE."""

import asyncio
import hmac
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from reconciler.auth.oidc import discovery, flows
from reconciler.auth.oidc.discovery import (
    LIMITS,
    Declined,
    NotProved,
    ProviderAnswer,
    ProviderConfiguration,
    ProviderDocument,
    ProviderLimits,
    ProviderUnfit,
    ProviderUnreachable,
    quoted,
)
from reconciler.auth.oidc.flows import Flow
from reconciler.auth.rate_limits import OnceOnly
from reconciler.model.directory import ProvedIdentity
from reconciler.model.errors import ReconcilerError, Transient

if TYPE_CHECKING:
    from reconciler.auth.oidc.tokens import Keys, Tokens

log = logging.getLogger(__name__)

__all__ = ["Declined", "NotProved", "Provider", "ProviderConfiguration", "ProviderUnfit", "ProviderUnreachable"]

# The callback: the parameters that the browser brings back from the provider (RFC 6749, 4.1.2; RFC 9207).

LONGEST_CODE = 2048  # characters
LONGEST_ERROR = 64  # characters
_CODE: Final = re.compile(rf"[ -~]{{1,{LONGEST_CODE}}}", re.ASCII)  # RFC 6749, A.11
_ERROR: Final = re.compile(rf"[ !#-\[\]-~]{{1,{LONGEST_ERROR}}}", re.ASCII)  # RFC 6749, 4.1.2.1
MOST_LOGGED = 20  # scopes that one log line names
AGAIN = "begin again at the sign-in page"


def is_callback_of(callback: Mapping[str, list[str]], flow: Flow) -> bool:
    """Return True if the callback has the state of this sign-in once, so that this browser began it."""
    states = callback.get("state", [])
    return len(states) == 1 and hmac.compare_digest(
        states[0].encode("utf-8", "surrogatepass"), flow.state.encode("utf-8")
    )


def callback_code(callback: Mapping[str, list[str]], document: ProviderDocument) -> str:
    """Return the authorization code. Raises NotProved, and Declined for an error from the provider."""
    if any(len(values) != 1 for values in callback.values()):  # RFC 6749, 3.1
        raise NotProved(f"The provider's answer has a parameter twice; {AGAIN}.")
    told = {name: values[0] for name, values in callback.items()}
    issuer, error, code = told.get("iss", ""), told.get("error", ""), told.get("code", "")
    # Refuse an answer of another provider (RFC 9207, 2.4).
    if issuer and issuer != document.issuer:
        raise NotProved(f"The answer is another provider's, not {document.issuer}'s; {AGAIN}.")
    if not issuer and document.names_itself:
        raise NotProved(f"The answer does not say which provider it is from, as {document.issuer}'s do; {AGAIN}.")
    if error:
        # The description is text of the provider: it is logged, bounded and on one line, and never shown.
        known = error if _ERROR.fullmatch(error) else "an error that it does not name"
        description = f": {quoted(told['error_description'])}" if told.get("error_description") else ""
        sentence = f"The provider did not sign you in ({known}); try again, or ask whoever runs it."
        raise Declined(sentence, told=quoted(error) + description)
    if not _CODE.fullmatch(code):
        raise NotProved(f"The provider's answer holds no code; {AGAIN}.")
    return code


MOST_STATES = 20_000  # of used callbacks, about 4 MB


# A value that is fetched once for all concurrent callers, and cached for a while.
#
#     fresh (lifetime)     kept
#     older                fetched again; when nobody answers, what was kept serves on
#     failed just now      the same failure for everybody, for `pause` seconds and no longer
#     not good enough      `newer`: fetched at once, but no more often than once in `rotation` seconds

Value = TypeVar("Value")
LONG_AGO = -math.inf  # seconds on the monotonic clock


class CachedFetch(Generic[Value]):
    """A cached value of the running loop. `fetch` raises ReconcilerError, and has its own time limit."""

    def __init__(
        self, fetch: Callable[[], Awaitable[Value]], *, limits: ProviderLimits, monotonic: Callable[[], float]
    ) -> None:
        self._fetch = fetch
        self._limits = limits
        self._monotonic = monotonic
        self._lock = asyncio.Lock()  # one fetch at a time: callers that wait get its result
        self._value: Value | None = None
        self._fetched = LONG_AGO
        self._failure: ReconcilerError | None = None
        self._failed = LONG_AGO
        self._forced = LONG_AGO

    async def get(self) -> Value:
        """Return the value. If it cannot be fetched again, return the cached one. Raises the errors of `fetch`."""
        async with self._lock:
            if self._value is not None and self._monotonic() - self._fetched < self._limits.lifetime_seconds:
                return self._value
            try:
                return await self._fetch_and_keep()
            except Transient:
                if self._value is None:
                    raise
                return self._value

    async def newer(self, than: Value) -> Value:
        """Return a newer value than this one, which was not sufficient; the same one if it must not be fetched again
        yet.
        """
        async with self._lock:
            if self._value is not None and self._value is not than:
                return self._value
            if self._monotonic() - self._forced < self._limits.rotation_seconds:
                return than
            value = await self._fetch_and_keep()
            self._forced = self._monotonic()
            return value

    async def _fetch_and_keep(self) -> Value:
        """Fetch the value, unless that failed a moment ago: then raise the same error again, as a copy with a trace of
        its own.
        """
        if self._failure is not None and self._monotonic() - self._failed < self._limits.pause_seconds:
            raise type(self._failure)(self._failure.message)
        try:
            self._value = await self._fetch()
        except ReconcilerError as problem:
            self._failure, self._failed = problem, self._monotonic()
            raise
        self._fetched = self._monotonic()
        return self._value


# The OpenID Connect provider: the authorization code flow with PKCE (OpenID Connect Core 1.0, 3.1; RFC 7636).
#
# The libraries are imported when there is a provider, not with this module: most services have none.


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
        from reconciler.auth.oidc import fetching, tokens  # noqa: PLC0415 - a fifth of a second, 17 MB

        self._tokens = tokens
        self._configuration = configuration
        self._clock = clock
        self._limits = limits
        self._fetching = fetching.ProviderClient(
            proxy=configuration.proxy, ca_file=configuration.ca_file, limits=limits
        )
        self._document = CachedFetch(self._fetch_document, limits=limits, monotonic=monotonic)
        self._keys = CachedFetch(self._fetch_keys, limits=limits, monotonic=monotonic)
        self._spent = OnceOnly(MOST_STATES)

    async def check(self) -> None:
        """Raise ProviderUnreachable or ProviderUnfit if the provider cannot be used now."""
        await self._document.get()
        await self._keys.get()

    async def authorization(self, flow: Flow) -> str:
        """Return the URL at which the browser signs in. Raises ProviderUnreachable, ProviderUnfit."""
        return await self._tokens.authorization_url(self._configuration, await self._document.get(), flow)

    async def proved(self, callback: Mapping[str, list[str]], flow: Flow) -> ProvedIdentity:
        """Return the proved person. `callback` has all parameters of the redirect's query.

        A state is valid for one callback. Raises NotProved, Declined, ProviderUnreachable, ProviderUnfit.
        """
        if not is_callback_of(callback, flow):
            raise NotProved(f"This browser did not begin this sign-in; {AGAIN}.")
        if not self._spent.take(flow.state):
            raise NotProved(f"This sign-in came to its end before; {AGAIN}.")
        document = await self._document.get()
        code = callback_code(callback, document)
        tokens = await self._tokens.exchange_code(
            self._configuration,
            document,
            self._fetching,
            code=code,
            verifier=flow.verifier,
            most_bytes=self._limits.token_bytes,
        )
        return await self._judged(tokens, document, flow)

    async def end_session(self, *, id_token: str) -> str | None:
        """Return the URL to sign out there as well (OpenID Connect RP-Initiated Logout 1.0); None if the provider
        offers none, or cannot be reached now.
        """
        try:
            document = await self._document.get()
        except ReconcilerError:
            return None
        if document.end_session_endpoint is None:
            return None
        return flows.sign_out_url(
            document.end_session_endpoint,
            id_token=id_token,
            client_id=self._configuration.client_id,
            back=self._configuration.signed_out_uri,
        )

    async def close(self) -> None:
        """Refuse further requests. Requests in progress end with ProviderUnreachable."""
        self._fetching.close()

    async def _judged(self, tokens: "Tokens", document: ProviderDocument, flow: Flow) -> ProvedIdentity:
        """Return the person of an ID token. If no cached key signed it, fetch the keys again."""
        among = await self._keys.get()
        signed = self._tokens.signed_payload(tokens.id_token, allowed=document.algorithms, among=among)
        if signed is None:
            await self._newer_document(document)  # the URL of the keys may have changed
            among = await self._keys.newer(among)
            signed = self._tokens.signed_payload(tokens.id_token, allowed=document.algorithms, among=among)
        if signed is None:
            raise self._tokens.not_signed()
        now = self._clock().timestamp()
        return self._tokens.proved_identity(
            signed, tokens, configuration=self._configuration, nonce=flow.nonce, now=now
        )

    async def _fetch_document(self) -> ProviderDocument:
        issuer = self._configuration.issuer
        told = await self._fetching.obj(self._ask("The discovery document", discovery.discovery_url(issuer)))
        document = discovery.provider_document(told, issuer=issuer)
        requested = discovery.requested_scopes(self._configuration, document)
        left_out = [scope for scope in document.scopes if scope not in requested]
        if left_out:
            more = f" and {len(left_out) - MOST_LOGGED} more" if len(left_out) > MOST_LOGGED else ""
            log.info(
                "The provider %s offers scopes that this service does not ask for: %s%s; if claims are missing, add "
                "the scope that brings them to auth.oidc.scopes.",
                issuer,
                ", ".join(map(quoted, left_out[:MOST_LOGGED])),
                more,
            )
        return document

    async def _newer_document(self, document: ProviderDocument) -> ProviderDocument:
        """Return the present document. Return the same one if it cannot be read, or was read a moment ago."""
        try:
            return await self._document.newer(document)
        except ReconcilerError:
            return document

    async def _fetch_keys(self) -> "Keys":
        document = await self._document.get()
        try:
            return await self._keys_at(document.jwks_uri)
        except ReconcilerError:
            newer = await self._newer_document(document)
            if newer.jwks_uri == document.jwks_uri:
                raise
            return await self._keys_at(newer.jwks_uri)

    async def _keys_at(self, url: str) -> "Keys":
        return self._tokens.signing_keys(await self._fetching.obj(self._ask("The key set", url)))

    def _ask(self, what: str, url: str) -> ProviderAnswer:
        return ProviderAnswer(what=what, url=url, most_bytes=self._limits.document_bytes)
