"""The rows of one part of a change, as they come, in the columns in which the store takes them.

Belongs here: gathering them, and when a part is full. Does not: which rows an outcome has (`changes`).
"""

from reconciler.store.contract import (
    ChangeRow,
    Changes,
    HeadRow,
    HeadStatusRow,
    KeyRow,
    OriginRow,
    PastRouteRow,
    ReferenceRow,
    RewrittenRow,
    StatusRow,
    VersionRow,
)

PART = 250  # outcomes in one part: about 400 KB of rows, a millisecond of decoding
PART_BYTES = 4 * 1024 * 1024  # of bodies; a part closes behind the resource that goes over it


class ChangePart:
    """One part after the other, of `number` outcomes so far. Whoever adds the rows of an outcome counts it (`add`), and
    takes the part that is full.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.number = self._bytes = 0
        self.origins: dict[int, OriginRow] = {}
        self.versions: list[VersionRow] = []
        self.references: list[ReferenceRow] = []
        self.heads: list[HeadRow] = []
        self.head_statuses: list[HeadStatusRow] = []
        self.past_routes: list[PastRouteRow] = []
        self.rewritten: list[RewrittenRow] = []
        self.removed: list[KeyRow] = []
        self.changed: list[ChangeRow] = []
        self.statuses: list[StatusRow] = []

    def add(self, weight: int) -> bool:
        """One more outcome has its rows here, with so many bytes of bodies, statuses and reasons; whether that fills
        the part. All else of a row is as long as names and paths are.
        """
        self.number += 1
        self._bytes += weight
        return self.number == PART or self._bytes > PART_BYTES

    def take(self) -> Changes:
        """What was gathered; the next part begins."""
        taken = Changes(
            origins=tuple(self.origins.values()),
            versions=tuple(self.versions),
            references=tuple(self.references),
            heads=tuple(self.heads),
            head_statuses=tuple(self.head_statuses),
            past_routes=tuple(self.past_routes),
            rewritten=tuple(self.rewritten),
            removed=tuple(self.removed),
            changed=tuple(self.changed),
            statuses=tuple(self.statuses),
        )
        self._begin()
        return taken
