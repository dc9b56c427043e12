"""Which parameters of a webhook name files in the project's folder of secrets: certificates and keys.

Belongs here: these parameters, when they matter, and the name that a value gives. Does not: whether that file is there
(`secret_rules`), nor its contents.
"""

from collections.abc import Iterator

from reconciler.documents.values import Pointer, Value
from reconciler.resources import component_types, conforming, secret_references
from reconciler.resources.component_types import ComponentType
from reconciler.resources.components import Component
from reconciler.resources.definitions import Definition
from reconciler.resources.references import WEBHOOK
from reconciler.resources.secret_references import Reference, Source

PARAMETERS = frozenset({"ca_file", "cert_file", "key_file"})


def named(value: str) -> Reference | None:
    """The file that a value means: a plain name, or one whole `${file:NAME}`; None for anything else."""
    if secret_references.is_file_name(value):
        return Reference(Source.FILE, value)
    reference = secret_references.whole(value)
    return reference if reference is not None and reference.source is Source.FILE else None


def given(component: Component, webhook: ComponentType | None) -> Iterator[tuple[Pointer, str]]:
    """Each value that names a file, with its pointer: of a webhook, where it is not empty and its parameter matters."""
    if component.type_key != WEBHOOK or webhook is None:
        return
    places: dict[str, int] = {}
    for index, parameter in enumerate(component.parameters):
        if (name := _name(parameter)) in PARAMETERS:
            places.setdefault(name, index)  # of one name the first
    values = conforming.settled(component.parameters, webhook) if places else {}
    for name, index in places.items():
        value = values.get(name)
        if isinstance(value, str) and value and _matters(webhook.definitions[name], values, webhook):
            yield (*component.at, index, "value"), value


def _name(parameter: Value) -> str:
    name = parameter.get("name") if isinstance(parameter, dict) else None
    return name if isinstance(name, str) else ""


def _matters(definition: Definition, values: dict[str, Value], webhook: ComponentType) -> bool:
    """Whether its conditions hold; those of these parameters are all `equals`."""
    return all(
        component_types.same(
            values.get(one.name), component_types.canonical_value(webhook.definitions.get(one.name), one.value)
        )
        for one in definition.relevant_if
    )
