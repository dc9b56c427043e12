"""Where references to secrets may stand in parameters, and whether they lead to something.

Belongs here: the violations. Does not: how a reference is written (`secret_references`), what it stands for
(`reconciler.secrets`).

Every violation says the same, so that nobody learns from it which variables and files there are.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from reconciler.documents.values import Pointer
from reconciler.resources import secret_files, secret_references
from reconciler.resources.component_types import ComponentType
from reconciler.resources.components import Component
from reconciler.resources.keys import Key
from reconciler.resources.parameters import Mention
from reconciler.resources.references import STORAGE_TYPE, WEBHOOK
from reconciler.resources.secret_references import Available, Reference
from reconciler.resources.violations import Violation

MESSAGE = (
    "leads to no secret that may be used here; references are resolved only in sensitive parameters, and only to "
    "variables and files that this project may use (docs/secrets.md has the causes)"
)
EXECUTED = frozenset({WEBHOOK, Key("ExtensionType", STORAGE_TYPE)})
"""The types that the service executes itself: nobody else resolves what stands in their parameters."""

_Types: TypeAlias = Mapping[Pointer, ComponentType | None]
_Components: TypeAlias = Mapping[Pointer, Component]  # by the pointers of their lists of parameters, from the spec down


def broken(
    mentions: Iterable[Mention],
    found: Iterable[Component],
    types: _Types,
    available: Available | None,
) -> Iterator[Violation]:
    """Every rule that references of a document break, each `of_parameter`, with pointers from the document's root.

    `found` are its components, `types` theirs (`components.types`). `available` None: nobody can say, so that only the
    grammar, the place and the service's own variables are judged.
    """
    by_list = {component.at[1:]: component for component in found}
    for mention in mentions:
        if not _is_good(mention, by_list, types, available):
            yield Violation(("spec", *mention.pointer), MESSAGE, of_parameter=True)
    for at, component in by_list.items():
        for pointer, value in secret_files.given(component, types[at]):
            if not _leads(secret_files.named(value), available):
                yield Violation(pointer, MESSAGE, of_parameter=True)


def _is_good(mention: Mention, by_list: _Components, types: _Types, available: Available | None) -> bool:
    if _names_a_file(mention, by_list):
        return True  # judged as such
    at = mention.parameter[:-1]
    component = by_list.get(at)
    if component is not None and component.type_key in EXECUTED and not _is_by_definition(mention, types.get(at)):
        # Whatever else the service executes, an address for instance, stands in its log and in its messages.
        return not secret_references.find(mention.text)
    if mention.sensitive:
        return all(_leads(one, available) for one in secret_references.find(mention.text))
    # In a longer text of another type it may be a collector's own, `${env:HOST}:4317`.
    return secret_references.whole(mention.text) is None


def _names_a_file(mention: Mention, by_list: _Components) -> bool:
    component = by_list.get(mention.parameter[:-1])
    is_webhook = component is not None and component.type_key == WEBHOOK
    return is_webhook and mention.name in secret_files.PARAMETERS


def _is_by_definition(mention: Mention, component_type: ComponentType | None) -> bool:
    """Whether the type calls the parameter sensitive, and not the document alone."""
    definition = None if component_type is None else component_type.definitions.get(mention.name or "")
    return definition is not None and definition.sensitive


def _leads(reference: Reference | None, available: Available | None) -> bool:
    """Whether it leads somewhere, as far as anybody can say. A malformed one is None."""
    if reference is None or secret_references.is_reserved(reference):
        return False
    return available is None or available.has(reference)
