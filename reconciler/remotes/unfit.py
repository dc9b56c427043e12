"""Heads that a fetch cannot bring, however often it is made: too much, or what Git's checks refuse.

Belongs here: remembering them, so that none is fetched whole again and again. Does not: finding out which fault says so
(`sayings`).
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from reconciler.git.faults import GitFault
from reconciler.git.refs import Followed, RefHead


class FetchBounds(NamedTuple):
    """What a fetch may bring: with more, a head that was too much is another case."""

    bytes: int
    objects: int


class RejectedHeads:
    """Of one remote: of each that is followed the last head, should it be one."""

    def __init__(self) -> None:
        self._known: dict[Followed, tuple[RefHead, FetchBounds, GitFault]] = {}

    def check(self, followed: Followed, head: RefHead, bounds: FetchBounds) -> None:
        """Raise the GitFault that the fetch of this head within these bounds ended in, if it was one of the head."""
        known = self._known.get(followed)
        if known is not None and head.is_held_as(known[0]) and bounds == known[1]:
            raise known[2].with_traceback(None)

    def note(
        self, wanted: Mapping[Followed, RefHead], came: Mapping[Followed, RefHead | Exception], bounds: FetchBounds
    ) -> None:
        """Remember what a fetch of these heads ended in."""
        for followed, head in wanted.items():
            result = came.get(followed)
            if isinstance(result, GitFault) and result.of_head:
                self._known[followed] = head, bounds, result
            else:
                self._known.pop(followed, None)

    def keep(self, followed: Collection[Followed]) -> None:
        """Forget all but what is followed of these."""
        self._known = {one: known for one, known in self._known.items() if one in followed}
