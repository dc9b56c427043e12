"""Values that are too long to be shown whole.

Belongs here: where such a value is cut. Does not: how long is too long, masking: a secret is out of a value before.
"""

import re
from typing import NamedTuple

from reconciler.documents.values import Value
from reconciler.resources import canonical

_BEGUN_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{0,3})?\Z")


class Cut(NamedTuple):
    """How the JSON of a value begins, and how many bytes of UTF-8 it has in all."""

    begins: str
    bytes: int


def cut(value: Value, *, most: int) -> Value | Cut:
    """The value itself when its canonical JSON has at most so many bytes, else its beginning of at most as many.

    The beginning ends between two characters, and never inside of an escape.
    """
    encoded = canonical.encode(value)
    if len(encoded) <= most:
        return value
    return Cut(_without_begun_escape(encoded[:most].decode(errors="ignore")), len(encoded))


def _without_begun_escape(text: str) -> str:
    found = _BEGUN_ESCAPE.search(text)
    if found is None:
        return text
    before = text[: found.start() + 1]
    backslashes = len(before) - len(before.rstrip("\\"))
    # An even number of them are whole escapes of backslashes, and what follows is text.
    return text[: found.start()] if backslashes % 2 else text
