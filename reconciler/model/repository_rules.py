"""The settings of a repository that decide what a commit of it means."""

import msgspec


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
