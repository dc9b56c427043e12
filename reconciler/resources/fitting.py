"""How a resource fits the types of its components: which parameters break a rule, and which values are secrets.

Belongs here: one document against types that somebody looks up. Does not: where types come from, nor references.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from reconciler.documents.values import Pointer, Value
from reconciler.resources import components, conforming, parameters
from reconciler.resources.component_types import ComponentType
from reconciler.resources.keys import Key
from reconciler.resources.violations import Violation

Lookup = Callable[[Key], ComponentType | None]


@dataclass(frozen=True, slots=True)
class Fit:
    """`violations` are all `of_parameter`; `secrets` are (pointer, value) from the document's root, in order."""

    violations: tuple[Violation, ...] = ()
    secrets: tuple[tuple[Pointer, Value], ...] = field(default=(), repr=False)


def fit(owned: dict[str, Value], lookup: Lookup) -> Fit:
    """Judge every component of a valid document. Of an unknown type, nothing is wrong and everything is a secret."""
    spec, kind = owned["spec"], owned["kind"]
    found = components.find(kind, spec) if isinstance(kind, str) else ()
    types = components.types(found, lookup)
    broken: list[Violation] = []
    for component in found:
        component_type = types[component.at[1:]]
        if component_type is not None:
            broken += conforming.broken(component.parameters, component_type, at=component.at)
    secrets = parameters.find(spec, types).secrets
    return Fit(tuple(broken), tuple((("spec", *pointer), value) for pointer, value in secrets))
