"""A long list, as far as a page shows it."""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class ShownPart(NamedTuple, Generic[T]):
    """The first of them, and how many more there are, as text; empty for none."""

    shown: Sequence[T]
    more: str

    @classmethod
    def of(cls, everything: "Sequence[T]", *, most: int) -> "ShownPart[T]":
        """As many as may be."""
        left = len(everything) - most
        return cls(everything[:most], f"{left:,}" if left > 0 else "")
