"""Checks of a component against its type: parameters, secrets and references.

A value is judged by its type first. An accepted but empty value counts as missing: the default takes its place, if
there is one. Every violation of a reference to a secret has the same text, so that nobody learns from it which
variables and files exist.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from reconciler.model import (
    component_types,
    components,
    secret_references,
    text,
    type_definitions,
    validators,
    violations,
    webhooks,
)
from reconciler.model.component_types import ComponentType, Definition
from reconciler.model.components import STORAGE_TYPE, WEBHOOK, Component, ParameterMention
from reconciler.model.names import Key
from reconciler.model.secret_references import UNKNOWN_SECRETS, AvailableSecrets, SecretReference, SecretSource
from reconciler.model.text import listed
from reconciler.model.values import Pointer, Value
from reconciler.model.violations import Violation


def broken_parameters(given: list[Value], component_type: ComponentType, *, at: Pointer) -> tuple[Violation, ...]:
    """Return every rule of the type that a list of parameters breaks, in document order.

    `given` has the shape that the schemas ask for, `[{name, value}, ...]`; `at` is its pointer in the document.
    """
    values = canonical_parameters(given, component_type)
    rules = component_type.rules
    found = () if rules.validator.is_valid(values) else type_definitions.explain_violations(rules, values)
    twice = tuple(components.repeated_parameters(given, at=at)) if len(values) < len(given) else ()
    if not found and not twice:
        return ()
    index: dict[Value, int] = {}
    for position, parameter in enumerate(given):
        index.setdefault(components.parameter_name(parameter), position)
    placed = [_placed(violation, index, component_type) for violation in found]
    ordered = violations.in_document_order(placed, given)
    return (*(_below(at, violation) for violation in ordered), *twice)


def canonical_parameters(given: list[Value], component_type: ComponentType) -> dict[str, Value]:
    """Return the values by name in canonical form, without empty ones; of several with one name, the first."""
    values: dict[str, Value] = {}
    types = component_type.types
    for parameter in given:
        if not isinstance(parameter, dict):
            continue
        name = parameter.get("name")
        if not isinstance(name, str) or name in values:
            continue
        value, type_ = parameter.get("value"), types.get(name)
        if type_ is None:
            values[name] = value
        elif value not in type_.empty:
            values[name] = value if type_.canonical is None else type_.canonical(value)
    return values


def settled_parameters(given: list[Value], component_type: ComponentType) -> dict[str, Value]:
    """Return the value of each parameter: the given values over the defaults."""
    return {**component_type.defaults, **canonical_parameters(given, component_type)}


def _placed(violation: Violation, index: dict[Value, int], component_type: ComponentType) -> Violation:
    """Convert a violation with a parameter's name into one with its place in the list of parameters."""
    name, *below = violation.pointer
    position = index.get(name)
    if violation.at_key and not below:
        return replace(_parameter((position or 0, "name"), _unknown(component_type)), of_unknown=True)
    if position is None:
        return _parameter((), f"`{name}` is required and has no default")
    if not below and violation.message == validators.MISSING:
        return _parameter((position, "value"), f"is empty; `{name}` is required and has no default")
    return _parameter((position, "value", *below), violation.message)


def _unknown(component_type: ComponentType) -> str:
    names = list(component_type.definitions)
    known = f"its parameters are {listed(names)}" if names else "it has none"
    return f"is not a parameter of the type `{component_type.name}`; {known}"


def _parameter(pointer: Pointer, message: str) -> Violation:
    return Violation(pointer, message, of_parameter=True)


def _below(at: Pointer, violation: Violation) -> Violation:
    return replace(violation, pointer=(*at, *violation.pointer))


SECRET_FILE_PARAMETERS = frozenset({"ca_file", "cert_file", "key_file"})


def named_secret_files(value: str) -> SecretReference | None:
    """Return the file that a value names: by a plain name, or one whole `${file:NAME}`; None for anything else."""
    if secret_references.is_file_name(value):
        return SecretReference(SecretSource.FILE, value)
    reference = secret_references.whole_secret_reference(value)
    return reference if reference is not None and reference.source is SecretSource.FILE else None


def given_secret_files(component: Component, webhook: ComponentType | None) -> Iterator[tuple[Pointer, str]]:
    """Yield each value of a webhook that names a file, with its pointer, if it is not empty and its parameter is
    relevant.
    """
    if component.type_key != WEBHOOK or webhook is None:
        return
    places: dict[str, int] = {}
    for index, parameter in enumerate(component.parameters):
        if (name := components.parameter_name(parameter) or "") in SECRET_FILE_PARAMETERS:
            places.setdefault(name, index)  # of several with one name, the first
    values = settled_parameters(component.parameters, webhook) if places else {}
    for name, index in places.items():
        value = values.get(name)
        if isinstance(value, str) and value and _matters(webhook.definitions[name], values, webhook):
            yield (*component.at, index, "value"), value


