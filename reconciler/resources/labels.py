"""Where a document has labels, and how many there may be.

Belongs here: finding them and taking them out. Does not: what a label may be, which the schemas say.
"""

from reconciler.documents.values import Value
from reconciler.resources.violations import Violation

MOST = 1_000  # in one place; nobody writes more by hand
PLACES: tuple[tuple[str, ...], ...] = (("metadata", "labels"), ("spec", "selector", "matchLabels"))


def crowded(document: Value) -> tuple[Violation, ...]:
    """Each place with more labels than there may be."""
    found = [at for at in PLACES if len(_at(document, at)) > MOST]
    return tuple(Violation(at, f"has more than {MOST:,} labels; take some away") for at in found) if found else ()


def taken_out(document: Value, at: tuple[str, ...]) -> tuple[Value, dict[str, Value]]:
    """The document with no labels in a place, and those that were there; the same document when there were none."""
    mapping = _at(document, at)
    return (_emptied(document, at), mapping) if mapping else (document, {})


def _at(value: Value, at: tuple[str, ...]) -> dict[str, Value]:
    for step in at:
        if not isinstance(value, dict):
            return {}
        value = value.get(step)
    return value if isinstance(value, dict) else {}


def _emptied(value: Value, at: tuple[str, ...]) -> Value:
    if not at:
        return {}
    step = at[0]
    return {**value, step: _emptied(value[step], at[1:])} if isinstance(value, dict) else value
