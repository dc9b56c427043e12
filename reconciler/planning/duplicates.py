"""The same kind and name twice in one request or commit: all of them are invalid, each naming the others' places."""

from collections import defaultdict
from collections.abc import Iterable

from reconciler.model.names import Key
from reconciler.model.outcomes import WantedState

NAMED = 5  # a reason names this many other places, and counts the rest


def find_duplicates(wanted: Iterable[WantedState]) -> dict[int, str]:
    """The reason for each duplicate, by ordinal."""
    known = [document for document in wanted if document.key is not None]
    if len({document.key for document in known}) == len(known):
        return {}  # as nearly always, and then a list for each key would cost more than all else
    by_key: dict[Key | None, list[WantedState]] = defaultdict(list)
    for document in known:
        by_key[document.key].append(document)
    return {document.ordinal: _reason(document, same) for same in by_key.values() if len(same) > 1 for document in same}


def _reason(document: WantedState, same: list[WantedState]) -> str:
    assert document.key is not None
    # The first few alone are looked at: a request may hold ten thousand of one name.
    named = [other for other in same[: NAMED + 1] if other is not document][:NAMED]
    places = ", ".join(_place(other) for other in named)
    left = len(same) - 1 - len(named)
    more = f" and {left} more" if left else ""
    prefix = "" if document.place is None else f"{document.place}: "
    kind, name = document.key
    return f"{prefix}{kind} {name} is given more than once, also at {places}{more}; keep one of them"


def _place(document: WantedState) -> str:
    return f"item {document.ordinal}" if document.place is None else str(document.place)
