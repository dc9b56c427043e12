"""Ids as tables and log lines show them: the end of one, in which those of one minute differ; and which one is meant.

Belongs here: shortening, and finding the whole id again. Does not: what an id names.
"""

from collections.abc import Callable, Iterable

from reconciler.model.errors import Refused

LENGTH = 8  # characters: of 10,000 ids, two end alike once in twenty thousand times


def short_id(identifier: str) -> str:
    """The end of an id."""
    return identifier[-LENGTH:]


def whole_id(typed: str, known: Callable[[], Iterable[str]]) -> str:
    """The id that somebody means who typed one, or its end; what fits no id stays as it is.

    `known` is asked for the ids that there are where an end was typed. Raises Refused where it is that of several.
    """
    if len(typed) != LENGTH:
        return typed
    found = sorted({identifier for identifier in known() if identifier.endswith(typed)})
    if len(found) > 1:
        raise Refused(f"{' and '.join(found)} end so; give the whole id")
    return found[0] if found else typed
