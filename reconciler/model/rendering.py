"""The stored form of a resource: its bytes, hash and masked body, and their redaction.

Readers get bytes that are stored once and sent as they are. A status is stored without its `source`, and a source
without `path` and `line`: the rest is the same for all resources of one change, and stored once.

A redaction removes a text that should never have been stored. Strings and keys are searched after decoding, so that no
escape hides the text; a number whose digits contain it is replaced whole. The name and id of a resource stay, and so do
the server's facts about a version. A value that was stored as a secret is removed without being counted, and the hash
still covers it. Otherwise a person who may redact could guess a secret piece by piece.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, count
from typing import NamedTuple, TypeAlias, cast

import msgspec

from reconciler.model import components, values
from reconciler.model.components import MASK
from reconciler.model.desired import SERVER_KEYS
from reconciler.model.text import visible
from reconciler.model.values import Pointer, Value, pointer_text


class Bound(NamedTuple):
    """The version of the resource that a hash is bound to: elsewhere, equal secrets give another hash. Otherwise a
    person who may store resources could store a guess, in another resource or in this one, and compare hashes.
    """

    project: str
    resource_id: str
    version: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """A resource as the store keeps it. `spec_hash` covers each secret by its HMAC, so it does not reveal it."""

    spec_hash: str  # hex SHA-256 of the spec
    masked: dict[str, Value]  # what a user owns, each secret replaced by `(sensitive)`
    secrets: bytes | None = field(default=None, repr=False)  # canonical JSON {JSON pointer: value}


def prepare(
    owned: dict[str, Value], secrets: Iterable[tuple[Pointer, Value]], *, hmac_key: bytes, bound: Bound
) -> Prepared:
    """Separate the secrets from the fields that a user owns. `hmac_key` is this server's; another key gives other
    hashes.
    """
    found = {pointer: (pointer_text(pointer), value) for pointer, value in secrets}
    if not found:
        return Prepared(hashlib.sha256(values.canonical_json(owned["spec"])).hexdigest(), owned)
    covered = values.replaced(owned, {at: _covered(owned, told, hmac_key, bound) for at, told in found.items()})
    return Prepared(
        spec_hash=hashlib.sha256(values.canonical_json(covered["spec"])).hexdigest(),
        masked=values.replaced(owned, dict.fromkeys(found, components.MASK)),
        secrets=values.canonical_json(dict(found.values())),
    )


def _covered(owned: dict[str, Value], told: tuple[str, Value], hmac_key: bytes, bound: Bound) -> str:
    """Return the marker of a secret in a hash, together with its place.

    It differs from a reference, which stays as it is, by its beginning. It differs from a document's digest, which has
    the same key, because a list is no document.
    """
    metadata = owned["metadata"]
    name = metadata["name"] if isinstance(metadata, dict) else None
    covered = values.canonical_json([*bound, owned["kind"], name, *told])
    return "hmac-sha256:" + hmac.digest(hmac_key, covered, "sha256").hex()


_path = msgspec.json.Encoder().encode


class Frame(NamedTuple):
    """A source as canonical JSON in two halves, between which its `line` and `path` go."""

    head: bytes
    tail: bytes


Parts: TypeAlias = tuple[bytes, bytes | None, bytes, bytes, str | None, int | None]
"""Body, status, both halves of the source, its path and line, in the form of a database row: every resource of every
answer is made from one.
"""


class Stale(msgspec.Struct, frozen=True):
    """A Configuration delivers by an earlier version: its number, the time since then, and why the present one does not
    deliver.
    """

    version: int
    since: str  # RFC 3339, UTC
    reason: str


class Delivery(NamedTuple):
    """The delivery of a Configuration by the service. `reason` says why it does not deliver, '' if it does. `runs_on`
    is where it runs, '' if an earlier version of the service did not say; `left_out` are sentences about its components
    that do not run there.
    """

    reason: str = ""
    stale: Stale | None = None
    runs_on: str = ""
    left_out: tuple[str, ...] = ()


class ResourceIdentity(NamedTuple):
    """The fields that the server adds to a resource's metadata."""

    id: str
    version: int
    date_modified: str  # RFC 3339, UTC


