"""Footprints: what a plan looked at and may change, and what a commit touched, as sorted hashes. Pure.

Two footprints that do not meet have nothing in common. Two that do nearly always have; hashes that happen to be equal
cost a plan that is made again, and nothing else.

Belongs here: facts of the store as 64 bits each, and whether two footprints share one. Does not: which facts a plan
looks at (`reading.noting`), or a commit touches (`store.moving`).

Six sorts of facts, which share no hash: what is stored under a key, which resources refer to a key, who has an id, what
a repository owns, what is remembered of a repository (its head's files, what is held, its state), and a project as a
whole. Of the last there are two. Every plan of a project looks at its `ALL`, so that a commit that may have touched
anything there touches that. Every commit to a project touches its `SOME`, so that a plan that may have looked at
anything there looks at that.
"""

import hashlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable

from reconciler.resources.keys import Key

WIDTH = 8  # bytes of a hash
EVERYTHING = b""
"""The footprint of a plan that may have looked at anything, and of a commit that may have touched anything, of
whichever project.
"""
ALL, SOME = "all", "some"
PAST_ROUTES = Key("past routes", "")
"""Stands for all that is remembered of a project's routes, which few changes touch: no resource has such a kind."""
OF_PLAN, OF_COMMIT, OF_BOTH = (ALL,), (SOME,), (ALL, SOME)


def of(
    project: str,
    keys: Iterable[Key],
    *,
    ids: Iterable[str] = (),
    targets: Iterable[Key] = (),
    owners: Iterable[str] = (),
    repositories: Iterable[str] = (),
    whole: Iterable[str] = (),
) -> bytes:
    """The footprint of facts of a project: what is stored under `keys`, who has these `ids`, what refers to `targets`,
    what the repositories `owners` own and what is remembered of `repositories`, of whichever project; and of `whole`,
    which is `OF_PLAN` for a plan and `OF_COMMIT` for a commit.

    Of no fact at all it is `EVERYTHING`. It is the same in every process of a machine.
    """
    found = [*_keyed("stored", project, keys), *_keyed("referring", project, targets)]
    found += [*_named(("id", project), ids), *_named(("owned",), owners), *_named(("remembered",), repositories)]
    found += _named(("whole", project), whole)
    # In this machine's own order of bytes: footprints never leave it, and are searched as numbers.
    return array("Q", sorted(array("Q", b"".join(found)))).tobytes()


def of_all(project: str) -> bytes:
    """That of a plan that may have looked at anything in a project, and of a commit that may have touched anything."""
    return of(project, (), whole=OF_BOTH)


def meets(one: bytes, other: bytes) -> bool:
    """Whether two footprints share a fact; `EVERYTHING` meets whatever there is. Cheap when one of them is small."""
    if EVERYTHING in (one, other):
        return True
    few, many = sorted((memoryview(one).cast("Q"), memoryview(other).cast("Q")), key=len)
    if few[-1] < many[0] or many[-1] < few[0]:
        return False
    at = 0
    for fact in few:
        at = bisect_left(many, fact, at)
        if at == len(many):
            return False
        if many[at] == fact:
            return True
    return False


def _keyed(sort: str, project: str, keys: Iterable[Key]) -> list[bytes]:
    """What is hashed first is the same for all keys of a kind, of which there are a few among 200,000."""
    kinds: dict[str, hashlib.blake2b] = {}
    found = []
    for kind, name in keys:
        begun = kinds.get(kind)
        if begun is None:
            begun = kinds[kind] = hashlib.blake2b(_text(sort, project, kind), digest_size=WIDTH)
        hashed = begun.copy()
        hashed.update(name.encode("utf-8", "surrogatepass"))
        found.append(hashed.digest())
    return found


def _named(before: tuple[str, ...], names: Iterable[str]) -> list[bytes]:
    return [hashlib.blake2b(_text(*before, name), digest_size=WIDTH).digest() for name in names]


def _text(*parts: str) -> bytes:
    return b"".join(part.encode("utf-8", "surrogatepass") + b"\0" for part in parts)
