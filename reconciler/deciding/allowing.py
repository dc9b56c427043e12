"""What a repository may hold at all, by its setting `allow`."""

from collections.abc import Collection
from fnmatch import fnmatchcase

from reconciler.model.names import Key


def is_allowed_resource(key: Key, *, kinds: Collection[str], names: Collection[str]) -> bool:
    """Whether the kind and the name of a resource each match a pattern."""
    return _matches(key.kind, kinds) and _matches(key.name, names)


def _matches(text: str, patterns: Collection[str]) -> bool:
    return "*" in patterns or any(fnmatchcase(text, pattern) for pattern in patterns)
