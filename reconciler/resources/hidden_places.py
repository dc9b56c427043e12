"""The places of one document that hold secrets, and the document as it may be shown.

Belongs here: looking up places, masking what is at and below them. Does not: finding secrets (`fitting`).
"""

from collections.abc import Iterable

from reconciler.documents.values import Pointer, Value
from reconciler.resources.parameters import MASK


class Hidden:
    """`places` hold secrets, `around` are the lists and mappings that such a place is directly in."""

    def __init__(self, places: Iterable[Pointer]) -> None:
        self.places = frozenset(places)
        self.around = frozenset(place[:-1] for place in self.places if place)
        above: set[Pointer] = set()
        for place in self.around:
            while place not in above:
                above.add(place)
                place = place[:-1]  # noqa: PLW2901 - upwards, until where somebody was
        self._above = frozenset(above)

    def shown(self, value: Value, at: Pointer) -> Value:
        """What stands at a place, each secret in it masked; what holds none is not copied."""
        if at in self.places:
            return MASK
        if at not in self._above:
            return value
        if isinstance(value, dict):
            return {key: self.shown(each, (*at, key)) for key, each in value.items()}
        return [self.shown(each, (*at, i)) for i, each in enumerate(value)] if isinstance(value, list) else value
