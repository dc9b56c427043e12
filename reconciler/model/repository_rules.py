"""The settings of a repository that decide what a commit of it means."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

import msgspec

from reconciler.model.names import Key


@dataclass(frozen=True, slots=True)
class PruneBudget:
    """The limit on deletions in 24 hours: a number of resources, or a percentage of the owned ones if that is more."""

    min_count: int = 3
    max_percent: int = 25

    @property
    def is_off(self) -> bool:
        """True if any number may be deleted."""
        # 100 switches the limit off, because repeated deleting and creating may exceed 100 % of the resources.
        return self.max_percent >= 100

    def covers(self, deletions: int, *, owned: int) -> bool:
        """Return True if this number of deletions is allowed for a repository with `owned` resources."""
        return self.is_off or deletions <= self.min_count or deletions * 100 <= self.max_percent * owned

    def spares(self, deletions: int, *, owned: int) -> bool:
        """Return True if one head may delete this number of resources: one is always allowed, more only up to half of
        them.
        """
        return self.is_off or deletions < 2 or deletions * 2 <= owned


class RepositoryRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of the repository `name`. `include` and `exclude` are patterns of files; without `include`, every file
    is included. The defaults are those of the settings.
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
        """The limit on deletions; None if nothing is ever pruned."""
        return PruneBudget(self.prune_min_count, self.prune_max_percent) if self.prune else None

    def allows(self, key: Key) -> bool:
        """Return True if the kind and the name of a resource each match a pattern of the setting `allow`."""
        is_kind = any(fnmatchcase(key.kind, pattern) for pattern in self.allowed_kinds)
        return is_kind and any(fnmatchcase(key.name, pattern) for pattern in self.allowed_names)