def body(prepared: Prepared, *, identity: ResourceIdentity) -> bytes:
    """Return the masked resource with the server's metadata, as canonical JSON without `status`."""
    metadata: dict[str, Value] = {
        **cast("dict[str, Value]", prepared.masked["metadata"]),  # a resource has metadata
        "id": identity.id,
        "hash": prepared.spec_hash,
        "version": identity.version,
        "dateModified": identity.date_modified,
    }
    return values.canonical_json({**prepared.masked, "metadata": metadata})


def identity_of(body: Mapping[str, Value]) -> ResourceIdentity:
    """Return the fields that the server added to a stored resource's metadata."""
    metadata = cast("Mapping[str, Value]", body["metadata"])
    number = cast("int", metadata["version"])
    return ResourceIdentity(id=str(metadata["id"]), version=number, date_modified=str(metadata["dateModified"]))


def with_standing(kind: str, status: bytes, *, incomplete: Sequence[str], delivery: Delivery | None = None) -> bytes:
    """Return a `status`, canonical JSON without `source`, with another list of the resource's missing parts. For a
    Configuration, the status also says if it is `ready` to be used, where it runs, and in `delivery` if the service
    delivers for it; None keeps the present answers.
    """
    members = _members(status)
    members.pop("incomplete", None)
    if incomplete:
        members["incomplete"] = list(incomplete)
    if kind == "Configuration":
        members["ready"] = _is_ready(members)
    if delivery is not None:
        members.pop("leftOut", None)
        if delivery.left_out:
            members["leftOut"] = list(delivery.left_out)
        members["runsOn"] = delivery.runs_on
        stale: dict[str, Value] = {} if delivery.stale is None else {"stale": msgspec.to_builtins(delivery.stale)}
        why_not: dict[str, Value] = {"delivers": False, "reason": delivery.reason}
        members["delivery"] = why_not if delivery.reason else {"delivers": True, **stale}
    return values.canonical_json(members)


def with_rendering(status: bytes, said: bytes | None) -> bytes:
    """Return the status of a Configuration with another `rendering` in JSON; None removes it."""
    members = _members(status)
    members.pop("rendering", None)
    if said is not None:
        members["rendering"] = msgspec.json.decode(said)
    return values.canonical_json({**members, "ready": _is_ready(members)})


def _is_ready(members: Mapping[str, Value]) -> bool:
    """Return True if nothing is incomplete, and no rendering failed."""
    said = members.get("rendering")
    return not members.get("incomplete") and not (isinstance(said, dict) and "fault" in said)


def with_drift(status: bytes, drift: Mapping[str, Value] | None) -> bytes:
    """Return the status with another `drift`: the owner and the place if the version differs from what the owner wants,
    otherwise None.
    """
    members = _members(status)
    members.pop("drift", None)
    return values.canonical_json(members if drift is None else {**members, "drift": dict(drift)})


def delivery(status: bytes) -> Delivery | None:
    """Return the delivery of a Configuration as its status says; None if it says nothing of it."""
    members = _members(status)
    said = members.get("delivery")
    if not isinstance(said, dict):
        return None
    stale = said.get("stale")
    return Delivery(
        "" if said.get("delivers") is True else str(said.get("reason")),
        msgspec.convert(stale, Stale) if isinstance(stale, dict) else None,
        str(members.get("runsOn", "")),
        _lines(members, "leftOut"),
    )


def incomplete(status: bytes) -> tuple[str, ...]:
    """Return what a status lists as missing."""
    return _lines(_members(status), "incomplete")


def _lines(members: dict[str, Value], name: str) -> tuple[str, ...]:
    listed = members.get(name)
    return tuple(str(line) for line in listed) if isinstance(listed, list) else ()


def _members(status: bytes) -> dict[str, Value]:
    return cast("dict[str, Value]", msgspec.json.decode(status))


def frame(source: Mapping[str, Value]) -> Frame:
    """Return the two halves of a source without `path` and `line`. Raises ValueError if these would not be adjacent,
    after another member.
    """
    head = {name: value for name, value in source.items() if name < "line"}
    tail = {name: value for name, value in source.items() if name > "path"}
    if not head or len(head) + len(tail) != len(source):
        raise ValueError(f"a source of {sorted(source)} has no place for a path and a line")
    return Frame(values.canonical_json(head)[:-1], b",%b" % values.canonical_json(tail)[1:] if tail else b"}")


