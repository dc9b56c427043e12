"""Secrets in documents: finding `(sensitive)`, restoring stored secrets, and matching places of two versions.

Places match by names, never by position. Keys of mappings match equal keys. An entry of a list matches the entry with
the same identity, which is the first of `id`, `name` and `displayName` that it has. An entry without any, or one whose
identity occurs twice in either list, matches nothing.

A secret is kept in its place as long as its component has the same type and sends data to the same endpoint. Otherwise
a person who may change a resource, but not read its secrets, could have them sent to themselves. A secret outside a
component's parameters is kept only while everything around it stays the same, because its use is unknown.

For a webhook, the parameters of its endpoint are known. For other types, any text may be or contain an address. Only
values that the type's author has bounded (a number, true or false, a choice) are harmless, and secrets whose names do
not suggest an address. A person may have to send a secret again unnecessarily, but no secret is sent to a wrong place.

The literal `(sensitive)` is never stored as a value.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, cast

from reconciler.model import type_checks
from reconciler.model import values as model_values
from reconciler.model.component_types import ComponentType, Definition, same_value
from reconciler.model.components import (
    KINDS,
    LISTS,
    MASK,
    NESTED,
    WEBHOOK,
    find_parameters,
    given_parameters,
    parameter_name,
    unversioned,
)
from reconciler.model.names import Key
from reconciler.model.secret_references import is_secret_reference
from reconciler.model.text import listed
from reconciler.model.type_checks import Lookup
from reconciler.model.values import Pointer, Value, child_of
from reconciler.model.violations import Violation

WEBHOOK_PARAMETERS = frozenset(
    {
        "scheme",
        "hostname",
        "port",
        "path",
        "insecure_skip_verify",
        "ca_file",
        "mutual_tls",
        "cert_file",
        "key_file",
    }
)
ROUTING_KEYS = frozenset({"host", ":authority"})
"""The headers by which a shared server chooses the receiver of a request."""

_BOUNDED = frozenset({"int", "bool", "enum", "enums", "timezone"})
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+s?(?![a-z])")
_PLACE = re.compile(
    "account|addr|address(es)?|authority|brokers?|bucket|ca|cert(ificates?)?|cluster|connection|database|datacenter|"
    "destination|dns|domain|dsn|endpoints?|environment|gateway|host|hostname|hosts|index|insecure|ip|location|mtls|"
    "mutual|namespace|network|path|peer|ports?|project|protocol|proxy|realm|region|remote|route|scheme|servers?|site|"
    "skip|socket|ssl|stream|subdomain|targets?|tenant|tls|topic|transport|ur[il]s?|verify|workspace|zone"
)
_RUN_TOGETHER = re.compile("addr|domain|endpoint|host|proxy|server|uris?$|url")  # `webhookurl`; not `security`


def changed_endpoint(
    before: list[Value], after: list[Value], *, type_key: Key, component_type: ComponentType | None
) -> tuple[str, ...]:
    """Return the parameters that decide where data is sent and that differ after defaults, sorted. `(sensitive)` in
    both versions is the same value. A secret that is sent again counts as different: it must not show if it is equal.
    """
    old = _relevant(before, type_key, component_type)
    new = _relevant(after, type_key, component_type)
    same = {name for name in old.keys() & new.keys() if same_value(old[name], new[name])}
    return tuple(sorted((old.keys() | new.keys()) - same))


def _relevant(given: list[Value], type_key: Key, component_type: ComponentType | None) -> dict[str, Value]:
    """Return the values that decide where data is sent, by name; for any other map, only the entries that decide."""
    if component_type is None:
        return _by_name(given)
    found: dict[str, Value] = {}
    for name, value in type_checks.settled_parameters(given, component_type).items():
        if _says_where(name, type_key, component_type.definitions.get(name)):
            found[name] = value
        elif isinstance(value, dict):
            found |= {f"{name}/{key}": each for key, each in value.items() if key.lower() in ROUTING_KEYS}
    return found


def _by_name(given: list[Value]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for parameter in given:
        name = parameter_name(parameter)
        if isinstance(parameter, dict) and name is not None:
            found.setdefault(name, parameter.get("value"))
    return found


def _says_where(name: str, type_key: Key, definition: Definition | None) -> bool:
    if type_key == WEBHOOK:
        return name in WEBHOOK_PARAMETERS
    if definition is None or not (definition.sensitive or _is_bounded(definition)):
        return True
    words = [word.lower() for word in _WORD.findall(name)]
    return any(_PLACE.fullmatch(word) or _RUN_TOGETHER.search(word) for word in words)


def _is_bounded(definition: Definition) -> bool:
    return definition.type in _BOUNDED and not definition.creatable


def find_placeholders(document: dict[str, Value]) -> tuple[Pointer, ...]:
    """Yield the places of `(sensitive)` as a value of a parameter or inside one, in document order."""
    return tuple(dict.fromkeys(("spec", *pointer) for pointer in find_parameters(document["spec"]).masks))


def without_placeholders(document: dict[str, Value], places: Iterable[Pointer]) -> dict[str, Value]:
    """Return the document without the values at these places, as if their parameters or map entries were missing."""
    copies = model_values.Copies(document)
    leaving: dict[Pointer, set[str | int]] = {}
    for place in places:
        whole = _whole(place)
        leaving.setdefault(whole[:-1], set()).add(whole[-1])
    # All copies are made before the first entry is removed, because that changes positions.
    containers = [(copies.at(pointer), steps) for pointer, steps in leaving.items()]
    for container, steps in containers:
        if isinstance(container, list):
            container[:] = [each for position, each in enumerate(container) if position not in steps]
        else:
            for step in steps:
                del container[cast("str", step)]
    return copies.document


def _whole(place: Pointer) -> Pointer:
    """Return what is removed with the value at a place: the entry of a map, or the whole parameter."""
    for end in range(2, len(place)):
        if place[end] == "value" and isinstance(place[end - 1], int):
            is_entry = len(place) > end + 1 and isinstance(place[end + 1], str)
            return place[: end + 2] if is_entry else place[:end]
    return place


IDENTIFYING = ("id", "name", "displayName")

Identity: TypeAlias = tuple[str, str]  # the key, and its value
Called: TypeAlias = tuple[str, Pointer]  # a parameter's name, and the place inside its value


class Matching:
    """Finds places of one document in another. The two must not change meanwhile."""

    def __init__(self, document: Value, other: Value) -> None:
        self._document = document
        self._other = other
        # By the list's id: searching a list again for each of its entries takes quadratic time.
        self._entries: dict[int, dict[Identity, int | None]] = {}

    def find(self, pointer: Pointer) -> Pointer | None:
        """Return the place in the other document that corresponds to `pointer` in this one; None if no place certainly
        does.
        """
        here, there = self._document, self._other
        found: list[str | int] = []
        for step in pointer:
            next_step = self._step(here, there, step)
            if next_step is None:
                return None
            here, there = child_of(here, step), child_of(there, next_step)
            found.append(next_step)
        return tuple(found)

    def _step(self, here: Value, there: Value, step: str | int) -> str | int | None:
        if isinstance(here, list) and isinstance(step, int):
            return self._entry(here, there, step)
        return step if isinstance(there, dict) and step in there else None

    def _entry(self, here: list[Value], there: Value, position: int) -> int | None:
        identity = identity_of(here[position])
        if identity is None or not isinstance(there, list) or self._of(here)[identity] is None:
            return None
        return self._of(there).get(identity)

    def _of(self, entries: list[Value]) -> dict[Identity, int | None]:
        """Return the position of each identity in a list; None for one that occurs twice."""
        if id(entries) not in self._entries:
            self._entries[id(entries)] = found = dict[Identity, int | None]()
            for position, entry in enumerate(entries):
                identity = identity_of(entry)
                if identity is not None:
                    found[identity] = None if identity in found else position
        return self._entries[id(entries)]


def _named_values(document: Mapping[str, Value]) -> Iterator[tuple[Pointer, Called]]:
    """Yield the value of each parameter, and each value of a map, with the parameter's name."""
    for pointer, given in find_parameters(document["spec"]).lists:
        for index, parameter in enumerate(given):
            name = parameter_name(parameter)
            if isinstance(parameter, dict) and name is not None and "value" in parameter:
                place, value = ("spec", *pointer, index, "value"), parameter["value"]
                yield place, (name, ())
                for key in value if isinstance(value, dict) else ():
                    yield (*place, key), (name, (key,))