def _matters(definition: Definition, values: dict[str, Value], webhook: ComponentType) -> bool:
    """Return True if a parameter's conditions are met. The conditions of these parameters are all `equals`."""
    return all(
        component_types.same_value(
            values.get(one.name), component_types.canonical_value(webhook.definitions.get(one.name), one.value)
        )
        for one in definition.relevant_if
    )


BROKEN_REFERENCE = (
    "leads to no secret that may be used here; references are resolved only in sensitive parameters, and only to "
    "variables and files that this project may use (docs/secrets.md has the causes)"
)
OF_THE_SERVICE = (
    "names a variable that `secrets.env` keeps for the service; a collector resolves `${env:NAME}` here, so give its "
    "variable another name"
)
EXECUTED = frozenset({WEBHOOK, Key("ExtensionType", STORAGE_TYPE)})
"""The types that the service executes itself: it resolves the references in their parameters. In those of other types
`${env:NAME}` is for collectors.
"""

_Types: TypeAlias = Mapping[Pointer, ComponentType | None]


def broken_secret_references(
    mentions: Iterable[ParameterMention],
    found: Iterable[Component],
    types: _Types,
    available: AvailableSecrets,
) -> Iterator[Violation]:
    """Return the violations of the references in a document, each `of_parameter`, with pointers from the document's
    root.

    `found` are its components, `types` theirs (`components.types`). If `available` are not known, only
    the grammar, the place and the variables of the service are judged.
    """
    by_list = {component.at[1:]: component for component in found}
    for mention in mentions:
        component = by_list.get(mention.parameter[:-1])
        is_executed = component is not None and component.type_key in EXECUTED
        if not _is_good(mention, component if is_executed else None, types, available):
            yield Violation(("spec", *mention.pointer), BROKEN_REFERENCE, of_parameter=True)
        elif not is_executed and available.covers(mention.text):
            yield Violation(("spec", *mention.pointer), OF_THE_SERVICE, of_parameter=True, recent=True)
    for at, component in by_list.items():
        for pointer, value in given_secret_files(component, types[at]):
            if not _leads(named_secret_files(value), available):
                yield Violation(pointer, BROKEN_REFERENCE, of_parameter=True)


def _is_good(mention: ParameterMention, executed: Component | None, types: _Types, available: AvailableSecrets) -> bool:
    """Return True if a reference is valid. `executed` is its component, if the service executes the type."""
    if executed is not None:
        if executed.type_key == WEBHOOK and mention.name in SECRET_FILE_PARAMETERS:
            return True  # judged as a file name
        found = secret_references.find_secret_references(mention.text)
        # Other parameters, such as an address, appear in the service's log and messages.
        is_secret = _is_by_definition(mention, types.get(mention.parameter[:-1]))
        return all(_leads(one, available) for one in found) if is_secret else not found
    text = secret_references.without_variables(mention.text)
    if mention.sensitive:
        return all(_leads(one, available) for one in secret_references.find_secret_references(text))
    # In a longer text, it may be a reference for Collectors.
    return secret_references.whole_secret_reference(text) is None


def _is_by_definition(mention: ParameterMention, component_type: ComponentType | None) -> bool:
    """Return True if the type, and not only the document, calls the parameter sensitive."""
    definition = None if component_type is None else component_type.definitions.get(mention.name or "")
    return definition is not None and definition.sensitive


def _leads(reference: SecretReference | None, available: AvailableSecrets) -> bool:
    """Return True if a reference may be valid, as far as this is known. None, a malformed one, never is."""
    if reference is None or secret_references.is_reserved(reference):
        return False
    return available.has(reference)


Lookup = Callable[[Key], ComponentType | None]

TypeOf = Callable[[Key], str | None]
"""Returns the name of an Extension's type, without a version; None if it has none, or it is unknown."""


@dataclass(frozen=True, slots=True)
class Fit:
    """`violations` are all `of_parameter`; `secrets` are (pointer, value) from the document's root, in order. `notes`
    are about values that are accepted nevertheless.
    """

    violations: tuple[Violation, ...] = ()
    secrets: tuple[tuple[Pointer, Value], ...] = field(default=(), repr=False)
    notes: tuple[Violation, ...] = ()


FITTING = Fit()
"""The result for a document without violations and secrets."""


