"""Numbers with their nouns, in sentences and lines of the log."""

import pytest

from reconciler.model.text import counted


@pytest.mark.parametrize(
    ("number", "nouns", "told"),
    [
        (0, ("record",), "0 records"),
        (1, ("record",), "1 record"),
        (2, ("record",), "2 records"),
        (1, ("batch", "batches"), "1 batch"),
        (2, ("batch", "batches"), "2 batches"),
    ],
)
def test_one_is_one_and_all_others_are_many(number: int, nouns: tuple[str, ...], told: str) -> None:
    assert counted(number, *nouns) == told
