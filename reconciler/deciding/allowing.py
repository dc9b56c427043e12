"""What a repository may hold at all, by its setting `allow`."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from reconciler.resources.keys import Key


def is_allowed(key: Key, *, kinds: Iterable[str], names: Iterable[str]) -> bool:
    """Whether the kind and the name of a resource each match a pattern."""
    return any(fnmatchcase(key.kind, pattern) for pattern in kinds) and any(
        fnmatchcase(key.name, pattern) for pattern in names
    )
