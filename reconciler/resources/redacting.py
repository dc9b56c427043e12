"""Taking a text out of what was stored, because it was a secret that should not have been there.

Belongs here: values, stored versions and sentences with `(redacted)` in place of the text; pure. Does not: finding the
versions, nor deciding whether they may change (`reading.redactions`).

Strings and keys are looked into after decoding, so that no escape hides the text; a number whose digits hold it is
replaced whole. What a resource is known by stays: its name and id, and what the server says of a version.

Of what was stored as a secret nothing is told: it is taken out without being counted, and the hash goes on covering it
as it was. Otherwise whoever may redact could find out a secret piece by piece, by asking which versions hold a guess.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

import msgspec

from reconciler.documents.values import Pointer, Value, pointer_text
from reconciler.escaping import visible
from reconciler.resources import canonical, preparing, rendering, restoring
from reconciler.resources.parameters import MASK
from reconciler.resources.resource import SERVER_KEYS

MARK = "(redacted)"
FEWEST, MOST = 4, 65_536  # characters of a text: fewer would be found everywhere
KNOWN_BY = SERVER_KEYS | {"name"}  # of `metadata`


class Redacted(NamedTuple):
    """A value without the text, and how many of its strings, keys and numbers held it."""

    value: Value
    places: int
    renamed: Mapping[tuple[Pointer, str], str]  # keys, by where their mapping stood and what they were


class Left(NamedTuple):
    """What is left of a stored version. `places` are those that a reader could see."""

    body: bytes
    secrets: bytes | None
    places: int


def problem(text: str) -> str | None:
    """What is wrong with a text that is to be taken out, as the rest of a sentence that does not repeat it; or None."""
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
    """How sentences quote the text, the longest first: as it is, as JSON pointers write it, and escaped for people."""
    pointed = pointer_text((text,))[1:]
    found = {text, pointed, visible(text), visible(pointed)}
    return tuple(sorted(found, key=lambda one: (-len(one), one)))


def sentence(told: str, text: str) -> str:
    """The same without the text. When what stands around it makes the text again, nothing else is left either."""
    forms = spellings(text)
    left = told
    for form in forms:
        left = left.replace(form, MARK)
    return MARK if any(form in left for form in forms) else left


def value(found: Value, text: str) -> Redacted:
    """The same value without the text."""
    walk = _Walk(text)
    return Redacted(walk.value(found, ()), walk.places, walk.renamed)


def version(body: bytes, secrets: bytes | None, text: str, *, project: str, hmac_key: bytes) -> Left | None:
    """What is left of a stored version, or None when it holds the text nowhere.

    Raises LookupError or ValueError for what was not stored so: it is damaged.
    """
    stored = _object(body)
    held = {} if secrets is None else restoring.located(stored, _object(secrets))
    walk = _Walk(text)
    document = _document(stored, walk)
    quiet = {place: value(secret, text).value for place, secret in held.items()}
    if not walk.places and quiet == held:
        return None
    moved = {place: walk.moved(place) for place in held}
    told = _body(document, {moved[at]: secret for at, secret in held.items()}, project=project, hmac_key=hmac_key)
    return Left(
        body=told if walk.places else body,
        secrets=None if secrets is None else _secrets({moved[at]: secret for at, secret in quiet.items()}),
        places=walk.places,
    )


def is_known_by(body: bytes, text: str) -> bool:
    """Whether the name or the id of a stored version holds the text. Raises LookupError, ValueError as `version`."""
    metadata = _members(_object(body)["metadata"])
    return any(text in str(metadata[name]) for name in ("name", "id"))


class _Walk:
    """One walk through a value; it remembers what it changed."""

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
        if isinstance(found, bool) or found is None or self._text not in canonical.encode(found).decode():
            return found
        self.places += 1
        return MARK

    def string(self, found: str) -> str:
        if self._text not in found:
            return found
        self.places += 1
        return sentence(found, self._text)

    def moved(self, place: Pointer) -> Pointer:
        """Where something stands now, as keys on the way may have another name."""
        return tuple(
            self.renamed.get((place[:end], step), step) if isinstance(step, str) else step
            for end, step in enumerate(place)
        )

    def _mapping(self, found: dict[str, Value], at: Pointer) -> dict[str, Value]:
        taken = {key for key in found if self._text not in key}
        names: dict[str, str] = {}
        for key in sorted(found.keys() - taken):  # in an order of their own, so that equal mappings stay equal
            names[key] = self.renamed[at, key] = self._free(self.string(key), taken)
            taken.add(names[key])
        return {names.get(key, key): self.value(each, (*at, key)) for key, each in found.items()}

    def _free(self, key: str, taken: set[str]) -> str:
        return next(name for name in _numbered(key) if name not in taken and self._text not in name)


def _numbered(key: str) -> Iterator[str]:
    """The key, then with a number behind it; no text of four characters stands in both ways to write that."""
    yield key
    number = 2
    while True:
        yield f"{key} {number}"
        yield f"{key}-{number}"
        number += 1


def _document(stored: dict[str, Value], walk: _Walk) -> dict[str, Value]:
    """The frame of a document stays whatever the text is: without it, nobody could read the version."""
    metadata = _members(stored["metadata"])
    left: dict[str, Value] = {
        key: each if key in KNOWN_BY else walk.value(each, ("metadata", key)) for key, each in metadata.items()
    }
    return {**stored, "metadata": left, "spec": walk.value(stored["spec"], ("spec",))}


def _body(document: dict[str, Value], held: Mapping[Pointer, Value], *, project: str, hmac_key: bytes) -> bytes:
    identity = rendering.identity(document)
    bound = preparing.Bound(project, identity.id, identity.version)
    return rendering.body(preparing.prepare(document, held.items(), hmac_key=hmac_key, bound=bound), identity=identity)


def _secrets(held: Mapping[Pointer, Value]) -> bytes:
    return canonical.encode({pointer_text(place): secret for place, secret in held.items()})


def _object(stored: bytes) -> dict[str, Value]:
    return _members(msgspec.json.decode(stored))


def _members(found: object) -> dict[str, Value]:
    if not isinstance(found, dict):
        raise ValueError("what was stored as an object is none")
    return cast("dict[str, Value]", found)
