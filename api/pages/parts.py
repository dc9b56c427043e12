"""Parts of long lists: the lines of one page, and the link to the next."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from api.pages.console import View


class Part(NamedTuple):
    """The lines `first` to `last` of a list, counted from 1, of `total`. `following` is the query of the next part,
    empty at the end.
    """

    lines: Sequence[Any]
    first: int
    last: int
    total: int
    following: str

    @property
    def is_cut(self) -> bool:
        """Return True if the list has other lines."""
        return len(self.lines) < self.total


def of(view: View, lines: Sequence[Any], *, most: int) -> Part:
    """Return at most `most` lines after the number in the query's `after`."""
    text = view.text("after")
    before = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(len(lines))) else 0
    before = before if before < len(lines) else 0
    last = min(before + most, len(lines))
    query = {name: value for name, value in view.query.values.items() if name != "after"}
    following = view.link(quote(view.call.scope["path"]), **query, after=last) if last < len(lines) else ""
    return Part(lines[before:last], before + 1, last, len(lines), following)
