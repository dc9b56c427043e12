"""What goes into a plan and what comes out: keys, digests, owners and versions. Documents stay outside.

A first read makes one of each for every document, hence structs that the garbage collector need not look at: none
leads back to itself.
"""

from dataclasses import dataclass
from enum import Enum, auto

import msgspec

from reconciler.planning.statuses import UpdateStatus
from reconciler.resources.keys import Key
from reconciler.resources.violations import Place

PRUNE_WINDOW_MILLISECONDS = 24 * 60 * 60 * 1000  # the budget of deletions is for any so long a time
BUILT_IN = "(built-in)"
"""The owner of what the service brings along; no repository can be called so."""


class Wanted(msgspec.Struct, frozen=True, gc=False):
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


class Stored(msgspec.Struct, frozen=True, gc=False):
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
    stored: Stored | None = None
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
