"""Desired: the documents that a file or a request wants to store, each judged alone.

This module turns bytes into documents. It does not know the store, the other documents, or Git.
"""

import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

import msgspec
from msgspec import structs

from reconciler.model import components, documents, positions, resource, values, violations
from reconciler.model.names import Key
from reconciler.model.resource import PRUNE_LABEL, Classification, Judged
from reconciler.model.values import Value
from reconciler.model.violations import Place, Violation


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
        kind = resource.classify(document.value, api_versions=rules.api_versions)
        if kind is not Classification.RESOURCE:
            continue
        judged = resource.judge(document.value, api_versions=rules.api_versions)
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
        judged = resource.judge(item, api_versions=rules.api_versions, placeholders=True)
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
