"""The settings of a repository that decide what a commit of it means."""

from fnmatch import fnmatchcase

import msgspec

from reconciler.model.names import Key


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

    def allows(self, key: Key) -> bool:
        """Return True when the kind and the name of a resource each match a pattern of the setting `allow`."""
        is_kind = any(fnmatchcase(key.kind, pattern) for pattern in self.allowed_kinds)
        return is_kind and any(fnmatchcase(key.name, pattern) for pattern in self.allowed_names)
