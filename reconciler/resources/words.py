"""How names and values that are no secret are put into a sentence.

Belongs here: form. Does not: which sentence.
"""

import json
from collections.abc import Sequence

MOST = 40  # entries of a list in one sentence; whoever may push writes the lists
LONGEST = 100  # characters of each


def listed(values: Sequence[object]) -> str:
    """The values one after another, each quoted; of very many, the first and how many more there are."""
    told = ", ".join(f"`{_cut(value if isinstance(value, str) else json.dumps(value))}`" for value in values[:MOST])
    return f"{told} and {len(values) - MOST} more" if len(values) > MOST else told


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"