def identity_of(entry: Value) -> Identity | None:
    """Return the identity of a list entry."""
    for key in IDENTIFYING if isinstance(entry, dict) else ():
        name = entry.get(key) if isinstance(entry, dict) else None
        if isinstance(name, str) and name:
            return key, name
    return None


MOST_NAMES = 5  # parameters named in one sentence
LONGEST_NAME = 63  # characters of each; whoever sends a document writes the names

_SEND = "send the value itself"
NOTHING_STORED = (
    f"`{MASK}` stands for a stored secret, and none is found here by a unique `id`, `name` or `displayName`; {_SEND}"
)
_ANOTHER_TYPE = f"{_SEND}, since the type of its component changed"
_SURROUNDINGS = f"{_SEND}, since what stands beside it changed"


class SecretKeeper:
    """Finds the stored secret for each `(sensitive)`."""

    def __init__(
        self, incoming: dict[str, Value], masked: dict[str, Value], *, held: Mapping[Pointer, Value], lookup: Lookup
    ) -> None:
        self._incoming = incoming
        self._masked = masked
        self._held = held
        self._lookup = lookup
        self._matching = Matching(incoming, masked)
        self._obstacles: dict[tuple[Pointer, bool], str | None] = {}

    def of(self, place: Pointer) -> Pointer | str:
        """Return the place of the stored secret, or the reason why none can be kept."""
        found = self._matching.find(place)
        if found is None or found not in self._held:
            return NOTHING_STORED
        kind, node = _component(self._incoming["kind"], place)
        is_parameter = place[len(node)] == "parameters"
        # The answer is the same for all secrets of a component.
        if (node, is_parameter) not in self._obstacles:
            old, new = (
                model_values.value_at(self._masked, found[: len(node)]),
                model_values.value_at(self._incoming, node),
            )
            self._obstacles[node, is_parameter] = self._obstacle(old, new, kind if is_parameter else "")
        return self._obstacles[node, is_parameter] or found

    def _obstacle(self, old: Value, new: Value, kind: str) -> str | None:
        """Return why the secrets of a component are not kept. `kind` is empty outside the parameters of components."""
        before, after = (node.get("type") if isinstance(node, dict) else None for node in (old, new))
        if not kind or not isinstance(after, str):
            return None if model_values.is_same(self._alone(old), self._alone(new)) else _SURROUNDINGS
        if not isinstance(before, str) or unversioned(before) != unversioned(after):
            return _ANOTHER_TYPE
        key = Key(f"{kind}Type", unversioned(after))
        given = given_parameters(old), given_parameters(new)
        names = changed_endpoint(*given, type_key=key, component_type=self._lookup(key))
        return f"{_SEND}, since {_shown(names)} changed, which may say where it is sent" if names else None

    def _alone(self, node: Value) -> Value:
        """Return a component or a spec without its nested components, which have their own rules."""
        if not isinstance(node, dict) or self._incoming["kind"] not in {"Configuration", *KINDS}:
            return node
        return {key: value for key, value in node.items() if key not in LISTS}


