"""Settings that this version knows and cannot act on yet: what each does to a start.

To overlook a section that nothing uses yet is harmless, so whoever sets one is warned. To follow a repository without
what is asked for it would be worse than not to start, so that is a mistake like any other. A setting leaves this module
in the change that makes it work.
"""

from collections.abc import Iterator

from reconciler.documents.values import Pointer, Value
from reconciler.settings import addresses, layers, mistakes
from reconciler.settings.layers import Layer
from reconciler.settings.mistakes import Mistake
from reconciler.settings.models import Auth, Delivery, Settings
from reconciler.settings.repositories import Credentials, Verify
from reconciler.settings.topics import key

IDLE = "is accepted, but this version does not act on it"
PROVIDER = "is accepted, but this version asks no provider: with `oidc`, keys alone are let in"
SECTIONS = ("outbound",)
DELIVERY = ("otlp_listen", "egress")  # `drainTimeout` bounds the stop of the service already

UNSUPPORTED = "is not supported by this version; leave it out"
REMOTE = "must be on this machine, a path or a file:// URL; this version does not follow remote repositories"


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


def refused(sources: tuple[Layer, ...]) -> Iterator[Mistake]:
    """What repositories ask for and cannot have; judged on plain values, so that it shows beside other mistakes."""
    found = layers.find(sources, ("repositories",))
    for index, repository in enumerate(found[1] if found and isinstance(found[1], list) else ()):
        if isinstance(repository, dict):
            for pointer, message in _refused(repository):
                yield Mistake(("repositories", index, *pointer), message)


def _refused(repository: dict[str, Value]) -> Iterator[tuple[Pointer, str]]:
    if _is_remote(repository.get("url")):
        yield ("url",), REMOTE
    for name, section in (("verify", Verify), ("credentials", Credentials)):
        inner = repository.get(name)
        known = mistakes.keys(section)
        for each, value in inner.items() if isinstance(inner, dict) else ():
            if each in known and isinstance(value, str) and value:  # an empty one is the default of each
                yield (name, each), UNSUPPORTED


def _is_remote(url: Value) -> bool:
    try:
        return isinstance(url, str) and not addresses.is_local(addresses.repository_url(url))
    except ValueError:
        return False  # a mistake of shape, shown as such
