"""Update statuses, and the values that a plan takes and returns: keys, digests, owners and versions, no documents.

The planner chooses the status. A first read makes one of each value for every document, hence structs without cycles,
which the garbage collector skips.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

import msgspec

from reconciler.model import names
from reconciler.model.names import Key


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


REFUSED = frozenset({UpdateStatus.INVALID, UpdateStatus.ERROR, UpdateStatus.IN_USE, UpdateStatus.FORBIDDEN})
"""The statuses of resources that are not stored as requested."""

WITH_REASON = frozenset({UpdateStatus.INVALID, UpdateStatus.ERROR})
"""The statuses that have a `reason` (interface, Resource status)."""


def count_statuses(statuses: Iterable[UpdateStatus]) -> dict[str, int]:
    """Count each status, in the order of the enumeration, without those that do not occur."""
    counts = dict.fromkeys(UpdateStatus, 0)
    for status in statuses:
        counts[status] += 1
    return {status.value: number for status, number in counts.items() if number}


def statuses_by_kind(found: Iterable[tuple[str | None, UpdateStatus]]) -> dict[str, dict[str, int]]:
    """Count each status for each kind. Kinds are sorted, '' is for documents without one; statuses are as in
    `count_statuses`.
    """
    counted = Counter(found)
    kinds = sorted({kind or "" for kind, _ in counted})
    named = [(kind, [(one.value, counted[kind or None, one]) for one in UpdateStatus]) for kind in kinds]
    return {kind: {status: number for status, number in each if number} for kind, each in named}


def summed_statuses(counted: Collection[Mapping[str, int]]) -> dict[str, int]:
    """Return the sum of several counts by kind."""
    numbers = [(status.value, sum(each.get(status.value, 0) for each in counted)) for status in UpdateStatus]
    return {status: number for status, number in numbers if number}


PRUNE_WINDOW_MILLISECONDS = 24 * 60 * 60 * 1000  # the period of the deletion budget
MOST_USERS = 10  # of a resource in use that a sentence names
BUILT_IN = "(built-in)"
"""The owner of built-in resources; no repository can have this name."""


class StoredState(msgspec.Struct, frozen=True, gc=False):
    """The facts of a stored resource for a plan; `owner` is a repository, None for the API, or `BUILT_IN`."""

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
    damaged: bool = False  # the stored bytes are damaged; the digest is that of the intact ones


class Change(Enum):
    """The effect of an outcome on the store."""

    __hash__ = object.__hash__  # each is one object; that of an enumeration is a call of Python's for every outcome

    NONE = auto()
    CREATE = auto()
    UPDATE = auto()
    DELETE = auto()
    REPLACE_HEAD = auto()  # the same version, but another owner or another place in the repository
    RENEW = auto()  # the same version, owner and place; its digest is computed in another way


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """The result for one wanted document, or for one stored resource that is to be deleted (then `ordinal` is None)."""

    key: Key | None
    status: UpdateStatus
    change: Change = Change.NONE
    ordinal: int | None = None
    reason: str | None = None
    stored: StoredState | None = None
    users: tuple[Key, ...] = ()  # of a resource in use: the resources that refer to it, in order
    notes: tuple[str, ...] = ()  # further remarks, one sentence each; a refusal has a `reason`

    def is_of_another(self, repository: str) -> bool:
        """True if the stored resource belongs to another repository, which may drop it later."""
        return self.stored is not None and self.stored.owner not in (None, BUILT_IN, repository)

    def why(self) -> str | None:
        """Return the reason, also for statuses without `reason`: the owner of a resource, or its users."""
        if self.reason or self.status is UpdateStatus.IN_USE:
            return self.reason or self.used_by()
        if self.status is not UpdateStatus.FORBIDDEN:
            return None
        owner = None if self.stored is None else self.stored.owner
        if owner is None:
            return "the repository's setting `allow` leaves it out"
        if owner == BUILT_IN:
            return "the name is reserved for what is built in; choose another"
        return f"owned by the repository {owner}; take it out of one of the two"

    def used_by(self) -> str:
        """Name the first few resources that refer to it."""
        told = names.named(self.users, limit=MOST_USERS)
        return f"{told} {'refers' if len(self.users) == 1 else 'refer'} to it; change that first"


@dataclass(frozen=True, slots=True)
class PruneWindow:
    """The last 24 hours of a repository: the most that it owned before a deletion, and the deletions not approved."""

    owned: int = 0
    deleted: int = 0
