"""Settings that this version knows and cannot act on yet. To overlook one is harmless, so whoever sets one is warned.

A setting leaves this module in the change that makes it work.
"""

from collections.abc import Iterator

from reconciler.settings.mistakes import Mistake
from reconciler.settings.models import Auth, Delivery, Settings
from reconciler.settings.topics import key

IDLE = "is accepted, but this version does not act on it"
PROVIDER = "is accepted, but this version asks no provider: with `oidc`, keys alone are let in"
SECTIONS = ("outbound",)
DELIVERY = ("otlp_listen", "egress")  # `drainTimeout` bounds the stop of the service already


def without_effect(settings: Settings) -> Iterator[Mistake]:
    """The sections and keys that someone has set to something else than their defaults."""
    for name in SECTIONS:
        if getattr(settings, name) != Settings.model_fields[name].default:
            yield Mistake((name,), IDLE)
    if settings.auth.type == "oidc" or settings.auth.oidc != Auth.model_fields["oidc"].default:
        where = "type" if settings.auth.type == "oidc" else "oidc"
        yield Mistake(("auth", where), PROVIDER)
    for name in DELIVERY:
        if getattr(settings.delivery, name) != Delivery.model_fields[name].default:
            yield Mistake(("delivery", key(name)), IDLE)
