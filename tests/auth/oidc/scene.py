"""A service that signs people in at the provider of `hostile`, with clocks that the test moves.

Belongs here: one sign-in, start to end, and what is between. Does not: what should come of it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

from reconciler.auth.oidc import flows
from reconciler.auth.oidc.discovery import ProviderConfiguration, ProviderLimits
from reconciler.auth.oidc.flows import Flow
from reconciler.auth.oidc.provider import Provider
from reconciler.model.directory import ProvedIdentity
from tests.auth.oidc import hostile
from tests.servers.certificates import Certificate

NOW = 1_800_000_000.0  # seconds since the epoch
SIGNED_OUT = "http://127.0.0.1:3001/signed-out"
AMPLE = ProviderLimits(request_seconds=30.0)  # for machines that do much else


def configuration(
    issuer: str, *, proxy: str = "", ca_file: Path | None = None, scopes: tuple[str, ...] = ()
) -> ProviderConfiguration:
    """Return the configuration as the settings would give it."""
    return ProviderConfiguration(
        issuer=issuer,
        client_id=hostile.CLIENT_ID,
        client_secret=hostile.CLIENT_SECRET,
        scopes=scopes or ("openid", "profile", "email"),
        wants_groups=not scopes,
        redirect_uri=hostile.REDIRECT_URI,
        signed_out_uri=SIGNED_OUT,
        proxy=proxy,
        ca_file=ca_file,
    )


class Scene:
    """A provider, a service and their time. `issuer` is where the service looks for the provider."""

    def __init__(
        self,
        *,
        path: str = "",
        certificate: Certificate | None = None,
        ca_file: Path | None = None,
        proxy: str = "",
        limits: ProviderLimits = AMPLE,
        scopes: tuple[str, ...] = (),
    ) -> None:
        self.now = NOW
        self.monotonic = 1000.0
        self._running = contextlib.ExitStack()
        self.provider = self._running.enter_context(
            hostile.providing(path=path, certificate=certificate, clock=lambda: self.now)
        )
        self.service = Provider(
            configuration(self.provider.issuer, proxy=proxy, ca_file=ca_file, scopes=scopes),
            clock=lambda: datetime.fromtimestamp(self.now, UTC),
            monotonic=lambda: self.monotonic,
            limits=limits,
        )

    @property
    def behaviour(self) -> hostile.Behaviour:
        """How the provider behaves."""
        return self.provider.behaviour

    def wait(self, seconds: float) -> None:
        """Let time pass, on both clocks."""
        self.now += seconds
        self.monotonic += seconds

    def flow(self) -> Flow:
        """A sign-in that begins, different from those before."""
        return flows.begin_flow(back="/account", invitation="", now=self.now)

    async def visit(self, flow: Flow) -> dict[str, list[str]]:
        """Go to the provider as a browser; what it brings back."""
        return await asyncio.to_thread(hostile.signed_in, await self.service.authorization(flow))

    async def sign_in(self) -> ProvedIdentity:
        """From the start to the end."""
        flow = self.flow()
        return await self.service.proved(await self.visit(flow), flow)

    async def close(self) -> None:
        """Stop both."""
        await self.service.close()
        self._running.close()


@contextlib.asynccontextmanager
async def scene(
    *,
    path: str = "",
    certificate: Certificate | None = None,
    ca_file: Path | None = None,
    proxy: str = "",
    limits: ProviderLimits = AMPLE,
    scopes: tuple[str, ...] = (),
) -> AsyncIterator[Scene]:
    """A scene for as long as the context lasts."""
    made = Scene(path=path, certificate=certificate, ca_file=ca_file, proxy=proxy, limits=limits, scopes=scopes)
    try:
        yield made
    finally:
        await made.close()
