"""Differing: every difference of two documents is told once, where it stands, and never a secret."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from reconciler.model import desired, diffs
from reconciler.model.components import MASK
from reconciler.model.diffs import Differing
from reconciler.model.plan import SENSITIVE_CHANGED as MASK_CHANGED
from reconciler.model.plan import PlanDifference as Difference
from reconciler.model.values import Pointer, Value
from tests.model.documents import SCALARS, VALUES, at, mutated, pointers, replaced

CANARY = "canary-hunter2"
ADDED, REMOVED, CHANGED, REORDERED = Difference

# Entries and values of which many are equal, or would be in Python.
FEW: st.SearchStrategy[Value] = st.recursive(
    st.sampled_from([0, 1, True, False, None, "", "a", "b", "1", 1.5]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=6),
        st.dictionaries(st.sampled_from(["id", "name", "displayName", "type", "value"]), inner, max_size=3),
        st.builds(lambda name, value: {"name": name, "value": value}, st.sampled_from("abc"), inner),
    ),
    max_leaves=25,
)
DOCUMENTS: st.SearchStrategy[Any] = st.one_of(
    mutated(), st.dictionaries(st.text(max_size=3), VALUES, max_size=4), st.builds(lambda spec: {"spec": spec}, FEW)
)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """Two documents; half of the time, one is made of the other."""
    old = draw(DOCUMENTS)
    if draw(st.booleans()):
        return old, draw(DOCUMENTS)
    place = draw(st.sampled_from(pointers(old)[1:] or [("spec",)]))
    value = at(old, place) if place[0] in old else None
    shuffled = draw(st.permutations(value)) if isinstance(value, list) else draw(FEW)
    return old, replaced(old, place, shuffled)


def told(old: Any, new: Any, **options: Any) -> list[Differing]:
    return list(diffs.differences(old, new, **options))


def seen(old: Any, new: Any, **options: Any) -> list[tuple[Any, ...]]:
    """Without pointers: path, what happened, and what is shown."""
    found = told(old, new, **options)
    return [(one.path, one.difference, *(each for each in (one.old, one.new) if each is not UNSET)) for one in found]


def parameters(**values: Value) -> dict[str, Value]:
    """A document with these parameters."""
    return {"spec": {"parameters": [{"name": name, "value": value} for name, value in values.items()]}}


def spec(value: Value) -> dict[str, Value]:
    return {"spec": value}


def test_all_of_a_difference_is_told() -> None:
    old, new = parameters(a=1, b=[2]), parameters(b=[3], c=None)

    assert told(old, new) == [
        Differing(
            "spec.parameters[a]",
            REMOVED,
            old_pointer=("spec", "parameters", 0),
            new_pointer=None,
            old={"name": "a", "value": 1},
        ),
        Differing(
            "spec.parameters[b].value[0]",
            REMOVED,
            old_pointer=("spec", "parameters", 1, "value", 0),
            new_pointer=None,
            old=2,
        ),
        Differing(
            "spec.parameters[b].value[0]",
            ADDED,
            old_pointer=None,
            new_pointer=("spec", "parameters", 0, "value", 0),
            new=3,
        ),
        Differing(
            "spec.parameters[c]",
            ADDED,
            old_pointer=None,
            new_pointer=("spec", "parameters", 1),
            new={"name": "c", "value": None},
        ),
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # Scalars: what Python takes for equal is not.
        (1, 1, []),
        (1, True, [("spec", CHANGED, 1, True)]),
        ("1", 1, [("spec", CHANGED, "1", 1)]),
        (None, "", [("spec", CHANGED, None, "")]),
        (2**60, float(2**60), [("spec", CHANGED, 2**60, float(2**60))]),
        ("a\nb\n", "a\nc\n", [("spec", CHANGED, "a\nb\n", "a\nc\n")]),
        # Mappings.
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
        ({"a": None}, {}, [("spec.a", REMOVED, None)]),
        ({}, {"a": {"b": 1}}, [("spec.a", ADDED, {"b": 1})]),
        (
            {"a": 1, "b": 2, "c": 3, "d": 4},
            {"x": 0, "d": 4, "b": 5},
            [
                ("spec.a", REMOVED, 1),
                ("spec.x", ADDED, 0),
                ("spec.b", CHANGED, 2, 5),
                ("spec.c", REMOVED, 3),
            ],
        ),
        # Another type.
        ({"a": 1}, [1], [("spec", CHANGED, {"a": 1}, [1])]),
        ([1], "a", [("spec", CHANGED, [1], "a")]),
        # Lists of scalars.
        (["a", "b"], ["b", "a"], [("spec", REORDERED, ["a", "b"], ["b", "a"])]),
        (["a", "b", "c"], ["a", "x", "c"], [("spec[1]", REMOVED, "b"), ("spec[1]", ADDED, "x")]),
        (["a", "b"], ["x", "a", "b", "y"], [("spec[0]", ADDED, "x"), ("spec[3]", ADDED, "y")]),
        (["a", "a", "b"], ["a", "b"], [("spec[1]", REMOVED, "a")]),
        (["a", "b", "a"], ["a", "a", "b"], [("spec", REORDERED, ["a", "b", "a"], ["a", "a", "b"])]),
        ([], ["a"], [("spec[0]", ADDED, "a")]),
        ([1, "a"], [True, "a"], [("spec[0]", REMOVED, 1), ("spec[0]", ADDED, True)]),
        # Lists of named things.
        (
            [{"name": "a", "v": 1}, {"name": "b", "v": 1}],
            [{"name": "b", "v": 2}, {"name": "a", "v": 1}],
            [("spec", REORDERED, ["a", "b"], ["b", "a"]), ("spec[b].v", CHANGED, 1, 2)],
        ),
        (
            [{"name": "a"}, {"name": "b"}],
            [{"name": "b"}, {"name": "c"}],
            [("spec[a]", REMOVED, {"name": "a"}), ("spec[c]", ADDED, {"name": "c"})],
        ),
        ([{"id": "1", "name": "a"}], [{"id": "1", "name": "b"}], [('spec["1"].name', CHANGED, "a", "b")]),
        ([{"displayName": "a", "v": 1}], [{"displayName": "a"}], [("spec[a].v", REMOVED, 1)]),
        # Names that occur twice are matched in order, and told by index.
        (
            [{"name": "a", "v": 1}, {"name": "a", "v": 2}],
            [{"name": "a", "v": 1}, {"name": "a", "v": 3}, {"name": "a"}],
            [("spec[1].v", CHANGED, 2, 3), ("spec[2]", ADDED, {"name": "a"})],
        ),
        # Lists of nameless things: equal ones first, then those that are alike.
        ([{"v": 1}, {"w": 2}], [{"v": 1}, {"w": 3}], [("spec[1].w", CHANGED, 2, 3)]),
        (
            [{"type": "a", "v": 1}, {"type": "b", "v": 1}],
            [{"type": "b", "v": 2}],
            [("spec[0]", REMOVED, {"type": "a", "v": 1}), ("spec[0].v", CHANGED, 1, 2)],
        ),
        ([{"v": 1}, {"v": 2}], [{"v": 2}, {"v": 1}], [("spec", REORDERED, ["[0]", "[1]"], ["[1]", "[0]"])]),
        ([[1, 2], [3]], [[1, 2], [3, 4]], [("spec[1][1]", ADDED, 4)]),
        (
            [{"name": "a"}, {"v": 1}, "s"],
            [{"v": 1}, {"w": 1}, {"name": "a"}, "s"],
            [
                ("spec", REORDERED, ["a", "[1]", "s"], ["[1]", "[+1]", "a", "s"]),
                ("spec[1]", ADDED, {"w": 1}),
            ],
        ),
    ],
)
def test_what_differs_is_told_so(old: Value, new: Value, expected: list[tuple[Any, ...]]) -> None:
    assert seen(spec(old), spec(new)) == expected


def test_nothing_has_no_fields() -> None:
    assert seen(None, None) == []
    assert seen(None, {"kind": "Fleet"}) == [("kind", ADDED, "Fleet")]
    assert seen({"kind": "Fleet"}, None) == [("kind", REMOVED, "Fleet")]


@given(pairs())
def test_digests_are_equal_exactly_when_nothing_differs(pair: tuple[Any, Any]) -> None:
    digests = {desired.digest(each, hmac_key=b"k" * 32) for each in pair}

    assert (len(digests) == 1) == (told(*pair) == [])


@given(pairs())
def test_a_difference_says_where_it_is_in_both(pair: tuple[Any, Any]) -> None:
    old, new = copy.deepcopy(pair)
    for one in told(*pair):
        if one.difference is not REORDERED:
            assert one.old == (UNSET if one.old_pointer is None else at(old, one.old_pointer))
            assert one.new == (UNSET if one.new_pointer is None else at(new, one.new_pointer))
        else:
            assert one.old_pointer is not None
            assert one.new_pointer is not None
            assert len(at(new, one.new_pointer)) == len(one.new)  # type: ignore[arg-type]
        assert not one.sensitive
    assert (old, new) == pair


@given(pairs())
def test_nothing_is_told_twice(pair: tuple[Any, Any]) -> None:
    found = [(one.difference, one.old_pointer, one.new_pointer) for one in told(*pair)]
    assert len(found) == len(set(found))

    changed = [one for one in told(*pair) if one.difference is not REORDERED]
    for side in ([one.old_pointer for one in changed], [one.new_pointer for one in changed]):
        places = {place for place in side if place is not None}
        assert not any(place[:end] in places for place in places for end in range(len(place)))


TOKEN: Pointer = ("spec", "parameters", 0, "value")


@pytest.mark.parametrize(
    ("old", "new", "old_at", "new_at", "expected"),
    [
        # A secret that differs, or not.
        (CANARY, CANARY, [()], [()], []),
        (CANARY, f"{CANARY}2", [()], [()], [("", CHANGED, MASK, MASK_CHANGED)]),
        # It becomes one, or is none any more.
        (CANARY, f"{CANARY}2", [], [()], [("", CHANGED, MASK, MASK_CHANGED)]),
        (CANARY, f"{CANARY}2", [()], [], [("", CHANGED, MASK, MASK_CHANGED)]),
        (CANARY, CANARY, [()], [], []),
        # In a map, each value.
        ({"k": CANARY}, {"k": f"{CANARY}2"}, [("k",)], [("k",)], [(".k", CHANGED, MASK, MASK_CHANGED)]),
        (
            {"k": CANARY},
            {"k": CANARY, "l": CANARY},
            [("k",)],
            [("k",), ("l",)],
            [(".l", ADDED, MASK)],
        ),
        ({"k": CANARY, "l": CANARY}, {"k": CANARY}, [], [("k",)], [(".l", REMOVED, MASK)]),
        ({"k": CANARY}, {"k": CANARY, "l": CANARY}, [("k",)], [], [(".l", ADDED, MASK)]),
        # Another type: nobody can say what corresponds.
        ({"k": CANARY}, f"{CANARY}2", [("k",)], [], [("", CHANGED, MASK, MASK_CHANGED)]),
        (CANARY, {"k": CANARY}, [], [("k",)], [("", CHANGED, MASK, MASK_CHANGED)]),
        ([CANARY], {"k": CANARY}, [()], [], [("", CHANGED, MASK, MASK_CHANGED)]),
        ([CANARY], [CANARY, CANARY], [(0,)], [], [("", CHANGED, MASK, MASK_CHANGED)]),
        # A reference is not the secret, and the other one may be it.
        (CANARY, "${env:TOKEN}", [()], [], [("", CHANGED, MASK, "${env:TOKEN}")]),
        (CANARY, "${env:TOKEN}", [], [], [("", CHANGED, MASK, "${env:TOKEN}")]),
        ("${file:token}", CANARY, [], [()], [("", CHANGED, "${file:token}", MASK_CHANGED)]),
        ("${env:A}", "${env:B}", [], [], [("", CHANGED, "${env:A}", "${env:B}")]),
        ({"k": CANARY}, {"k": CANARY, "l": "${env:A}"}, [("k",)], [("k",)], [(".l", ADDED, "${env:A}")]),
    ],
)
def test_a_secret_is_told_by_its_place_alone(
    old: Value, new: Value, old_at: list[Pointer], new_at: list[Pointer], expected: list[tuple[Any, ...]]
) -> None:
    found = seen(
        parameters(token=old),
        parameters(token=new),
        old_secrets={(*TOKEN, *each): None for each in old_at},
        new_secrets=[((*TOKEN, *each), None) for each in new_at],
    )

    assert found == [(f"spec.parameters[token].value{path}", *rest) for path, *rest in expected]


def test_what_comes_or_goes_is_masked_inside() -> None:
    found = told({}, parameters(token=CANARY, retries=3), new_secrets={TOKEN: CANARY})

    masked = parameters(token=MASK, retries=3)["spec"]
    assert found == [Differing("spec", ADDED, None, ("spec",), new=masked, sensitive=True)]
    assert [one.old for one in told(parameters(token=CANARY), {}, old_secrets={TOKEN: CANARY})] == [
        parameters(token=MASK)["spec"]
    ]


@pytest.mark.parametrize("beside", [1, 2])
@pytest.mark.parametrize("key", ["id", "name", "displayName", "type", "value"])
def test_no_entry_of_a_list_is_known_by_a_secret(key: str, beside: int) -> None:
    """Beside other secrets, entries are told alike whatever theirs were: two, the same exchanged, one twice."""

    def document(first: str, second: str, beside: int) -> dict[str, Value]:
        return spec([{key: CANARY + first, "beside": beside}, {key: CANARY + second, "beside": beside}])

    new = document("8", "9", beside)
    secrets: dict[Pointer, Value] = {("spec", index, key): None for index in range(2)}
    answers = [
        told(document(*old, 1), new, old_secrets=secrets, new_secrets=secrets)
        for old in (("1", "2"), ("2", "1"), ("3", "3"))
    ]

    fields = (key,) if beside == 1 else (key, "beside")
    expected = [(f"spec[{index}].{field}", CHANGED) for index in (0, 1) for field in fields]
    assert [(one.path, one.difference) for one in answers[0]] == expected
    assert answers[1:] == answers[:1] * 2
    assert CANARY not in repr(answers)


@st.composite
def with_secrets(draw: st.DrawFn, documents: st.SearchStrategy[Any] = DOCUMENTS) -> tuple[Any, list[Pointer]]:
    """A document, and places in it of which none is beneath another."""
    document = draw(documents)
    places: list[Pointer] = []
    for place in draw(st.permutations(pointers(document)[1:]))[: draw(st.integers(0, 4))]:
        if not any(place[: len(one)] == one or one[: len(place)] == place for one in places):
            places.append(place)
    return document, places


def filled(document: Any, places: list[Pointer], value: Value) -> tuple[Any, Mapping[Pointer, Value]]:
    """The document with the same value at all places, and these as secrets."""
    for place in places:
        document = replaced(document, place, value)
    return document, dict.fromkeys(places, value)


SECRETS: st.SearchStrategy[Value] = st.sampled_from(
    [CANARY, [CANARY], {"a": CANARY}, {"name": CANARY, "value": [CANARY]}, [{"name": CANARY, "type": CANARY}]]
)


@given(with_secrets(), with_secrets(), SECRETS, SECRETS)
def test_no_secret_is_ever_told(
    before: tuple[Any, list[Pointer]], after: tuple[Any, list[Pointer]], one: Value, other: Value
) -> None:
    old, old_secrets = filled(*before, one)
    new, new_secrets = filled(*after, other)

    assert CANARY not in repr(told(old, new, old_secrets=old_secrets, new_secrets=new_secrets))


@given(with_secrets(), st.data())
def test_of_what_secrets_were_nothing_shows_beside_others(
    before: tuple[Any, list[Pointer]], data: st.DataObject
) -> None:
    """Whatever they are, the answer is the same; half of the time, the new document is the old one."""
    after = before if data.draw(st.booleans()) else data.draw(with_secrets())
    new, new_secrets = filled(*after, "another")
    answers = []
    values: list[Value] = [CANARY, f"{CANARY}2", [CANARY], {"name": CANARY}, {"name": CANARY, "type": CANARY}]
    for one in values:
        old, old_secrets = filled(*before, one)
        answers.append(told(old, new, old_secrets=old_secrets, new_secrets=new_secrets))

    assert all(answer == answers[0] for answer in answers)


@given(
    st.dictionaries(st.sampled_from("abc"), st.tuples(SECRETS, st.booleans()), max_size=3),
    st.dictionaries(st.sampled_from("abc"), st.tuples(SECRETS, st.booleans()), max_size=3),
)
def test_what_either_calls_a_secret_is_told_of_neither(
    before: dict[str, tuple[Value, bool]], after: dict[str, tuple[Value, bool]]
) -> None:
    """A parameter that both have, by name, whatever order they have and whatever types their values."""

    def document(side: dict[str, tuple[Value, bool]]) -> tuple[Any, list[tuple[Pointer, Value]]]:
        places: list[tuple[Pointer, Value]] = []
        for index, (value, sensitive) in enumerate(side.values()):
            place: Pointer = ("spec", "parameters", index, "value")
            leaves = [(*place, key) for key in value] if isinstance(value, dict) else [place]
            places += [(leaf, None) for leaf in leaves if sensitive]
        return parameters(**{name: value for name, (value, _) in side.items()}), places

    (old, old_secrets), (new, new_secrets) = document(before), document(after)
    secret = {name for side in (before, after) for name, (_, sensitive) in side.items() if sensitive}
    for one in told(old, new, old_secrets=old_secrets, new_secrets=new_secrets):
        name = one.path.partition("[")[2].partition("]")[0]
        is_in_both = name in before and name in after
        assert not (name in secret and is_in_both and CANARY in repr((one.old, one.new)))


@given(SCALARS, SCALARS)
def test_the_path_of_what_is_gone_is_that_of_the_old_document(one: Value, other: Value) -> None:
    found = seen(spec([{"name": "a", "v": one}, {"name": "b"}]), spec([{"name": "c", "v": other}]))

    assert [path for path, *_ in found] == ["spec[a]", "spec[b]", "spec[c]"]


@pytest.mark.parametrize(("length", "distinct"), [(30_000, 2), (10_000, 50), (10_000, 10_000)])
def test_long_lists_take_no_square_of_their_length(length: int, distinct: int) -> None:
    """With it, each of these would take minutes."""
    old: list[Value] = [str(index * index % distinct) for index in range(length)]
    new = [*old[length // 3 :], "x", *old[: length // 3]]
    found = told(spec(old), spec(new))

    gone = sum(one.difference is REMOVED for one in found)
    assert sum(one.difference is ADDED for one in found) == gone + 1
    assert gone < length


def test_long_lists_of_things_take_no_square_of_their_length() -> None:
    named: list[Value] = [{"name": str(index), "value": index} for index in range(10_000)]
    nameless: list[Value] = [{"value": index} for index in range(10_000)]
    others: list[Value] = [{"value": -index} for index in range(10_000)]

    assert [one.difference for one in told(spec(named), spec(named[::-1]))] == [REORDERED]
    assert len(told(spec(nameless), spec(others))) == 9_999


def test_long_texts_are_told_as_they_are() -> None:
    old, new = "a" * 10_000_000, "a" * 10_000_000 + "b"
    [found] = told(spec(old), spec(new))

    assert found.old is old
    assert found.new is new


def test_nesting_as_deep_as_a_file_may_have_is_walked() -> None:
    def nested(inner: Value) -> Any:
        for _ in range(50):
            inner = {"k": [inner]}
        return inner

    [found] = told(nested({"a": 1}), nested({"a": 2}))
    assert found.path == ".".join(["k[0]"] * 50) + ".a"
