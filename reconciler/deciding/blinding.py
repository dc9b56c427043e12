"""A dry run of a type must not try its rules on stored secrets: what then fits or does not would tell what they are.

Belongs here: a type that a dry run brings, without the rules that depend on the value of a stored secret. Does not:
secrets that come in clear (`guesses`), and types that are in force already: what does not fit those is told with the
resource.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from reconciler.model import component_types, components
from reconciler.model.component_types import ComponentType, Definition
from reconciler.model.names import Key
from reconciler.model.type_checks import Lookup
from reconciler.model.values import Pointer, Value


@dataclass(frozen=True, slots=True)
class BlindTypes:
    """`lookup` finds the types in force afterwards, of which the `tried` ones are not in force yet."""

    lookup: Lookup
    tried: frozenset[Key]

    def of(self, document: dict[str, Value], places: Iterable[Pointer]) -> Lookup:
        """The types by which a document is judged that holds stored secrets at these places."""
        names = self._names(document, frozenset(places))
        return _without(self.lookup, names) if names else self.lookup

    def _names(self, document: dict[str, Value], places: frozenset[Pointer]) -> dict[Key, set[str]]:
        """The parameters that hold them, by the types that are tried."""
        holding = {place[: place.index("value")] for place in places if "value" in place}
        names: dict[Key, set[str]] = defaultdict(set)
        kind = document["kind"]
        for component in (
            components.find_components(kind, document["spec"]) if isinstance(kind, str) and holding else ()
        ):
            for index, parameter in enumerate(component.parameters):
                if component.type_key in self.tried and (*component.at, index) in holding:
                    name = parameter.get("name") if isinstance(parameter, dict) else None
                    names[component.type_key].add(str(name))
        return names


def _without(lookup: Lookup, names: Mapping[Key, Collection[str]]) -> Lookup:
    def found(key: Key) -> ComponentType | None:
        component_type = lookup(key)
        if component_type is None or key not in names:
            return component_type
        definitions = [_blind(one, names[key]) for one in component_type.definitions.values()]
        # What is a secret does not change.
        return replace(component_types.compiled(key.name, definitions), open=component_type.open)

    return found


def _blind(definition: Definition, names: Collection[str]) -> Definition:
    """The definition without what asks for the value of one of these parameters."""
    if definition.name in names:
        return Definition(definition.index, definition.name, type="", sensitive=definition.sensitive)
    if any(condition.name in names for condition in definition.relevant_if):
        return replace(definition, required=False, relevant_if=())
    return definition
