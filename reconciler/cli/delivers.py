"""What a Configuration's `status.delivery` says, for a person.

Belongs here: whether it delivers, why not, and whether anybody seems to want that it does. Does not: the answer itself,
which is the service's.
"""

from collections.abc import Mapping

from reconciler.cli.answers import at, text
from reconciler.documents.values import Value

Specs = Mapping[tuple[str, str], Value]
"""The specs of components that are resources, by kind and name, as far as they are known."""


def word(resource: Value) -> str:
    """`yes` or `no`, `stale` where an earlier version is in force; nothing for what says neither."""
    delivers = _delivers(resource)
    if at(resource, "status", "delivery", "stale") is not None:
        return "stale"
    return "" if delivers is None else "yes" if delivers else "no"


def why_not(resource: Value) -> str:
    """One sentence for a Configuration that does not deliver; nothing for any other resource."""
    return text(resource, "status", "delivery", "reason") if _delivers(resource) is False else ""


def stale(resource: Value) -> str:
    """One sentence for a Configuration that delivers by an earlier version; nothing for any other resource."""
    found = at(resource, "status", "delivery", "stale")
    if found is None:
        return ""
    return f"delivers by its version {at(found, 'version')} still: {text(found, 'reason')}"


def is_wanted(resource: Value, known: Specs) -> bool:
    """Whether a Configuration that does not deliver looks as if it were to: it has a source of type `otlp` or a
    destination of type `webhook`. Of what only the service knows the type, its reason decides. What is incomplete is
    told as that.
    """
    from reconciler.routing import compiling  # noqa: PLC0415 - only for Configurations

    if why_not(resource) in {compiling.INCOMPLETE, compiling.RAW, compiling.NEITHER}:
        return False
    spec = at(resource, "spec")
    return _has(spec, "Source", known) or _has(spec, "Destination", known)


def _has(spec: Value, kind: str, known: Specs) -> bool:
    from reconciler.routing import parts  # noqa: PLC0415 - likewise

    listed, wanted = ("sources", parts.OTLP) if kind == "Source" else ("destinations", parts.WEBHOOK)
    for component in parts.entries(at(spec, listed)):
        name = parts.name(component)
        if name is not None and (kind, name) not in known:
            return True
        if parts.part(component if name is None else known[kind, name]).type == wanted:
            return True
    return False


def _delivers(resource: Value) -> bool | None:
    found = at(resource, "status", "delivery", "delivers")
    return found if isinstance(found, bool) else None
