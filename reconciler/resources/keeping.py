"""Which stored secret `(sensitive)` stands for, and whether it may.

Belongs here: the decision for one place. Does not: what follows from it (`restoring`).

A secret is kept in the same place (`matching`), as long as its component has the same type and goes on sending data to
the same place (`endpoints`): whoever may change a resource but not read its secrets could otherwise have them sent to
themselves. A secret outside of a component's parameters is kept while all around it stays the same, since nobody knows
what it is used for.
"""

from collections.abc import Mapping

from reconciler.documents.values import Pointer, Value
from reconciler.resources import canonical, endpoints, replacing
from reconciler.resources.components import KINDS, LISTS, NESTED, unversioned
from reconciler.resources.fitting import Lookup
from reconciler.resources.keys import Key
from reconciler.resources.matching import Matching, Unmatched
from reconciler.resources.parameters import MASK
from reconciler.resources.words import listed

MOST_NAMES = 5  # parameters named in one sentence
LONGEST_NAME = 63  # characters of each; whoever sends a document writes the names

_SEND = "send the value itself"
_STANDS = f"`{MASK}` stands for a stored secret"
MESSAGES = {
    Unmatched.ABSENT: f"{_STANDS}, and there is none here; {_SEND}",
    Unmatched.NAMELESS: f"{_STANDS}, which is found by an `id`, `name` or `displayName`, and there is none; {_SEND}",
    Unmatched.AMBIGUOUS: f"{_STANDS}, and several entries of the same name may be meant; {_SEND}",
}
_ANOTHER_TYPE = f"{_SEND}, since the type of its component changed"
_SURROUNDINGS = f"{_SEND}, since what stands beside it changed"


class Keeping:
    """Decides, place by place, which stored secret `(sensitive)` stands for."""

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
        """Where the secret is stored, or why there is none to keep."""
        found = self._matching.find(place)
        if isinstance(found, Unmatched):
            return MESSAGES[found]
        if found not in self._held:
            return MESSAGES[Unmatched.ABSENT]
        kind, node = _component(self._incoming["kind"], place)
        is_parameter = place[len(node)] == "parameters"
        # One answer for all the secrets of a component.
        if (node, is_parameter) not in self._obstacles:
            old, new = replacing.at(self._masked, found[: len(node)]), replacing.at(self._incoming, node)
            self._obstacles[node, is_parameter] = self._obstacle(old, new, kind if is_parameter else "")
        return self._obstacles[node, is_parameter] or found

    def _obstacle(self, old: Value, new: Value, kind: str) -> str | None:
        """Why the secrets of a component are not kept. `kind` is empty for what is no parameter of a component."""
        before, after = (node.get("type") if isinstance(node, dict) else None for node in (old, new))
        if not kind or not isinstance(after, str):
            return None if canonical.encode(self._alone(old)) == canonical.encode(self._alone(new)) else _SURROUNDINGS
        if not isinstance(before, str) or unversioned(before) != unversioned(after):
            return _ANOTHER_TYPE
        key = Key(f"{kind}Type", unversioned(after))
        names = endpoints.changed(_parameters(old), _parameters(new), type_key=key, component_type=self._lookup(key))
        return f"{_SEND}, since {_shown(names)} changed, which may say where it is sent" if names else None

    def _alone(self, node: Value) -> Value:
        """A component, or a spec, without the components in it, which have rules of their own."""
        if not isinstance(node, dict) or self._incoming["kind"] not in {"Configuration", *KINDS}:
            return node
        return {key: value for key, value in node.items() if key not in LISTS}


def _component(kind: Value, place: Pointer) -> tuple[str, Pointer]:
    """The innermost component that a place is in, and its kind; at least the spec, whose kind may be empty."""
    lists = LISTS if kind == "Configuration" else NESTED if kind in KINDS else {}
    inner, length = str(kind) if kind in KINDS else "", 1
    while len(place) > length + 1 and place[length] in lists and isinstance(place[length + 1], int):
        inner, lists, length = lists[str(place[length])], NESTED, length + 2
    return inner, place[:length]


def _parameters(node: Value) -> list[Value]:
    given = node.get("parameters") if isinstance(node, dict) else None
    return given if isinstance(given, list) else []


def _shown(names: tuple[str, ...]) -> str:
    told = listed([name[:LONGEST_NAME] for name in names[:MOST_NAMES]])
    return told if len(names) <= MOST_NAMES else f"{told} and {len(names) - MOST_NAMES} more"
