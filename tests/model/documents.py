"""Documents to test with: every example of every schema, and random changes to them."""

from typing import Any

from hypothesis import strategies as st

import schemas
from reconciler.model import names
from reconciler.model.values import Pointer, Value

API_VERSIONS = frozenset({"service/v1"})

EXAMPLES: list[dict[str, Any]] = [example for kind in names.KINDS for example in schemas.load(kind.name)["examples"]]

SCALARS: st.SearchStrategy[Value] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: not number.is_integer()),
    st.text(max_size=8),
)
VALUES: st.SearchStrategy[Value] = st.recursive(
    SCALARS,
    lambda children: st.one_of(
        st.lists(children, max_size=4), st.dictionaries(st.text(max_size=5), children, max_size=4)
    ),
    max_leaves=12,
)
KEYS = st.one_of(
    st.sampled_from(
        ["name", "type", "parameters", "processors", "raw", "sources", "value", "sensitive", "labels", "id"]
    ),
    st.text(max_size=5),
)
REPLACEMENTS: st.SearchStrategy[Value] = st.one_of(
    VALUES,
    st.sampled_from(["", "a", "a:1", "a/b", "-a", "a\n", "é", "x" * 63, "x" * 64, "x" * 128, "x" * 129, "service/v1"]),
    st.just([]),
    st.builds(dict),
)


def pointers(value: Value, above: Pointer = ()) -> list[Pointer]:
    """Every place in a value, the root included."""
    children: list[tuple[str | int, Value]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    return [above, *(below for step, child in children for below in pointers(child, (*above, step)))]


def replaced(value: Any, pointer: Pointer, new: Value) -> Any:
    """A copy of the value with something else at a place."""
    if not pointer:
        return new
    copy = value.copy()
    copy[pointer[0]] = replaced(value[pointer[0]], pointer[1:], new) if pointer[1:] else new
    return copy


def removed(value: Any, pointer: Pointer) -> Any:
    """A copy of the value without what is at a place."""
    copy = value.copy()
    if len(pointer) == 1:
        del copy[pointer[0]]
    else:
        copy[pointer[0]] = removed(value[pointer[0]], pointer[1:])
    return copy


def at(value: Any, pointer: Pointer) -> Any:
    for step in pointer:
        value = value[step]
    return value


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Value]:
    """An example with up to three random changes, its kind left alone."""
    document: dict[str, Value] = draw(st.sampled_from(EXAMPLES))
    for _ in range(draw(st.integers(0, 3))):
        places = [place for place in pointers(document) if place and place != ("kind",)]
        if not places:
            break
        place = draw(st.sampled_from(places))
        change = draw(st.sampled_from(["replace", "remove", "add"]))
        inside = at(document, place)
        if change == "add" and isinstance(inside, dict):
            document = replaced(document, place, {**inside, draw(KEYS): draw(REPLACEMENTS)})
        elif change == "add" and isinstance(inside, list):
            document = replaced(document, place, [*inside, draw(REPLACEMENTS)])
        elif change == "remove":
            document = removed(document, place)
        else:
            document = replaced(document, place, draw(REPLACEMENTS))
    return document