def shown(parts: Parts) -> bytes:
    """Return a body joined with its status, which changes without a new version of the resource, and its source. A
    version that is not the present one has no status.

    `status` sorts after every key of a body, and `source` after every key of a status, so the result is canonical too.
    """
    body, status, head, tail, path, line = parts
    place = b"" if path is None else b',"line":%d,"path":%b' % (line or 0, _path(path))
    if status is None:
        return b'%b,"status":{"source":%b%b%b}}' % (body[:-1], head, place, tail)
    return b'%b,"status":%b,"source":%b%b%b}}' % (body[:-1], status[:-1], head, place, tail)


def damaged(kind: str, name: str, *, version: int, latest: bool) -> bytes:
    """Return the placeholder for a damaged version in a list or a history.

    It has no `apiVersion` and no `spec`, so that it cannot be mistaken for the resource or applied.
    """
    status: dict[str, Value] = {"error": DAMAGED.format(kind=kind, name=name)}
    if latest:
        status["latest"] = True
    return values.canonical_json({"kind": kind, "metadata": {"name": name, "version": version}, "status": status})


DAMAGED = "the {kind} {name} is damaged in the store; apply it anew, let Git be read in full, or restore a backup"
DAMAGED_RENDERING = (
    "what Collectors get of the Configuration {name} is damaged in the store; apply it with a change, or "
    "restore a backup"
)
LATEST = b'{"latest":true}'  # the most frequent status


@lru_cache(maxsize=256)
def is_source(head: bytes, tail: bytes) -> bool:
    """Return True if both halves of a source are still JSON: `shown` joins them without parsing. All resources of one
    change share a source, so few are checked.
    """
    return is_json(head + tail)


def is_json(text: bytes) -> bool:
    """Return True if a status or a source is still JSON."""
    try:
        msgspec.json.decode(text.decode(), type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeError):
        return False
    return True


def restated(shown: bytes, status: bytes) -> bytes:
    """Return a shown resource with another status and the same source. No other byte changes."""
    members = msgspec.json.decode(shown, type=dict[str, msgspec.Raw])
    source = msgspec.json.decode(members["status"], type=_Sourced).source
    if not bytes(source):  # the placeholder of a damaged version has none
        return shown
    stated = b'%b,"source":%b}' % (status[:-1], bytes(source))
    return msgspec.json.encode({**members, "status": msgspec.Raw(stated)})


def rewritten(shown: bytes, body: bytes) -> bytes:
    """Return a shown resource with another body. No byte of its status changes."""
    status = msgspec.json.decode(shown, type=_Stated).status
    return b'%b,"status":%b}' % (body[:-1], bytes(status))


class _Sourced(msgspec.Struct):
    source: msgspec.Raw = msgspec.Raw(b"")


class _Stated(msgspec.Struct):
    status: msgspec.Raw


MARK = "(redacted)"
FEWEST, MOST = 4, 65_536  # characters of a text; a shorter one would be found everywhere
KNOWN_BY = SERVER_KEYS | {"name"}  # of `metadata`


class Redacted(NamedTuple):
    """A value without the text, and the number of its strings, keys and numbers that contained it."""

    value: Value
    places: int
    renamed: Mapping[tuple[Pointer, str], str]  # new keys, by the place of the mapping and the old key


class RedactedVersion(NamedTuple):
    """The result of a redaction of a stored version. `places` are those that a reader could see."""

    body: bytes
    secrets: bytes | None
    places: int


def redaction_problem(text: str) -> str | None:
    """Say why a text cannot be redacted, as the rest of a sentence that does not repeat it; None if it can."""
    if not FEWEST <= len(text) <= MOST:
        return f"must have {FEWEST} to {MOST:,} characters"
    if text in MARK or text in MASK:
        return f"must not be a part of `{MARK}` or `{MASK}`, which the service writes itself"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "must be Unicode text, without half of a pair"
    return None


def spellings(text: str) -> tuple[str, ...]:
    """Return the forms in which sentences quote the text, the longest first: plain, as in JSON pointers, and escaped
    for people.
    """
    pointed = pointer_text((text,))[1:]
    found = {text, pointed, visible(text), visible(pointed)}
    return tuple(sorted(found, key=lambda one: (-len(one), one)))


def redaction_sentence(told: str, text: str) -> str:
    """Return a sentence without the text. If the remaining parts form the text again, the whole sentence is removed."""
    forms = spellings(text)
    left = told
    for form in forms:
        left = left.replace(form, MARK)
    return MARK if any(form in left for form in forms) else left