def _component(kind: Value, place: Pointer) -> tuple[str, Pointer]:
    """Return the innermost component around a place, and its kind; at the top this is the spec, whose kind may be
    empty.
    """
    lists = LISTS if kind == "Configuration" else NESTED if kind in KINDS else {}
    inner, length = str(kind) if kind in KINDS else "", 1
    while len(place) > length + 1 and place[length] in lists and isinstance(place[length + 1], int):
        inner, lists, length = lists[str(place[length])], NESTED, length + 2
    return inner, place[:length]


def _shown(names: tuple[str, ...]) -> str:
    told = listed([name[:LONGEST_NAME] for name in names[:MOST_NAMES]])
    return told if len(names) <= MOST_NAMES else f"{told} and {len(names) - MOST_NAMES} more"


Secrets = tuple[tuple[Pointer, Value], ...]
"""Values by their places, from the document's root down."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of restoring: the document with secrets in place of each permitted `(sensitive)`, and violations for
    the others.

    Pointers of violations are those of the incoming document, all others those of `document`. `united` joins `secrets`
    with those by type. `kept` are the places where a secret replaced `(sensitive)`. `secrets` are former secrets with
    unchanged values: they stay secrets, even if they are not marked any more. `once_secret` are the places of former
    secrets, with any present value: a dry run hides these, because it must not confirm a guessed secret.
    """

    document: dict[str, Value] = field(repr=False)
    violations: tuple[Violation, ...] = ()  # each `of_parameter`, in document order
    kept: tuple[Pointer, ...] = ()
    secrets: Secrets = field(default=(), repr=False)
    once_secret: tuple[Pointer, ...] = ()


