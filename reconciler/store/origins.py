"""Where versions come from: what is the same for many is one row, which they share.

Belongs here: making that row. Does not: what a source says, nor joining it with a place (`resources.rendering`).
"""

import hashlib
from collections.abc import Mapping

import msgspec

from reconciler.model import rendering
from reconciler.model.values import Value
from reconciler.store.contract import OriginRow

ID_BYTES = 8

_encode = msgspec.msgpack.Encoder().encode


def origin_row(
    source: Mapping[str, Value], *, actor: str, run: str | None, request: str | None, created_at: str
) -> OriginRow:
    """The row of what these say, with the id that is made of them. `source` has no `path` and `line`.

    A run's or a request's id cannot be foreseen, so that nobody prepares two rows that have the same id. Should it
    happen all the same, the store refuses the second, and the next run or request makes another.
    """
    said = (*rendering.frame(source), actor, run, request, created_at)
    digest = hashlib.blake2b(_encode(said), digest_size=ID_BYTES).digest()
    return OriginRow(int.from_bytes(digest, "big") >> 1, *said)  # SQLite's integers have a sign
