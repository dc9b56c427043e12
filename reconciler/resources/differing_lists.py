"""Which entries of two versions of a list correspond, and in which order both are told.

Belongs here: matching by name, by value and by likeness; it sees what tells entries apart and never the entries. Does
not: what tells them apart (`differing`), and which secret `(sensitive)` stands for: that is never guessed (`matching`).
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from reconciler.resources.matching import Identity

PAIRS_PER_ENTRY = 32
"""How many pairs of equal entries are tried, for each entry that there is, before the result is no longer the longest
there can be: a list of a few values that repeat has as many pairs as the square of its length.
"""

ABSENT = -1

Pairs: TypeAlias = dict[int, int]
"""Places in the new list by places in the old one."""


class Entry(NamedTuple):
    """What tells an entry from others. What has a name corresponds to what has the same, whatever is in it."""

    name: Identity | None
    value: Hashable = None  # equal for equal entries; of no interest when there is a name
    likeness: Hashable | None = None  # entries that are equal in this may be one that changed; None: never


def matched(old: Sequence[Entry], new: Sequence[Entry]) -> Pairs:
    """Which entries correspond. A name that occurs several times is matched in order.

    Of those without names, equal ones correspond: all of them when both lists hold the same, else a longest common
    subsequence. Between these, alike ones do.
    """
    pairs = _by_occurrence(
        [(index, entry.name) for index, entry in enumerate(old) if entry.name is not None],
        [(index, entry.name) for index, entry in enumerate(new) if entry.name is not None],
    )
    nameless = [[index for index, entry in enumerate(side) if entry.name is None] for side in (old, new)]
    return pairs | _nameless(old, new, *nameless)


def is_reordered(pairs: Pairs) -> bool:
    """Whether what corresponds stands in another order."""
    return any(one > next_one for one, next_one in pairwise(pairs[index] for index in sorted(pairs)))


def merged(old: int, new: int, pairs: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """All places of two lists of these lengths, in the order of the new one; ABSENT for what only one of them has.

    What is only in the old one comes where it stood, after what stood before it.
    """
    behind: dict[int, list[int]] = defaultdict(list)
    last = ABSENT
    for index in range(old):
        if index in pairs:
            last = pairs[index]
        else:
            behind[last].append(index)
    yield from ((gone, ABSENT) for gone in behind[ABSENT])
    back = {there: here for here, there in pairs.items()}
    for index in range(new):
        yield back.get(index, ABSENT), index
        yield from ((gone, ABSENT) for gone in behind.get(index, ()))


def common(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """A common subsequence, as pairs of places in order: a longest one, unless too much repeats."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    inner = _longest(_bounded(old[start : len(old) - end], new[start : len(new) - end]))
    return [
        *((index, index) for index in range(start)),
        *((start + one, start + other) for one, other in inner),
        *((len(old) - back, len(new) - back) for back in range(end, 0, -1)),
    ]


def _nameless(old: Sequence[Entry], new: Sequence[Entry], here: list[int], there: list[int]) -> Pairs:
    befores, afters = [old[index].value for index in here], [new[index].value for index in there]
    if Counter(befores) == Counter(afters):
        return _by_occurrence(list(zip(here, befores, strict=True)), list(zip(there, afters, strict=True)))
    pairs: Pairs = {}
    last_one = last_other = 0
    for one, other in [*common(befores, afters), (len(here), len(there))]:
        pairs |= _alike(old, new, here[last_one:one], there[last_other:other])
        if one < len(here):
            pairs[here[one]] = there[other]
        last_one, last_other = one + 1, other + 1
    return pairs


def _alike(old: Sequence[Entry], new: Sequence[Entry], here: list[int], there: list[int]) -> Pairs:
    here = [index for index in here if old[index].likeness is not None]
    there = [index for index in there if new[index].likeness is not None]
    found = common([old[index].likeness for index in here], [new[index].likeness for index in there])
    return {here[one]: there[other] for one, other in found}


def _by_occurrence(old: Sequence[tuple[int, Hashable]], new: Sequence[tuple[int, Hashable]]) -> Pairs:
    """The first of each value with the first, the second with the second."""
    there = dict(_occurrences(new))
    return {index: there[occurrence] for occurrence, index in _occurrences(old) if occurrence in there}


def _occurrences(entries: Sequence[tuple[int, Hashable]]) -> Iterator[tuple[tuple[Hashable, int], int]]:
    often = Counter[Hashable]()
    for index, value in entries:
        yield (value, often[value]), index
        often[value] += 1


def _bounded(old: Sequence[Hashable], new: Sequence[Hashable]) -> tuple[Sequence[Hashable], Sequence[Hashable]]:
    """The same; when too many pairs are equal, told apart by which of its equals each one is."""
    here, there = Counter(old), Counter(new)
    if sum(often * there[value] for value, often in here.items()) <= PAIRS_PER_ENTRY * (len(old) + len(new)):
        return old, new
    return [one for one, _ in _occurrences([*enumerate(old)])], [one for one, _ in _occurrences([*enumerate(new)])]


_Chain: TypeAlias = "tuple[int, int, _Chain | None]"  # the last pair of a subsequence, and what comes before it


def _longest(both: tuple[Sequence[Hashable], Sequence[Hashable]]) -> list[tuple[int, int]]:
    """A longest common subsequence, as Hunt and Szymanski find it: time grows with the pairs that are equal.

    `ends[n]` is the least place in the new list at which a subsequence of n + 1 pairs ends, `chains[n]` is that one.
    """
    old, new = both
    places: dict[Hashable, list[int]] = defaultdict(list)
    for index, value in enumerate(new):
        places[value].append(index)
    ends: list[int] = []
    chains: list[_Chain] = []
    for index, value in enumerate(old):
        for place in reversed(places.get(value, ())):  # so that one entry is not used twice
            length = bisect_left(ends, place)
            chain = (index, place, chains[length - 1] if length else None)
            ends[length : length + 1] = [place]
            chains[length : length + 1] = [chain]
    return _unchained(chains[-1] if chains else None)


def _unchained(chain: "_Chain | None") -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while chain is not None:
        one, other, chain = chain
        found.append((one, other))
    return found[::-1]
