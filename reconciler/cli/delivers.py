"""What a Configuration's `status.delivery` says, for a person.

Belongs here: whether it delivers, why not, and whether anybody seems to want that it does. Does not: the answer itself,
which is the service's.
"""

from collections.abc import Mapping

from reconciler.cli.answers import answer_at, answer_text
from reconciler.model.values import Value

Specs = Mapping[tuple[str, str], Value]
"""The specs of components that are resources, by kind and name, as far as they are known."""


def delivers_word(resource: Value) -> str:
    """`yes` or `no`, `stale` where an earlier version is in force; nothing for what says neither."""
    delivers = _delivers(resource)
    if answer_at(resource, "status", "delivery", "stale") is not None:
        return "stale"
    return "" if delivers is None else "yes" if delivers else "no"


def delivers_reason(resource: Value) -> str:
    """One sentence for a Configuration that does not deliver; nothing for any other resource."""
    return answer_text(resource, "status", "delivery", "reason") if _delivers(resource) is False else ""


def stale(resource: Value) -> str:
    """One sentence for a Configuration that delivers by an earlier version; nothing for any other resource."""
    found = answer_at(resource, "status", "delivery", "stale")
    if found is None:
        return ""
    return f"delivers by its version {answer_at(found, 'version')} still: {answer_text(found, 'reason')}"


def is_delivery_wanted(resource: Value, known: Specs) -> bool:
    """Whether a Configuration that does not deliver looks as if it were to: it has a source of type `otlp` or a
    destination of type `webhook`. Of what only the service knows the type, its reason decides. What is incomplete is
    told as that.
    """
    from reconciler.model import routes  # noqa: PLC0415 - only for Configurations

    if delivers_reason(resource) in {routes.INCOMPLETE, routes.RAW, routes.NEITHER}:
        return False
    spec = answer_at(resource, "spec")
    return _has(spec, "Source", known) or _has(spec, "Destination", known)


def _has(spec: Value, kind: str, known: Specs) -> bool:
    from reconciler.model import routes  # noqa: PLC0415 - likewise

    listed, wanted = ("sources", routes.OTLP) if kind == "Source" else ("destinations", routes.WEBHOOK)
    for component in routes.component_entries(answer_at(spec, listed)):
        name = routes.component_name(component)
        if name is not None and (kind, name) not in known:
            return True
        if routes.component_use(component if name is None else known[kind, name]).type == wanted:
            return True
    return False


def _delivers(resource: Value) -> bool | None:
    found = answer_at(resource, "status", "delivery", "delivers")
    return found if isinstance(found, bool) else None
