"""Resources in use: held against a search through every set of what might go."""

from itertools import combinations, pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.names import Key
from reconciler.planner import planner

NAMES = "abcdef"
KEYS = {name: Key("Destination", name) for name in NAMES}
References = dict[Key, set[Key]]


def references(text: str) -> References:
    """`a>b` where a refers to b."""
    found: References = {}
    for user, target in (each.split(">") for each in text.split()):
        found.setdefault(KEYS[target], set()).add(KEYS[user])
    return found


def staying(leaving: str, text: str) -> dict[str, str]:
    found = planner.resources_in_use([KEYS[name] for name in leaving], references(text))
    return {key.name: "".join(user.name for user in users) for key, users in found.items()}


@pytest.mark.parametrize(
    ("leaving", "refer", "expected"),
    [
        ("", "a>b", {}),
        ("a", "", {}),
        ("a", "a>b", {}),
        ("b", "a>b", {"b": "a"}),
        ("ab", "a>b", {}),
        ("b", "a>b c>b", {"b": "ac"}),
        ("ab", "a>b c>b", {"b": "c"}),
        # What stays keeps what it refers to, and so on.
        ("bc", "a>b b>c", {"b": "a", "c": "b"}),
        ("abc", "a>b b>c", {}),
        # A circle goes together or stays whole.
        ("ab", "a>b b>a", {}),
        ("ab", "a>b b>a c>a", {"a": "bc", "b": "a"}),
        # Nothing keeps itself, and it does not say so.
        ("a", "a>a", {}),
        ("a", "a>a b>a", {"a": "b"}),
        # Those that go are not named among those that keep it.
        ("bc", "a>b c>b", {"b": "a"}),
    ],
)
def test_what_a_resource_that_stays_refers_to_stays(leaving: str, refer: str, expected: dict[str, str]) -> None:
    assert staying(leaving, refer) == expected


def going(leaving: set[Key], found: References) -> set[Key]:
    """The largest set of them that nothing outside of it refers to, by looking at every set."""
    for size in range(len(leaving), 0, -1):
        for chosen in map(set, combinations(sorted(leaving), size)):
            if all(found.get(target, set()) <= chosen for target in chosen):
                return chosen
    return set()


SOME = st.sets(st.sampled_from(list(KEYS.values())))
REFERENCES = st.dictionaries(st.sampled_from(list(KEYS.values())), SOME)


@given(SOME, REFERENCES)
def test_as_much_goes_as_can(leaving: set[Key], found: References) -> None:
    kept = leaving - going(leaving, found)
    after = set(KEYS.values()) - leaving | kept

    result = planner.resources_in_use(leaving, found)

    assert result == {target: tuple(sorted(found[target] & after - {target})) for target in kept}
    assert list(result) == sorted(kept)


@given(SOME.map(sorted), REFERENCES, st.randoms())
def test_no_order_matters(leaving: list[Key], found: References, random: Random) -> None:
    shuffled = random.sample(leaving, len(leaving))
    again = {target: random.sample(sorted(found[target]), len(found[target])) for target in found}

    assert list(planner.resources_in_use(shuffled, again).items()) == list(
        planner.resources_in_use(leaving, found).items()
    )


def test_a_long_chain_takes_no_recursion() -> None:
    chain = [Key("Destination", f"{number:05}") for number in range(20_000)]
    refer = {target: [user] for user, target in pairwise(chain)}

    assert len(planner.resources_in_use(chain[1:], refer)) == len(chain) - 1
    assert planner.resources_in_use(chain, refer) == {}
