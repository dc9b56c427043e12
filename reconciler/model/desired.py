"""Desired: the documents that a file or a request wants to store, each judged alone.

This module turns files and the bodies of requests into documents, without what belongs to the server. It does not know
the store, the other documents, or Git.

An absent member may be written as `null` if a schema lists the members of its object. So may an empty `id`,
`displayName` and `description`, an empty map of labels, and empty lists of components. Values of parameters, defaults,
templates and all else that may be any JSON stay as they are, and so do the members of an open object.
"""

import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, cast

import msgspec
from msgspec import structs

import schemas
from reconciler.model import components, documents, names, positions, type_definitions, validators, values, violations
from reconciler.model.components import LISTS, MASK
from reconciler.model.error_codes import ErrorCode
from reconciler.model.names import Key, Kind
from reconciler.model.values import Pointer, Value, pointer_text
from reconciler.model.violations import Place, Violation

SERVER_KEYS = frozenset({"id", "hash", "version", "dateModified"})
"""The keys of `metadata` that the server sets; `id` may be proposed for a new resource."""

PRUNE_LABEL = "service/prune"


def without_servers(document: Mapping[str, Value]) -> dict[str, Value]:
    """Return the part of a stored resource that a user owns."""
    metadata = cast("dict[str, Value]", document["metadata"])
    mine: dict[str, Value] = {name: value for name, value in metadata.items() if name not in SERVER_KEYS}
    return {**document, "metadata": mine}


def mask_all(value: Value) -> Value:
    """Return a copy in which every parameter value is masked, whatever its name, and wherever the parameters are.

    In a document without the documented shape, everything below a key `parameters` or `value` may be a secret. Keys and
    the names of parameters stay. The readers bound the nesting.
    """
    if isinstance(value, dict):
        return {
            key: _mask(child) if key in ("parameters", "value") else mask_all(child) for key, child in value.items()
        }
    return [mask_all(child) for child in value] if isinstance(value, list) else value


def _mask(value: Value) -> Value:
    """Mask everything except keys, and the `name` and `sensitive` beside a `value`."""
    if isinstance(value, list):
        return [_mask(child) for child in value]
    if not isinstance(value, dict):
        return MASK
    kept = ("name", "sensitive") if "value" in value else ()
    return {
        key: child if key in kept and isinstance(child, str | bool) else _mask(child) for key, child in value.items()
    }


EMPTY: dict[str, Value] = {"id": "", "displayName": "", "description": "", "labels": {}, **{key: [] for key in LISTS}}
"""The members that count as absent if they are empty, with the empty value."""

_MARKS = (b"null", b'""', b"{}", b"[]")


def without_absent(document: dict[str, Value], kind: Kind | None) -> dict[str, Value]:
    """Return the document without absent members, and with a spec; the same object if it is in this form already."""
    if document.get("spec") is None:
        document = {**document, "spec": {}}
    if not may_hold_absent(msgspec.json.encode(document)):
        return document
    schema = schemas.load(schemas.ENVELOPE if kind is None else kind.name)
    without = _removed(document, schema, schema)
    assert isinstance(without, dict)
    return without


def may_hold_absent(encoded: bytes) -> bool:
    """Return True if a document may have absent members; nearly none does. `encoded` is JSON without white space."""
    return any(mark in encoded for mark in _MARKS)


