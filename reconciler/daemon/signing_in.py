"""Sign-in through a provider, built from the settings; imported where `auth.type` is `oidc` alone.

Belongs here: which setting becomes which argument, and the look at the provider when the service is up. Does not: the
protocol (`oidc`), who is let in (`access.admitting`).
"""

import logging
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from reconciler.auth.accounts import Accounts
from reconciler.auth.admission import AdmissionPolicy
from reconciler.auth.claims import claim_names
from reconciler.auth.oidc.discovery import ProviderUnfit, ProviderUnreachable
from reconciler.auth.oidc.provider import Provider, ProviderConfiguration
from reconciler.auth.people import People
from reconciler.auth.sessions import Sessions
from reconciler.model import clock
from reconciler.model.clock import Clock
from reconciler.model.errors import Refused
from reconciler.settings.models import Settings

log = logging.getLogger(__name__)

CALLBACK = "/oidc/redirect"  # the interface, Authentication, OpenID Connect sign-in, 2
SIGNED_OUT = "/signed-out"


def build_people(settings: Settings, accounts: Accounts, sessions: Sessions, *, clock: Clock) -> People:
    """What lets people in."""
    oidc = settings.auth.oidc
    policy = AdmissionPolicy(
        names=claim_names(oidc.custom_claims),
        disable_invitations=oidc.disable_invitations,
        first_claim=oidc.first_admin.claim,
        first_value=oidc.first_admin.value,
    )
    return People(accounts, sessions, policy=policy, clock=clock)


def build_provider(settings: Settings, *, clock: Clock, monotonic: Callable[[], float]) -> Provider:
    """Who proves people."""
    oidc = settings.auth.oidc
    configuration = ProviderConfiguration(
        issuer=oidc.issuer,
        client_id=oidc.oauth2_client_id,
        client_secret=oidc.oauth2_client_secret.get_secret_value(),
        scopes=oidc.scopes,
        redirect_uri=f"{settings.web_url}{CALLBACK}",
        signed_out_uri=f"{settings.web_url}{SIGNED_OUT}",
        proxy=settings.outbound.proxy,
        ca_file=settings.outbound.ca_file,
    )
    return Provider(configuration, clock=clock, monotonic=monotonic)


async def look_at_provider(provider: Provider, settings: Settings) -> None:
    """Say where people sign in, and warn of a provider with which nobody can. It may be up a moment later, and keys
    work meanwhile.
    """
    web_url = settings.web_url
    log.info("People sign in at %s; the provider must know %s%s as redirect URI.", web_url, web_url, CALLBACK)
    if "web_url" not in settings.model_fields_set and settings.listen.port != urlsplit(web_url).port:
        log.warning(
            "webURL is not set, and %s is not where the service listens: set it to the address that people type, where "
            "the provider sends them back to.",
            web_url,
        )
    try:
        await provider.check()
    except (ProviderUnreachable, ProviderUnfit) as problem:
        log.warning("Nobody can sign in at this moment: %s", problem.message)
    else:
        log.info("The provider %s answers and can be used.", settings.auth.oidc.issuer)


async def check_provider(settings: Settings) -> None:
    """Ask the provider before others lose their access for it. Raises Refused when nobody could sign in."""
    asked = build_provider(settings, clock=clock.now, monotonic=time.monotonic)
    try:
        await asked.check()
    except (ProviderUnreachable, ProviderUnfit) as problem:
        reason = problem.message.removesuffix(".")
        raise Refused(f"Nothing was removed, since nobody could sign in afterwards: {reason}.") from None
    finally:
        await asked.close()