def fit(
    owned: dict[str, Value],
    lookup: Lookup,
    *,
    available: AvailableSecrets = UNKNOWN_SECRETS,
    refuse_unknown: bool = False,
) -> Fit:
    """Judge every component of a valid document. If a type is unknown, there are no violations, and every value is a
    secret.

    `available` are the secrets that its project may refer to. They may be unknown if only the secrets of the document
    matter. `refuse_unknown`: a parameter that a type does not know is a violation, even if a collector executes the
    type.
    """
    spec, kind = owned["spec"], owned["kind"]
    found = components.find_components(kind, spec) if isinstance(kind, str) else ()
    types = components.component_types_of(found, lookup)
    broken: list[Violation] = []
    notes: list[Violation] = []
    for component in found:
        component_type = types[component.at[1:]]
        # Only as many as a person reads: thousands of components may each lack a thousand parameters.
        if component_type is None or max(len(broken), len(notes)) > text.MOST_LINES:
            continue
        wrong, tolerated = judged(component, component_type, refuse_unknown=refuse_unknown)
        broken += wrong
        notes += tolerated
        if not wrong and component.type_key == components.WEBHOOK:
            settled = partial(settled_parameters, component.parameters, component_type)
            notes += webhooks.noted(component.parameters, settled, at=component.at)
    held = components.find_parameters(spec, types)
    broken += broken_secret_references(held.mentions, found, types, available)
    secrets = tuple((("spec", *pointer), value) for pointer, value in held.secrets)
    return Fit(tuple(broken), secrets, tuple(notes)) if broken or secrets or notes else FITTING


def judged(
    component: Component, component_type: ComponentType, *, refuse_unknown: bool
) -> tuple[list[Violation], list[Violation]]:
    """Return the violations of the values of one component, and the warnings."""
    broken = misfitting(component, component_type)
    if refuse_unknown or component.type_key in EXECUTED:
        return [*broken], []
    tolerated = [
        replace(one, message=f"{one.message}; it is kept all the same, and masked") for one in broken if one.of_unknown
    ]
    return [one for one in broken if not one.of_unknown], tolerated


def misfitting(component: Component, component_type: ComponentType) -> tuple[Violation, ...]:
    """Return every rule that the values of one component break: those of its type, and for a webhook those of HTTP
    requests.
    """
    found = broken_parameters(component.parameters, component_type, at=component.at)
    if component.type_key != components.WEBHOOK:
        return found
    return (*found, *webhooks.broken_rules(component.parameters, at=component.at))


def with_storages(fit: Fit, owned: dict[str, Value], type_of: TypeOf) -> Fit:
    """Return the result with the violations about Extensions in which webhooks keep their queues."""
    found = misplaced(owned, type_of)
    return replace(fit, violations=(*fit.violations, *found)) if found else fit


def misplaced(document: Value, type_of: TypeOf) -> tuple[Violation, ...]:
    """Yield each extension of another type that a webhook names for its queue; a missing one is reported elsewhere. A
    webhook that names none uses the built-in one, which has the right type.
    """
    message = f"names an Extension of another type; name one of the type `{components.STORAGE_TYPE}`"
    return tuple(
        Violation(one.pointer, message, of_parameter=True)
        for one in components.storages(document)
        if type_of(one.key) not in (None, components.STORAGE_TYPE)
    )


@dataclass(frozen=True, slots=True)
class BlindTypes:
    """The types that judge documents: those of a dry run do not try their rules on stored secrets. `lookup` finds the
    types in force afterwards, of which the `tried` ones are not in force yet. `kept` are the places where `(sensitive)`
    stood for a stored secret.
    """

    lookup: Lookup
    kept: Mapping[Key, frozenset[Pointer]] = field(default_factory=dict)
    tried: frozenset[Key] = frozenset()

    def of_coming(self, key: Key | None, read: Callable[[], dict[str, Value]]) -> Lookup:
        """Return the types that judge a document that comes."""
        places = None if key is None else self.kept.get(key)
        return self.lookup if places is None else self.of(read(), places)

    def of(self, document: dict[str, Value], places: Iterable[Pointer]) -> Lookup:
        """Return the types that judge a document with stored secrets at these places."""
        holding = {place[: place.index("value")] for place in places if "value" in place}
        kind = document["kind"]
        if not self.tried or not holding or not isinstance(kind, str):
            return self.lookup
        names: dict[Key, set[str]] = defaultdict(set)  # of the parameters that hold them, by the types that are tried
        for component in components.find_components(kind, document["spec"]):
            for index, parameter in enumerate(component.parameters):
                if component.type_key in self.tried and (*component.at, index) in holding:
                    names[component.type_key].add(str(components.parameter_name(parameter)))
        return _without(self.lookup, names) if names else self.lookup


def _without(lookup: Lookup, names: Mapping[Key, Collection[str]]) -> Lookup:
    def found(key: Key) -> ComponentType | None:
        component_type = lookup(key)
        if component_type is None or key not in names:
            return component_type
        definitions = [_blind(one, names[key]) for one in component_type.definitions.values()]
        # The secrets stay the same.
        return replace(component_types.compiled(key.name, definitions), open=component_type.open)

    return found


def _blind(definition: Definition, names: Collection[str]) -> Definition:
    """Return a definition without the conditions on one of these parameters."""
    if definition.name in names:
        return Definition(definition.index, definition.name, type="", sensitive=definition.sensitive)
    if any(condition.name in names for condition in definition.relevant_if):
        return replace(definition, required=False, relevant_if=())
    return definition
