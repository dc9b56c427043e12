"""Gathering rows: a part closes when it holds enough outcomes, or enough bytes, and the next one begins empty."""

from collections.abc import Iterator

import pytest

from reconciler.planner.changes import PART, PART_BYTES, ChangeParts
from reconciler.store.records import KeyRow


@pytest.mark.parametrize(
    ("weights", "sizes"),
    [
        ([0] * (PART * 2 + 1), [PART, PART, 1]),
        ([PART_BYTES, 1, 0], [2, 1]),
        ([PART_BYTES + 1] * 3, [1, 1, 1]),
        ([], []),
    ],
)
def test_a_part_closes_behind_what_fills_it(weights: list[int], sizes: list[int]) -> None:
    parts = ChangeParts()

    def added() -> Iterator[int]:
        for number, weight in enumerate(weights):
            parts.rows.removed.append(KeyRow("default", "Source", str(number)))
            yield weight

    taken = list(parts.parts(added()))
    assert [len(part.removed) for part in taken] == sizes
    assert [row.name for part in taken for row in part.removed] == [str(number) for number in range(len(weights))]
