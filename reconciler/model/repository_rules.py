"""The settings of a repository that decide what a commit of it means."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

import msgspec

from reconciler.model.names import Key


@dataclass(frozen=True, slots=True)
class PruneBudget:
    """How much may be deleted in 24 hours: so many resources at least, and so many percent of what is owned."""

    min_count: int = 3
    max_percent: int = 25

    @property
    def is_off(self) -> bool:
        """Any number may be deleted."""
        # 100 is the switch: who deletes and creates all day may delete more than there ever was.
        return self.max_percent >= 100

    def covers(self, deletions: int, *, owned: int) -> bool:
        """So many deletions are allowed when the repository owns so many resources."""
        return self.is_off or deletions <= self.min_count or deletions * 100 <= self.max_percent * owned

    def spares(self, deletions: int, *, owned: int) -> bool:
        """So many deletions by one head leave enough: one may always go, more only with at most half."""
        return self.is_off or deletions < 2 or deletions * 2 <= owned


class RepositoryRules(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is the repository's. `include` and `exclude` are patterns of files; no pattern includes every file.

    The defaults are those of the settings.
    """

    name: str
    path: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    prune: bool = True
    prune_min_count: int = 3
    prune_max_percent: int = 25
    atomic: bool = False
    allowed_kinds: tuple[str, ...] = ("*",)
    allowed_names: tuple[str, ...] = ("*",)
    accept_invalid: bool = False

    @property
    def budget(self) -> PruneBudget | None:
        """How much may be deleted; None if nothing is ever pruned."""
        return PruneBudget(self.prune_min_count, self.prune_max_percent) if self.prune else None

    def allows(self, key: Key) -> bool:
        """Return True when the kind and the name of a resource each match a pattern of the setting `allow`."""
        is_kind = any(fnmatchcase(key.kind, pattern) for pattern in self.allowed_kinds)
        return is_kind and any(fnmatchcase(key.name, pattern) for pattern in self.allowed_names)