def restored(
    incoming: dict[str, Value],
    *,
    masked: dict[str, Value] | None,
    secrets: Mapping[str, Value],
    lookup: Lookup,
    accept_invalid: bool,
) -> Restored:
    """Restore the secrets of a document that may contain `(sensitive)`.

    `masked` is the stored document under the same key, or None, and `secrets` are its secrets by JSON pointer. `lookup`
    finds the types in force. `accept_invalid`: a value that breaks a rule here counts as missing and is left out of the
    document.
    """
    places = find_placeholders(incoming)
    if masked is None:
        told = [(place, NOTHING_STORED) for place in places]
        return _result(incoming, told, kept={}, accept_invalid=accept_invalid)
    held = model_values.by_place(masked, secrets)
    keeping = SecretKeeper(incoming, masked, held=held, lookup=lookup)
    decided = [(place, keeping.of(place)) for place in places]
    kept = {place: held[found] for place, found in decided if isinstance(found, tuple)}
    told = [(place, found) for place, found in decided if isinstance(found, str)]
    result = _result(incoming, told, kept=kept, accept_invalid=accept_invalid)
    once = tuple(_still(result.document, masked, held))
    now = [(place, model_values.value_at(result.document, place), values) for place, values in once]
    stuck = {
        place: value
        for place, value, values in now
        if model_values.canonical_json(value) in values and not is_secret_reference(value)
    }
    return replace(result, secrets=tuple(stuck.items()), once_secret=tuple(dict.fromkeys(place for place, _ in once)))


def united(found: Secrets, stuck: Secrets) -> Secrets:
    """Return the secrets by type together with those that stay secrets: each place once, and none below another."""
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
    document = model_values.replaced(incoming, kept)
    places = tuple(kept)
    if accept_invalid and told:
        document = without_placeholders(document, [place for place, _ in told])
        places = tuple(_found(Matching(incoming, document), places))  # what is left out moves others up
    found = tuple(Violation(place, message, of_parameter=True) for place, message in told)
    return Restored(document, violations=found, kept=places)


def _found(matching: Matching, places: Iterable[Pointer]) -> Iterator[Pointer]:
    for place in places:
        found = matching.find(place)
        if found is not None:
            yield found


def _still(
    document: dict[str, Value], masked: dict[str, Value], held: Mapping[Pointer, Value]
) -> Iterator[tuple[Pointer, Collection[bytes]]]:
    """Return the expected places of the stored secrets in the document, each with the secrets that it may hold, in
    canonical form.

    For a component without an identity, or with a new name, there is no such place. Then its secrets may be in any
    parameter of the same name. Only equal values are hidden there, so a mistake reveals nothing.
    """
    matching = Matching(masked, document)
    lost: dict[Pointer, bytes] = {}
    for place, value in held.items():
        found = matching.find(place)
        if found is None:
            lost[place] = model_values.canonical_json(value)
        else:
            yield found, (model_values.canonical_json(value),)
    by_name: dict[Called, set[bytes]] = {}
    for place, name in _named_values(masked) if lost else ():
        if place in lost:
            by_name.setdefault(name, set()).add(lost[place])
    for place, name in _named_values(document) if lost else ():
        if name in by_name:
            yield place, by_name[name]
