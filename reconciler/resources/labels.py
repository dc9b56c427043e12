"""Where a document has labels, and how many there may be.

Belongs here: finding them and taking them out. Does not: what a label may be, which the schemas say.
"""

from collections.abc import Iterator

from reconciler.documents.values import Pointer, Value
from reconciler.resources.violations import Violation

MOST = 1_000  # in one place; nobody writes more by hand
PLACES: tuple[Pointer, ...] = (("metadata", "labels"), ("spec", "selector", "matchLabels"))


def crowded(document: Value) -> Iterator[Violation]:
    """Each place with more labels than there may be."""
    for at in PLACES:
        if len(_at(document, at)) > MOST:
            yield Violation(at, f"has more than {MOST:,} labels; take some away")


def taken_out(document: Value, at: Pointer) -> tuple[Value, dict[str, Value]]:
    """The document with no labels in a place, and those that were there; the same document when there were none."""
    mapping = _at(document, at)
    return (_emptied(document, at), mapping) if mapping else (document, {})


def _at(value: Value, at: Pointer) -> dict[str, Value]:
    for step in at:
        value = value.get(str(step)) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _emptied(value: Value, at: Pointer) -> Value:
    if not at:
        return {}
    step = str(at[0])
    return {**value, step: _emptied(value[step], at[1:])} if isinstance(value, dict) else value