def redacted_value(found: Value, text: str) -> Redacted:
    """Return a value without the text."""
    walk = _Walk(text)
    return Redacted(walk.value(found, ()), walk.places, walk.renamed)


def redacted_version(
    body: bytes, secrets: bytes | None, text: str, *, project: str, hmac_key: bytes
) -> RedactedVersion | None:
    """Redact a stored version; None if it does not contain the text.

    Raises LookupError or ValueError for a damaged version.
    """
    stored = _object(body)
    held = {} if secrets is None else values.by_place(stored, _object(secrets))
    walk = _Walk(text)
    document = _document(stored, walk)
    quiet = {place: redacted_value(secret, text).value for place, secret in held.items()}
    if not walk.places and quiet == held:
        return None
    moved = {place: walk.moved(place) for place in held}
    told = _body(document, {moved[at]: secret for at, secret in held.items()}, project=project, hmac_key=hmac_key)
    return RedactedVersion(
        body=told if walk.places else body,
        secrets=None if secrets is None else _secrets({moved[at]: secret for at, secret in quiet.items()}),
        places=walk.places,
    )


def is_known_by(body: bytes, text: str) -> bool:
    """Return True if the name or the id of a stored version contains the text. Raises LookupError, ValueError as
    `version`.
    """
    metadata = _redacted_members(_object(body)["metadata"])
    return any(text in str(metadata[name]) for name in ("name", "id"))


class _Walk:
    """One walk through a value, which records its changes."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.places = 0
        self.renamed: dict[tuple[Pointer, str], str] = {}

    def value(self, found: Value, at: Pointer) -> Value:
        if isinstance(found, str):
            return self.string(found)
        if isinstance(found, list):
            return [self.value(each, (*at, position)) for position, each in enumerate(found)]
        if isinstance(found, dict):
            return self._mapping(found, at)
        if isinstance(found, bool) or found is None or self._text not in values.canonical_json(found).decode():
            return found
        self.places += 1
        return MARK

    def string(self, found: str) -> str:
        if self._text not in found:
            return found
        self.places += 1
        return redaction_sentence(found, self._text)

    def moved(self, place: Pointer) -> Pointer:
        """Return the present pointer of a place, since keys on the way may have been renamed."""
        return tuple(
            self.renamed.get((place[:end], step), step) if isinstance(step, str) else step
            for end, step in enumerate(place)
        )

    def _mapping(self, found: dict[str, Value], at: Pointer) -> dict[str, Value]:
        taken = {key for key in found if self._text not in key}
        names: dict[str, str] = {}
        for key in sorted(found.keys() - taken):  # sorted, so that equal mappings stay equal
            names[key] = self.renamed[at, key] = self._free(self.string(key), taken)
            taken.add(names[key])
        return {names.get(key, key): self.value(each, (*at, key)) for key, each in found.items()}

    def _free(self, key: str, taken: set[str]) -> str:
        numbered = (f"{key}{number}" for number in count(2))
        return next(name for name in chain([key], numbered) if name not in taken and self._text not in name)


def _document(stored: dict[str, Value], walk: _Walk) -> dict[str, Value]:
    """Redact a document except its frame, which always stays: without it, the version would be unreadable."""
    metadata = _redacted_members(stored["metadata"])
    left: dict[str, Value] = {
        key: each if key in KNOWN_BY else walk.value(each, ("metadata", key)) for key, each in metadata.items()
    }
    return {**stored, "metadata": left, "spec": walk.value(stored["spec"], ("spec",))}


def _body(document: dict[str, Value], held: Mapping[Pointer, Value], *, project: str, hmac_key: bytes) -> bytes:
    identity = identity_of(document)
    bound = Bound(project, identity.id, identity.version)
    return body(prepare(document, held.items(), hmac_key=hmac_key, bound=bound), identity=identity)


def _secrets(held: Mapping[Pointer, Value]) -> bytes:
    return values.canonical_json({pointer_text(place): secret for place, secret in held.items()})


def _object(stored: bytes) -> dict[str, Value]:
    return _redacted_members(msgspec.json.decode(stored))


def _redacted_members(found: object) -> dict[str, Value]:
    if not isinstance(found, dict):
        raise ValueError("what was stored as an object is none")
    return cast("dict[str, Value]", found)
