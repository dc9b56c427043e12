"""How a resource fits the types of its components: which parameters break a rule, and which values are secrets.

Belongs here: one document against types, and the types of extensions, that somebody looks up. Does not: where these
come from, nor whether what a document refers to exists.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial

from reconciler.documents.values import Pointer, Value
from reconciler.resources import (
    components,
    conforming,
    drafts,
    parameters,
    references,
    secret_files,
    secret_rules,
    violations,
    webhooks,
)
from reconciler.resources.component_types import ComponentType
from reconciler.resources.components import Component
from reconciler.resources.drafts import Draft
from reconciler.resources.keys import Key
from reconciler.resources.secret_references import Available
from reconciler.resources.violations import Violation

Lookup = Callable[[Key], ComponentType | None]

TypeOf = Callable[[Key], str | None]
"""The name of the type that an Extension has, without a version; None when there is none, or nobody can say."""


@dataclass(frozen=True, slots=True)
class Fit:
    """`violations` are all `of_parameter`; `secrets` are (pointer, value) from the document's root, in order. `notes`
    are about values that are taken all the same.
    """

    violations: tuple[Violation, ...] = ()
    secrets: tuple[tuple[Pointer, Value], ...] = field(default=(), repr=False)
    notes: tuple[Violation, ...] = ()


FITTING = Fit()
"""Nothing is wrong, and nothing is a secret."""


def fit(
    owned: dict[str, Value], lookup: Lookup, *, available: Available | None = None, refuse_unknown: bool = False
) -> Fit:
    """Judge every component of a valid document. Of an unknown type, nothing is wrong and everything is a secret.

    `available` are the secrets that its project may refer to; None when nobody can say, or asks for secrets alone.
    `refuse_unknown`: a parameter that a type does not know is a violation, whoever executes the type.
    """
    spec, kind = owned["spec"], owned["kind"]
    found = components.find(kind, spec) if isinstance(kind, str) else ()
    types = components.types(found, lookup)
    broken, notes = _judged(
        [(component, types[component.at[1:]]) for component in found], refuse_unknown=refuse_unknown
    )
    held = parameters.find(spec, types)
    broken += secret_rules.broken(held.mentions, found, types, available)
    return Fit(tuple(broken), tuple((("spec", *pointer), value) for pointer, value in held.secrets), notes)


def of_draft(draft: Draft, lookup: Lookup, *, available: Available | None = None, refuse_unknown: bool = False) -> Fit:
    """The same for a draft. Most hold no secret and nothing that may be one: then their values need no search."""
    owned = drafts.owned(draft)
    spec, kind = owned["spec"], owned["kind"]
    found = components.find(kind, spec) if isinstance(kind, str) else ()
    types = [lookup(component.type_key) for component in found]
    if parameters.may_tell(draft.owned) or not all(map(_is_open, found, types)):
        return fit(owned, lookup, available=available, refuse_unknown=refuse_unknown)
    broken, notes = _judged(zip(found, types, strict=True), refuse_unknown=refuse_unknown)
    return Fit(tuple(broken), notes=notes) if broken or notes else FITTING


def _judged(
    found: Iterable[tuple[Component, ComponentType | None]], *, refuse_unknown: bool
) -> tuple[list[Violation], tuple[Violation, ...]]:
    """What the values of components break, and what is noted of values that are taken all the same."""
    broken: list[Violation] = []
    notes: list[Violation] = []
    for component, component_type in found:
        # As far as somebody reads it: thousands of components may each lack a thousand parameters.
        if component_type is None or max(len(broken), len(notes)) > violations.MOST_LINES:
            continue
        wrong, tolerated = judged(component, component_type, refuse_unknown=refuse_unknown)
        broken += wrong
        notes += tolerated
        if not wrong and component.type_key == references.WEBHOOK:
            settled = partial(conforming.settled, component.parameters, component_type)
            notes += webhooks.noted(component.parameters, settled, at=component.at)
    return broken, tuple(notes)


def judged(
    component: Component, component_type: ComponentType, *, refuse_unknown: bool
) -> tuple[list[Violation], list[Violation]]:
    """What is wrong with the values of one component, and what is a warning alone."""
    broken = misfitting(component, component_type)
    if refuse_unknown or component.type_key in secret_rules.EXECUTED:
        return [*broken], []
    return [one for one in broken if not one.of_unknown], [_tolerated(one) for one in broken if one.of_unknown]


def _tolerated(violation: Violation) -> Violation:
    return replace(violation, message=f"{violation.message}; it is kept all the same, and masked")


def _is_open(component: Component, component_type: ComponentType | None) -> bool:
    """Whether its type calls none of its parameters a secret, and none names a file."""
    if component_type is None:
        return not component.parameters
    names = [one["name"] for one in component.parameters if isinstance(one, dict)]
    return component_type.open.issuperset(names) and secret_files.PARAMETERS.isdisjoint(names)


def misfitting(component: Component, component_type: ComponentType) -> tuple[Violation, ...]:
    """Every rule that the values of one component break: those of its type, and of a webhook those of requests."""
    found = conforming.broken(component.parameters, component_type, at=component.at)
    if component.type_key != references.WEBHOOK:
        return found
    return (*found, *webhooks.broken(component.parameters, at=component.at))


def with_storages(fit: Fit, owned: dict[str, Value], type_of: TypeOf) -> Fit:
    """The same, with what is wrong with the extensions in which webhooks keep their queues."""
    found = misplaced(owned, type_of)
    return replace(fit, violations=(*fit.violations, *found)) if found else fit


def misplaced(document: Value, type_of: TypeOf) -> tuple[Violation, ...]:
    """Each extension of another type in which a webhook would keep its queue; one that is missing is told elsewhere.

    A webhook that names none has the one that is built in, which is of the right type.
    """
    message = f"names an Extension of another type; name one of the type `{references.STORAGE_TYPE}`"
    return tuple(
        Violation(one.pointer, message, of_parameter=True)
        for one in references.storages(document)
        if type_of(one.key) not in (None, references.STORAGE_TYPE)
    )
