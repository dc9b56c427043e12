"""What differs between two texts, line by line.

Belongs here: the comparison, bounded in time. Does not: what values are texts, how many lines are shown.
"""

import difflib
from collections.abc import Iterator, Sequence

CONTEXT = 2  # lines around what differs
COMPARED = 60  # lines of each side between which the shortest difference is looked for: it takes their product


def text_difference(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Lines with `-` gone, `+` there now, `|` as it was: what differs and a little around it, in order."""
    before, after = _common(old, new)
    begin = max(before - CONTEXT, 0)
    old, new = (side[begin : min(len(side) - after + CONTEXT, len(side))] for side in (old, new))
    for number, group in enumerate(_groups(old, new, before - begin, min(after, CONTEXT))):
        if number:
            yield "|", "..."
        for word, from_, to, new_from, new_to in group:
            if word == "equal":
                yield from (("|", line) for line in old[from_:to])
            else:
                yield from (("-", line) for line in old[from_:to])
                yield from (("+", line) for line in new[new_from:new_to])


def _groups(
    old: Sequence[str], new: Sequence[str], before: int, after: int
) -> Iterator[list[tuple[str, int, int, int, int]]]:
    """Runs of what is alike and what is not, as `difflib` tells them."""
    if max(len(old), len(new)) <= COMPARED:
        yield from difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT)
        return
    end, new_end = len(old) - after, len(new) - after
    yield [
        ("equal", 0, before, 0, before),
        ("replace", before, end, before, new_end),
        ("equal", end, len(old), new_end, len(new)),
    ]


def _common(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many lines are alike at the beginning, and how many of the others at the end."""
    most = min(len(old), len(new))
    before = next((at for at in range(most) if old[at] != new[at]), most)
    most -= before
    return before, next((at for at in range(most) if old[-1 - at] != new[-1 - at]), most)
