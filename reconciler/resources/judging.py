"""Judging one document by itself: is it ours, is it valid, and what is every rule that it breaks?

Belongs here: rules that need no other resource; the schemas state most of them. Does not: references, parameters
against their type (`fitting`), duplicates among documents.
"""

from collections.abc import Iterable
from enum import Enum, auto

import msgspec
from msgspec import structs

from reconciler.documents.values import Value
from reconciler.resources import absent, components, defining, formats, kinds, names, parameters, validators, violations
from reconciler.resources.keys import Key
from reconciler.resources.kinds import Kind
from reconciler.resources.resource import Resource, of_document
from reconciler.resources.violations import Violation


class Classification(Enum):
    """What a document in a repository is to us."""

    RESOURCE = auto()  # judged
    NOT_A_RESOURCE = auto()  # skipped: neither apiVersion nor kind
    FOREIGN = auto()  # skipped: both, and neither is ours; a Kubernetes manifest, say


class Judged(msgspec.Struct, frozen=True, gc=False):
    """`key` is known when kind and name are, even of an invalid document; `resource` only of a valid one.

    A document that breaks recent rules alone has both, since it is valid where the same is stored.
    """

    key: Key | None
    resource: Resource | None
    violations: tuple[Violation, ...]


def classify(value: Value, *, api_versions: frozenset[str]) -> Classification:
    """Whether a document asks to be judged. One of the two keys, or one that is ours, is enough."""
    if not isinstance(value, dict) or ("apiVersion" not in value and "kind" not in value):
        return Classification.NOT_A_RESOURCE
    if "apiVersion" not in value or "kind" not in value:
        return Classification.RESOURCE
    version = value["apiVersion"]
    ours = (isinstance(version, str) and version in api_versions) or _kind(value) is not None
    return Classification.RESOURCE if ours else Classification.FOREIGN


def judge(value: Value, *, api_versions: frozenset[str], placeholders: bool = False) -> Judged:
    """Everything that is wrong with a document, in document order; or the resource that it is.

    `placeholders`: `(sensitive)` is not wrong but left to whoever knows the stored value that it stands for.
    """
    if not isinstance(value, dict):
        return Judged(None, None, (Violation((), "is not an object"),))
    kind = _kind(value)
    document = absent.removed(value, kind)
    shape = validators.violations(kind, document)
    key = _key(document, kind)
    resource = None if shape or key is None else of_document(document, key=key)
    lists, places = parameters.lists_and_masks(document["spec"], None if resource is None else resource.encoded)
    masks = [("spec", *pointer) for pointer in places]
    found = [*shape, *_identifiers(document, kind, api_versions)]
    for pointer, listed in lists:
        found += parameters.repeated(listed, at=("spec", *pointer))
    if masks and not placeholders:
        found += [Violation(pointer, MASK_MESSAGE) for pointer in masks]
    found += _text(document, kind)
    found += _definitions(document, kind, shape)
    if resource is None or not all(one.recent for one in found):
        return Judged(key, None, violations.in_document_order(found, value))
    if masks:
        resource = structs.replace(resource, placeholders=tuple(masks))
    return Judged(key, resource, violations.in_document_order(found, value) if found else ())


def _kind(document: dict[str, Value]) -> Kind | None:
    name = document.get("kind")
    return kinds.exact(name) if isinstance(name, str) else None


def _key(document: dict[str, Value], kind: Kind | None) -> Key | None:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if kind is None or not isinstance(name, str) or names.name(name) is not None:
        return None
    return Key(kind.name, name)


def _identifiers(document: dict[str, Value], kind: Kind | None, api_versions: frozenset[str]) -> list[Violation]:
    """apiVersion and kind, whose values depend on the settings and on what the service knows."""
    found = []
    version = document.get("apiVersion")
    if isinstance(version, str) and version and version not in api_versions:
        accepted = ", ".join(f"`{each}`" for each in sorted(api_versions))
        found.append(Violation(("apiVersion",), f"is not an API version of this service; it takes {accepted}"))
    name = document.get("kind")
    if kind is None and isinstance(name, str) and name:
        found.append(Violation(("kind",), unknown_kind(name)))
    return found


def unknown_kind(name: str) -> str:
    """What is wrong with a kind that is none: the one that may be meant, else all of them."""
    meant = kinds.find(name) or kinds.nearest(name[:LONGEST_NAME])
    if meant is not None:
        return f"is not a kind; write `{meant.name}`"
    return f"is not a kind; the kinds are {', '.join(f'`{kind.name}`' for kind in kinds.KINDS)}"


def _text(document: dict[str, Value], kind: Kind | None) -> tuple[Violation, ...]:
    """The rules of the text of a Configuration: it is YAML, and not what a viewer was shown in its place."""
    if kind is None or kind.name != CONFIGURATION:
        return ()
    spec = document["spec"]
    text = spec.get("raw") if isinstance(spec, dict) else None
    if text == parameters.MASK:
        return (Violation(("spec", "raw"), HIDDEN_TEXT_MESSAGE),)
    if isinstance(text, str) and not formats.is_yaml(text):
        return (Violation(("spec", "raw"), NO_YAML_MESSAGE, recent=True),)
    return ()


def _definitions(document: dict[str, Value], kind: Kind | None, shape: Iterable[Violation]) -> Iterable[Violation]:
    """The rules of a type's definitions, which go by the shape that the schema asks for."""
    if kind is None or kind.name not in components.TYPES:
        return ()
    at = defining.AT
    is_shapeless = any(at[: len(one.pointer)] == one.pointer or one.pointer[: len(at)] == at for one in shape)
    return () if is_shapeless else defining.broken(document["spec"])


CONFIGURATION = "Configuration"  # the one kind that may have a text of its own
HIDDEN_TEXT_MESSAGE = (
    f"`{parameters.MASK}` is what the service shows a viewer instead of the text; send the text itself, or leave the "
    "resource out"
)

NO_YAML_MESSAGE = "does not parse as YAML, so that no collector can load it; mend the text"

LONGEST_NAME = 100  # characters compared with the kinds: comparing takes the square of the length

MASK_MESSAGE = (
    f"`{parameters.MASK}` is what the service shows instead of a value; send the value itself; in Git, write a "
    "reference such as `${env:NAME}`"
)