def _removed(value: Value, schema: dict[str, Any], root: dict[str, Any]) -> Value:
    """Return a value without the absent members of closed objects, by its schema; `root` is the whole schema."""
    if "$ref" in schema:
        return _removed(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [_removed(item, schema["items"], root) for item in value]
    if not isinstance(value, dict) or schema.get("additionalProperties") is not False:
        return value
    needed = {*schema.get("required", ()), "spec"}
    kept = {}
    for name, child in value.items():
        member = schema["properties"].get(name, {})
        is_absent = child is None or (not child and EMPTY.get(name) == child)
        if not (is_absent and name not in needed and _is_typed(member)):
            kept[name] = _removed(child, member, root)
    return kept


def _is_typed(schema: dict[str, Any]) -> bool:
    """Return True if the schema of a member has a type."""
    return not {"type", "$ref", "enum", "const"}.isdisjoint(schema)


class Classification(Enum):
    """The relevance of a document in a repository."""

    RESOURCE = auto()  # judged
    NOT_A_RESOURCE = auto()  # skipped: neither apiVersion nor kind
    FOREIGN = auto()  # skipped: both, and neither is ours; a Kubernetes manifest, say


class Judged(msgspec.Struct, frozen=True, gc=False):
    """A document judged by itself. `key` is set if kind and name are known, even if the document is invalid; `owned`
    only if it is valid.

    `owned` has the fields that the user owns, secrets in clear: apiVersion, kind, metadata and spec. It shares parts
    with the document. A document that breaks only recent rules has violations too, but it is valid if the same is
    stored. `placeholders` are the places of `(sensitive)` in place of a value, from the document's root down.
    """

    key: Key | None
    violations: tuple[Violation, ...]
    owned: dict[str, Value] | None = None
    placeholders: tuple[Pointer, ...] = ()
    proposed_id: str | None = None

    def __repr__(self) -> str:
        """Leave out the secrets."""
        return f"Judged({self.key!r}, {self.violations!r})"


def classify(value: Value, *, api_versions: frozenset[str]) -> Classification:
    """Decide if a document is meant for this service: it has only one of the two keys, or one of the two values is
    ours.
    """
    if not isinstance(value, dict) or ("apiVersion" not in value and "kind" not in value):
        return Classification.NOT_A_RESOURCE
    if "apiVersion" not in value or "kind" not in value:
        return Classification.RESOURCE
    version = value["apiVersion"]
    ours = (isinstance(version, str) and version in api_versions) or _kind(value) is not None
    return Classification.RESOURCE if ours else Classification.FOREIGN


def judge(value: Value, *, api_versions: frozenset[str], placeholders: bool = False) -> Judged:
    """Return all violations of a document in document order, or the fields that a user owns. `placeholders`:
    `(sensitive)` is allowed, and the caller replaces it by the stored value.
    """
    if not isinstance(value, dict):
        return Judged(None, (Violation((), "is not an object"),))
    kind = _kind(value)
    document = without_absent(value, kind)
    shape = validators.violations(kind, document)
    key = _key(document, kind)
    parameters = components.find_parameters(document["spec"])
    masks = [("spec", *pointer) for pointer in parameters.masks]
    found = [*shape, *_identifiers(document, kind, api_versions)]
    for pointer, listed in parameters.lists:
        found += components.repeated_parameters(listed, at=("spec", *pointer))
    if masks and not placeholders:
        found += [Violation(pointer, MASK_MESSAGE) for pointer in masks]
    found += _text(document, kind)
    found += _definitions(document, kind, shape)
    ordered = violations.in_document_order(found, value) if found else ()
    metadata = document.get("metadata")
    if shape or key is None or not isinstance(metadata, dict) or not all(one.recent for one in found):
        return Judged(key, ordered)
    owned: dict[str, Value] = {
        "apiVersion": document["apiVersion"],
        "kind": key.kind,
        "metadata": {name: each for name, each in metadata.items() if name not in SERVER_KEYS},
        "spec": document["spec"],
    }
    proposed = metadata.get("id")
    return Judged(key, ordered, owned, tuple(masks), proposed if isinstance(proposed, str) else None)


def _kind(document: dict[str, Value]) -> Kind | None:
    name = document.get("kind")
    return names.exact_kind(name) if isinstance(name, str) else None


def _key(document: dict[str, Value], kind: Kind | None) -> Key | None:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if kind is None or not isinstance(name, str) or names.wrong_name(name) is not None:
        return None
    return Key(kind.name, name)


def _identifiers(document: dict[str, Value], kind: Kind | None, api_versions: frozenset[str]) -> list[Violation]:
    """Check apiVersion and kind, whose allowed values depend on the settings and the known kinds."""
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
    """Return the error for an unknown kind, which names the nearest kind, otherwise all of them."""
    meant = names.find_kind(name) or names.nearest_kind(name[:LONGEST_NAME])
    if meant is not None:
        return f"is not a kind; write `{meant.name}`"
    return f"is not a kind; the kinds are {', '.join(f'`{kind.name}`' for kind in names.KINDS)}"


def _text(document: dict[str, Value], kind: Kind | None) -> tuple[Violation, ...]:
    """Check the text of a Configuration: it is YAML, and not the placeholder that viewers see."""
    if kind is None or kind.name != CONFIGURATION:
        return ()
    spec = document["spec"]
    text = spec.get("raw") if isinstance(spec, dict) else None
    if text == components.MASK:
        return (Violation(("spec", "raw"), HIDDEN_TEXT_MESSAGE),)
    if isinstance(text, str) and not validators.is_yaml(text):
        return (Violation(("spec", "raw"), NO_YAML_MESSAGE, recent=True),)
    return ()


def _definitions(document: dict[str, Value], kind: Kind | None, shape: Iterable[Violation]) -> Iterable[Violation]:
    """Check the definitions of a type, which must have the shape that the schema demands."""
    if kind is None or kind.name not in components.TYPES:
        return ()
    at = type_definitions.AT
    is_shapeless = any(at[: len(one.pointer)] == one.pointer or one.pointer[: len(at)] == at for one in shape)
    return () if is_shapeless else type_definitions.broken_definitions(document["spec"])


CONFIGURATION = "Configuration"  # the one kind that may have a text of its own
HIDDEN_TEXT_MESSAGE = (
    f"`{components.MASK}` is what the service shows a viewer instead of the text; send the text itself, or leave the "
    "resource out"
)

NO_YAML_MESSAGE = "does not parse as YAML, so that no collector can load it; mend the text"

LONGEST_NAME = 100  # characters compared with the kinds: the time grows with the square of the length

MASK_MESSAGE = (
    f"`{components.MASK}` is what the service shows instead of a value; send the value itself; in Git, write a "
    "reference such as `${env:NAME}`"
)


def identify(document: Value) -> tuple[Key | None, str | None]:
    """Return the key, or None and the problems of kind and name, one in each line."""
    body = document if isinstance(document, dict) else {}
    metadata = body.get("metadata")
    kind, name = body.get("kind"), metadata.get("name") if isinstance(metadata, dict) else None
    problems = []
    if not isinstance(kind, str) or names.exact_kind(kind) is None:
        problem = unknown_kind(kind) if isinstance(kind, str) else "is required, a string"
        problems.append(f"{pointer_text(('kind',))}: {problem}")
    wrong = names.wrong_name(name) if isinstance(name, str) else "is required, a string"
    if wrong is not None:
        problems.append(f"{pointer_text(('metadata', 'name'))}: {wrong}")
    if problems or not isinstance(kind, str) or not isinstance(name, str):
        return None, "\n".join(problems)
    return Key(kind, name), None


@dataclass(frozen=True, slots=True)
class DocumentRules:
    """The rules for documents beside the schemas: accepted `apiVersion`s and this store's digest key."""

    api_versions: frozenset[str]
    hmac_key: bytes = field(repr=False)


class Desired(msgspec.Struct, frozen=True, gc=False):
    """One document to be stored, or one key to be deleted.

    A first read makes a hundred thousand of these, so the content is bytes, which the garbage collector skips.

    `key` is None if kind or name could not be read. A document that is valid by itself has content: `owned` and the
    fields derived from it. `digest` decides equality. It is an HMAC of everything that a user owns, with secrets in
    clear text: it reveals no secret, and does not depend on the secrets of a type.
    """

    key: Key | None
    place: Place | None = None
    position: int = 0  # in its file or request, counted from 0
    digest: bytes = b""
    owned: bytes = b""  # canonical JSON, secrets in clear; empty for an invalid document
    references: tuple[Key, ...] = ()  # each once, in order
    has_placeholders: bool = False  # `(sensitive)` stands for a stored value somewhere
    proposed_id: str | None = None
    deprecated: bool = False
    protected: bool = False
    reason: str | None = None  # every violation, one a line
    recent: str | None = None  # violations of recent rules: a reason unless the same is stored, and then a note
    allowed: bool = True  # False: the repository's setting `allow` leaves it out
    conflict: str | None = None  # it was made from another version than the stored one, where that counts
    fault: str | None = None  # a failure outside of the document, so that nobody can judge it

    def __repr__(self) -> str:
        """Leave out the secrets."""
        return f"Desired({self.key}, {self.digest!r}, {self.reason!r})"

    def document(self) -> dict[str, Value]:
        """Decode the fields that a user owns, as a new value that the caller may change."""
        return cast("dict[str, Value]", msgspec.json.decode(self.owned))

    def refused(self, reason: str | None) -> "Desired":
        """Return the document with another reason for refusal, if there is one."""
        return self if reason is None else structs.replace(self, reason="\n".join(filter(None, (self.reason, reason))))


def read_file(data: bytes, *, path: str, rules: DocumentRules) -> tuple[Desired, ...] | None:
    """Read the resource documents of a file; None if it has no document at all.

    A file that cannot be read gives one unreadable document. `path` must have a suffix that `documents.syntax_of`
    knows.
    """
    syntax = documents.syntax_of(path)
    assert syntax is not None, "only files with a known suffix are considered"
    try:
        read = documents.read(data, syntax=syntax, limits=positions.FILE_LIMITS)
    except documents.DocumentError as error:
        return (unreadable(Place(path, error.line, error.column), error.message),)
    if not read:
        return None
    locations = None
    found = []
    for document in read:
        kind = classify(document.value, api_versions=rules.api_versions)
        if kind is not Classification.RESOURCE:
            continue
        judged = judge(document.value, api_versions=rules.api_versions)
        reason = None
        if judged.violations:
            # Positions cost a second parse, so they are looked up only when something must be reported.
            if locations is None:
                locations = documents.locate(data, syntax=syntax, limits=positions.FILE_LIMITS)
            reason = placed_reason(judged.violations, path=path, position=document.index, locations=locations)
        place = Place(path, document.line, document.column)
        found.append(of_judged(judged, place=place, position=document.index, reason=reason, hmac_key=rules.hmac_key))
    return tuple(found)


def unreadable(place: Place, message: str) -> Desired:
    """Return the placeholder for a file that could not be read: it could define any resource."""
    return Desired(key=None, place=place, reason=f"{place}: {message}")


def read_items(items: Iterable[Value], *, rules: DocumentRules) -> list[Desired]:
    """Read a request's array. Every item is judged, even with another `apiVersion` or `kind`.

    A client may send a resource as it was shown: `(sensitive)` means the stored value.
    """
    found = []
    for position, item in enumerate(items):
        judged = judge(item, api_versions=rules.api_versions, placeholders=True)
        reason = violations.lines(judged.violations, lambda _: "") if judged.violations else None
        found.append(of_judged(judged, place=None, position=position, reason=reason, hmac_key=rules.hmac_key))
    return found


def of_judged(
    judged: Judged, *, hmac_key: bytes, place: Place | None = None, position: int = 0, reason: str | None = None
) -> Desired:
    """Make the compact form of a judged document, until it is judged against types and stored resources.

    `reason` renders the violations; a valid document has only violations of recent rules.
    """
    owned = judged.owned
    if owned is None:
        return Desired(judged.key, place, position, reason=reason)
    encoded, metadata = values.canonical_json(owned), cast("dict[str, Value]", owned["metadata"])
    labels = metadata.get("labels")
    return Desired(
        judged.key,
        place,
        position,
        digest=hmac.digest(hmac_key, encoded, "sha256"),
        owned=encoded,
        references=_references(owned),
        has_placeholders=bool(judged.placeholders),
        proposed_id=judged.proposed_id,
        deprecated=metadata.get("deprecated") is True,
        protected=isinstance(labels, dict) and labels.get(PRUNE_LABEL) == "disabled",
        recent=reason,
    )


def restored(desired: Desired, owned: dict[str, Value], *, hmac_key: bytes) -> Desired:
    """Return the document with the stored values in the places of `(sensitive)`."""
    encoded = values.canonical_json(owned)
    return structs.replace(
        desired,
        digest=hmac.digest(hmac_key, encoded, "sha256"),
        owned=encoded,
        references=_references(owned),
        has_placeholders=False,
    )


def placed_reason(found: Sequence[Violation], *, path: str, position: int, locations: documents.Locations) -> str:
    """Render the violations of the file's `position`-th document, one in each line, with their places."""

    def place_of(violation: Violation) -> str:
        at = locations.of(position, violation.pointer, at_key=violation.at_key)
        return str(Place(path, at.line, at.column))

    return violations.lines(found, place_of)


def digest(owned: dict[str, Value], *, hmac_key: bytes) -> bytes:
    """Return the digest of the fields that a user owns, with this server's `hmac_key`."""
    return hmac.digest(hmac_key, values.canonical_json(owned), "sha256")


def _references(owned: dict[str, Value]) -> tuple[Key, ...]:
    return tuple(sorted({each.key for each in components.references(owned)}))


NODE_BYTES = 2  # of the shortest text with one more value: a shorter body need not be counted


class RequestRefused(Exception):
    """The request is answered with errors, one line for each problem, and nothing is stored."""

    def __init__(self, status: int, errors: Sequence[str], *codes: ErrorCode) -> None:
        super().__init__(errors)
        self.status = status
        self.body: dict[str, object] = {"errors": errors, "codes": codes or [_CODES[status]] * len(errors)}


_CODES = {400: ErrorCode.INVALID_REQUEST, 412: ErrorCode.VERSION_MISMATCH, 413: ErrorCode.TOO_LARGE}


def read_resources(body: bytes, *, max_resources: int, bare_array: bool) -> list[Value]:
    """Return the resources of a body, each a JSON object. A delete takes a bare array, and what an apply takes, too.
    Raises RequestRefused.
    """
    try:
        found = documents.read(body, syntax=documents.Syntax.JSON, limits=positions.limits_of_body(len(body)))
    except documents.DocumentError as error:
        raise RequestRefused(400, (f"body:{error.line}:{error.column}: {error.message}",)) from error
    value = found[0].value if found else None
    if bare_array and isinstance(value, list):
        prefix: tuple[str, ...] = ()
        items, problems = value, list[str]()
    else:
        prefix, (items, problems) = ("resources",), _wrapped(value, bare_array=bare_array)
    if len(items) > max_resources:
        raise RequestRefused(413, (f"The body holds {len(items):,} resources, over the limit of {max_resources:,}.",))
    wrong = [index for index, item in enumerate(items) if not isinstance(item, dict)]
    problems += [f"{pointer_text((*prefix, index))}: must be an object" for index in wrong]
    if problems:
        raise RequestRefused(400, tuple(problems))
    if len(body) > NODE_BYTES * positions.FILE_LIMITS.nodes:
        _check_sizes(items, prefix)
    return items


def _check_sizes(items: Sequence[Value], prefix: tuple[str, ...]) -> None:
    """Refuse a resource that is larger than a file in Git may be, because many steps need memory in proportion to
    it.
    """
    large = [
        index for index, item in enumerate(items) if values.has_more_nodes_than(item, nodes=positions.FILE_LIMITS.nodes)
    ]
    told = f"holds more than {positions.FILE_LIMITS.nodes:,} values and keys; make several resources of it"
    if large:
        raise RequestRefused(413, tuple(f"{pointer_text((*prefix, index))}: {told}" for index in large))


def _wrapped(value: Value, *, bare_array: bool) -> tuple[list[Value], list[str]]:
    """Return the array in `{"resources": [...]}`, and the problems around it."""
    if not isinstance(value, dict):
        shape = "an array of resources" if bare_array else 'an object such as {"resources": [...]}'
        raise RequestRefused(400, (f"The body must be {shape}.",))
    problems = [
        f"{pointer_text((key,))}: unknown key; only `resources` is allowed" for key in value if key != "resources"
    ]
    items = value.get("resources")
    if "resources" not in value:
        problems.append("/resources: is required")
    elif not isinstance(items, list):
        problems.append("/resources: must be an array")
    return items if isinstance(items, list) else [], problems
