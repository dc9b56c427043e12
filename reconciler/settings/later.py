"""Settings that this version knows and cannot act on yet. To overlook one is harmless, so whoever sets one is warned.

A setting leaves this module in the change that makes it work.
"""

from collections.abc import Iterator

from reconciler.settings.mistakes import Mistake
from reconciler.settings.models import Auth, Settings

PROVIDER = "is accepted, but this version asks no provider: with `oidc`, keys alone are let in"


def without_effect(settings: Settings) -> Iterator[Mistake]:
    """The keys that someone has set to something else than their defaults."""
    if settings.auth.type == "oidc" or settings.auth.oidc != Auth.model_fields["oidc"].default:
        where = "type" if settings.auth.type == "oidc" else "oidc"
        yield Mistake(("auth", where), PROVIDER)
