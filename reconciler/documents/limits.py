"""How much one text may hold, whatever its syntax.

Belongs here: numbers, their units and why they are so. Does not: who checks them.
"""

from dataclasses import dataclass
from typing import Final

MEBIBYTE: Final = 2**20


@dataclass(frozen=True, slots=True)
class Limits:
    """What a reader accepts; the defaults are for a file in Git."""

    bytes: int = 5 * MEBIBYTE  # of the text as it comes; checked before anything is parsed
    depth: int = 100  # lists and mappings inside one another, the outermost included, after aliases
    nodes: int = 100_000  # scalars, keys, lists and mappings of the whole text, an alias at its full size
    documents: int = 10_000  # of one text, empty ones included
    text: int = 16 * MEBIBYTE  # UTF-8 bytes of scalars and keys of the whole text, an alias at its full size


FILE: Final = Limits()


def for_body(size: int) -> Limits:
    """The limits for a request body of at most `size` bytes.

    A body carries many resources, so its node limit grows with its size: 8 bytes a node is denser than resources are
    (about 12), yet keeps what is built within a small multiple of the body. Two more levels than a file, because the
    body wraps each resource in a list in a mapping: what fits from Git then fits through the API.
    """
    return Limits(
        bytes=size,
        depth=FILE.depth + 2,
        nodes=max(FILE.nodes, size // 8),
        text=max(FILE.text, size),
    )
