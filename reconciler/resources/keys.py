"""What a resource is addressed by, inside its project."""

from typing import NamedTuple


class Key(NamedTuple):
    """Kind and name; keys sort by kind, then name."""

    kind: str  # the exact spelling, `Destination`
    name: str
