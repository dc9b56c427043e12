"""Putting secrets back: into a stored resource, and where `(sensitive)` comes in for a value that is to stay.

Belongs here: what `(sensitive)` stands for, when it may, and what becomes of it when it may not. Does not: taking
secrets out (`preparing`), which values are secrets by their types (`fitting`).

When it may is decided in `keeping`. The literal is never stored.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reconciler.documents.values import Pointer, Value
from reconciler.resources import canonical, placeholders, replacing
from reconciler.resources.fitting import Lookup
from reconciler.resources.keeping import MESSAGES, Keeping
from reconciler.resources.matching import Called, Matching, Unmatched, called, namesakes
from reconciler.resources.violations import Violation

Secrets = tuple[tuple[Pointer, Value], ...]
"""Values by their places, from the document's root down."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The document with secrets in clear wherever `(sensitive)` may stand for them; for the rest, the violations.

    Violations point into what came in, everything else into `document`. `united` joins `secrets` with those by type.
    `kept` are the places where `(sensitive)` stood for a secret that is there now.
    `secrets` are values that were secrets and are what they were, so they stay secrets whatever is said of them now.
    `once_secret` are the places where a secret was, whatever is there now: what is shown of a dry run hides these, lest
    it tell whether somebody guessed a secret.
    """

    document: dict[str, Value] = field(repr=False)
    violations: tuple[Violation, ...] = ()  # each `of_parameter`, in document order
    kept: tuple[Pointer, ...] = ()
    secrets: Secrets = field(default=(), repr=False)
    once_secret: tuple[Pointer, ...] = ()


def in_clear(masked: dict[str, Value], secrets: Mapping[str, Value]) -> dict[str, Value]:
    """A stored masked resource, or its body, with its secrets, which are stored by JSON pointer."""
    return replacing.replaced(masked, located(masked, secrets))


def restored(
    incoming: dict[str, Value],
    *,
    masked: dict[str, Value] | None,
    secrets: Mapping[str, Value],
    lookup: Lookup,
    accept_invalid: bool,
) -> Restored:
    """What is meant by a document that may hold `(sensitive)`.

    `masked` is what is stored under the same key, or None, and `secrets` belong to it, by JSON pointer. `lookup` finds
    the types in force. `accept_invalid`: what breaks a rule here counts as missing and is left out of the document.
    """
    places = placeholders.find(incoming)
    if masked is None:
        told = [(place, MESSAGES[Unmatched.ABSENT]) for place in places]
        return _result(incoming, told, kept={}, accept_invalid=accept_invalid)
    held = located(masked, secrets)
    keeping = Keeping(incoming, masked, held=held, lookup=lookup)
    decided = [(place, keeping.of(place)) for place in places]
    kept = {place: held[found] for place, found in decided if isinstance(found, tuple)}
    told = [(place, found) for place, found in decided if isinstance(found, str)]
    result = _result(incoming, told, kept=kept, accept_invalid=accept_invalid)
    once = tuple(_still(result.document, masked, held))
    now = [(place, replacing.at(result.document, place), values) for place, values in once]
    stuck = {place: value for place, value, values in now if canonical.encode(value) in values}
    return replace(result, secrets=tuple(stuck.items()), once_secret=tuple(dict.fromkeys(place for place, _ in once)))


def united(found: Secrets, stuck: Secrets) -> Secrets:
    """The secrets by their types and those that stay secrets, each place once, none beneath another."""
    values = dict(stuck) | dict(found)
    return tuple(
        (place, value) for place, value in values.items() if not any(place[:end] in values for end in range(len(place)))
    )


def _result(
    incoming: dict[str, Value],
    told: Sequence[tuple[Pointer, str]],
    *,
    kept: Mapping[Pointer, Value],
    accept_invalid: bool,
) -> Restored:
    document = replacing.replaced(incoming, kept)
    places = tuple(kept)
    if accept_invalid and told:
        document = placeholders.without(document, [place for place, _ in told])
        places = tuple(_found(Matching(incoming, document), places))  # what is left out moves others up
    found = tuple(Violation(place, message, of_parameter=True) for place, message in told)
    return Restored(document, violations=found, kept=places)


def _found(matching: Matching, places: Iterable[Pointer]) -> Iterator[Pointer]:
    for place in places:
        found = matching.find(place)
        if not isinstance(found, Unmatched):
            yield found


def _still(
    document: dict[str, Value], masked: dict[str, Value], held: Mapping[Pointer, Value]
) -> Iterator[tuple[Pointer, Collection[bytes]]]:
    """Where the stored secrets had to be in the document now, each with those that it may be, in canonical form.

    A component that nothing tells from the others, or that has another name now, leaves no such place. Its secrets may
    be in any parameter of the same name then: what is hidden there is the same value, so a mistake shows nothing.
    """
    matching = Matching(masked, document)
    lost: dict[Called, set[bytes]] = {}
    for place, value in held.items():
        found = matching.find(place)
        if not isinstance(found, Unmatched):
            yield found, (canonical.encode(value),)
            continue
        name = called(masked, place)
        if name is not None:
            lost.setdefault(name, set()).add(canonical.encode(value))
    elsewhere = namesakes(document) if lost else {}
    for name, values in lost.items():
        for there in elsewhere.get(name, ()):
            yield there, values


def located(masked: dict[str, Value], secrets: Mapping[str, Value]) -> dict[Pointer, Value]:
    """The secrets of a stored resource by their places in it."""
    return {replacing.located(masked, text): value for text, value in secrets.items()}


def is_same(one: Value, other: Value) -> bool:
    """Whether two values are equal in canonical form."""
    return canonical.encode(one) == canonical.encode(other)
