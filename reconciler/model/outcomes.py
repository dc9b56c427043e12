"""Update statuses, and the values that a plan takes and returns."""

import hashlib
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

import msgspec

from reconciler.model.names import Key
from reconciler.model.violations import Place

# The ten update statuses and what each means for the answer. How a status is chosen is in `planner`.


class UpdateStatus(StrEnum):
    """The outcome for one resource (interface, Resource status)."""

    UNCHANGED = "unchanged"
    CONFIGURED = "configured"
    CREATED = "created"
    DELETED = "deleted"
    NOT_FOUND = "not-found"
    INVALID = "invalid"
    ERROR = "error"
    IN_USE = "in-use"
    FORBIDDEN = "forbidden"
    DEPRECATED = "deprecated"


STORED = frozenset({UpdateStatus.CREATED, UpdateStatus.CONFIGURED, UpdateStatus.DELETED})
"""The statuses that change what is stored."""

REFUSED = frozenset({UpdateStatus.INVALID, UpdateStatus.ERROR, UpdateStatus.IN_USE, UpdateStatus.FORBIDDEN})
"""The statuses that say: what was asked for is not what is stored."""

WITH_REASON = frozenset({UpdateStatus.INVALID, UpdateStatus.ERROR})
"""`reason` is present for these alone (interface, Resource status)."""


def count_statuses(statuses: Iterable[UpdateStatus]) -> dict[str, int]:
    """How often each status occurs, in the order of the enumeration; statuses that do not occur are left out."""
    counts = dict.fromkeys(UpdateStatus, 0)
    for status in statuses:
        counts[status] += 1
    return {status.value: number for status, number in counts.items() if number}


def statuses_by_kind(found: Iterable[tuple[str | None, UpdateStatus]]) -> dict[str, dict[str, int]]:
    """How often each status occurs with each kind, the kinds sorted, the statuses as in `count`; empty for no kind."""
    counted = Counter(found)
    kinds = sorted({kind or "" for kind, _ in counted})
    named = [(kind, [(one.value, counted[kind or None, one]) for one in UpdateStatus]) for kind in kinds]
    return {kind: {status: number for status, number in each if number} for kind, each in named}


def summed_statuses(kinds: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """The same whatever the kind, as `count` gives it."""
    numbers = [(status.value, sum(each.get(status.value, 0) for each in kinds.values())) for status in UpdateStatus]
    return {status: number for status, number in numbers if number}


# What goes into a plan and what comes out: keys, digests, owners and versions. Documents stay outside.
#
# A first read makes one of each for every document, hence structs that the garbage collector need not look at: none
# leads back to itself.

PRUNE_WINDOW_MILLISECONDS = 24 * 60 * 60 * 1000  # the budget of deletions is for any so long a time
BUILT_IN = "(built-in)"
"""The owner of what the service brings along; no repository can be called so."""


class WantedState(msgspec.Struct, frozen=True, gc=False):
    """One document that somebody wants stored, or one key that somebody wants gone.

    `ordinal` is its place in the request, or its rank by path and position in a commit; the outcomes keep that order.
    `key` is None when kind or name could not be read. `reason` holds every violation, one a line, and is None exactly
    when the document is valid; `digest` is what equality is decided on. `allowed` is False for what a repository's
    `allow` setting leaves out. `conflict` says that it was made from another version than the stored one, where that
    counts. `fault` says what failed outside of the document, so that nobody can judge it. `recent`
    holds what recent rules have against it, one a line: a reason unless the same is stored, and then a note.
    """

    ordinal: int
    key: Key | None
    digest: bytes = b""
    reason: str | None = None
    place: Place | None = None
    deprecated: bool = False
    allowed: bool = True
    fault: str | None = None
    conflict: str | None = None
    recent: str | None = None


class StoredState(msgspec.Struct, frozen=True, gc=False):
    """What a plan must know of a stored resource; `owner` is a repository, None for the API, or `BUILT_IN`."""

    key: Key
    digest: bytes
    version: int
    owner: str | None
    path: str | None = None
    line: int | None = None
    protected: bool = False
    incomplete: bool = False  # its status says what is missing
    drifted: bool = False  # the API stored it while its owner was suspended
    renewed: bool = False  # `digest` is what the store should have: an earlier version computed another one
    damaged: bool = False  # what is stored is not what was; the digest is that of what was


class Change(Enum):
    """What an outcome does to the store."""

    __hash__ = object.__hash__  # each is one object; that of an enumeration is a call of Python's for every outcome

    NONE = auto()
    CREATE = auto()
    UPDATE = auto()
    DELETE = auto()
    REPLACE_HEAD = auto()  # the same version, but another owner or another place in the repository
    RENEW = auto()  # the same version, owner and place; its digest is computed in another way
    RESTORE = auto()  # the same version, which is damaged, made anew of an equal document


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What becomes of one wanted document, or of one stored resource that is to go (then `ordinal` is None)."""

    key: Key | None
    status: UpdateStatus
    change: Change = Change.NONE
    ordinal: int | None = None
    reason: str | None = None
    stored: StoredState | None = None
    users: tuple[Key, ...] = ()  # of what is in use: the resources that refer to it, in order
    notes: tuple[str, ...] = ()  # what else to know of it, a sentence each; a `reason` says why it is refused

    def is_of_another(self, repository: str) -> bool:
        """Whether what is stored belongs to another repository: it may be free one day."""
        return self.stored is not None and self.stored.owner not in (None, BUILT_IN, repository)


@dataclass(frozen=True, slots=True)
class PruneWindow:
    """The last 24 hours of a repository: the most that it owned before a deletion, and the deletions not approved."""

    owned: int = 0
    deleted: int = 0


# Footprints: what a plan looked at and may change, and what a commit touched, as sorted hashes. Pure.
#
# Two footprints that do not meet have nothing in common. Two that do nearly always have; hashes that happen to be equal
# cost a plan that is made again, and nothing else.
#
# Six sorts of facts, which share no hash: what is stored under a key, which resources refer to a key, who has an id,
# what a repository owns, what is remembered of a repository (its head's files, what is held, its state), and a project
# as a whole. Of the last there are two. Every plan of a project looks at its `ALL`, so that a commit that may have
# touched anything there touches that. Every commit to a project touches its `SOME`, so that a plan that may have looked
# at anything there looks at that.

WIDTH = 8  # bytes of a hash
EVERYTHING = b""
"""The footprint of a plan that may have looked at anything, and of a commit that may have touched anything, of
whichever project.
"""
ALL, SOME = "all", "some"
PAST_ROUTES = Key("past routes", "")
"""Stands for all that is remembered of a project's routes, which few changes touch: no resource has such a kind."""
OF_PLAN, OF_COMMIT, OF_BOTH = (ALL,), (SOME,), (ALL, SOME)


def footprint_of(
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


def footprint_of_all(project: str) -> bytes:
    """That of a plan that may have looked at anything in a project, and of a commit that may have touched anything."""
    return footprint_of(project, (), whole=OF_BOTH)


def footprints_meet(one: bytes, other: bytes) -> bool:
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
