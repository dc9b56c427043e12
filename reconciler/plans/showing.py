"""One resource as lines that a person reads, for every skin that shows lines.

Belongs here: text from outside made harmless and short, what stands around the fields. Does not: fields (`fields`), a
whole plan's layout, a format's own quoting.

Every text that leaves here is bounded, on one line, and nothing in it acts: terminals (`escaping`), the commands that
forges' runners look for anywhere in a log (`##[add-mask]`, `##vso[`), and the hidden marks of comments (`<!--`). Each
line has a mark in front, so that none begins with what a forge takes for an order (`/approve`, `::error`).
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from reconciler.model.plan import NamedResource, PlanPlace, PlanStatus
from reconciler.model.text import counted, visible

NAME = 200  # characters of a name, a path, a ref
VALUE = 500  # characters of a value or a sentence
LINE = 300  # characters of a line of text
REASONS = 30  # lines of one reason
NOTES = 10  # of one resource
DEPENDANTS = 10

ORDERS = re.compile(r"(##\w*)\[")
"""What runners of GitHub and Azure look for anywhere in a line; the bracket is to be written otherwise."""


class PlanLine(NamedTuple):
    """One line: `+` there now, `-` gone, `~` other than before, `!` look here, `#` beside the point, `|` as it was."""

    mark: str
    text: str

    def __str__(self) -> str:
        """The mark, then the text if there is any."""
        return f"{self.mark} {self.text}" if self.text else self.mark


def clean_text(text: str, limit: int = NAME) -> str:
    """The text on one line, at most so many characters of it, with nothing that acts."""
    shown = visible(text[:limit] if len(text) > limit else text)
    if "##" in shown:
        shown = ORDERS.sub(r"\1\\x5b", shown)
    if "<!--" in shown:
        shown = shown.replace("<!--", r"<\x21--")
    return shown if len(text) <= limit else f"{shown}... ({len(text):,} characters)"


def status_title(one: PlanStatus | NamedResource) -> str:
    """Kind and name; of a document whose name is not known, where it stands."""
    if isinstance(one, PlanStatus):
        return clean_text(one.title, 2 * NAME)
    return clean_text(f"{one.kind} {one.name}", 2 * NAME)


def word(one: PlanStatus) -> str:
    """What becomes of it: its status, or that its deletion is held."""
    return "held" if one.held else one.status.value


def place_at_line(place: PlanPlace) -> str:
    """`path:line`."""
    return f"{clean_text(place.path)}:{place.line}"


def status_reason(one: PlanStatus) -> Iterator[PlanLine]:
    """Why it is as it is."""
    lines = (one.reason or "").strip("\n").split("\n")
    yield from (PlanLine("!", clean_text(line, LINE)) for line in lines[:REASONS] if line)
    if len(lines) > REASONS:
        yield PlanLine("#", f"and {counted(len(lines) - REASONS, 'more line')}")


def beside(one: PlanStatus) -> Iterator[PlanLine]:
    """What follows the fields: what was left out, warnings, what leads nowhere, what is affected."""
    if one.fields_left_out:
        yield PlanLine("#", f"and {counted(one.fields_left_out, 'more field')}")
    yield from status_notes(one)
    for named in one.unresolved[:DEPENDANTS]:
        yield PlanLine("!", f"unresolved: {status_title(named)}{where(named.at, one.at)}")
    if len(one.unresolved) > DEPENDANTS:
        yield PlanLine("!", f"and {len(one.unresolved) - DEPENDANTS:,} more unresolved")
    if one.dependants or one.dependants_left_out:
        yield PlanLine("#", affects(one))


def status_notes(one: PlanStatus) -> Iterator[PlanLine]:
    """Warnings, and what else a reader should know of it."""
    yield from (PlanLine("!", f"note: {clean_text(note, LINE)}") for note in one.notes[:NOTES])
    if len(one.notes) > NOTES:
        yield PlanLine("#", f"and {counted(len(one.notes) - NOTES, 'more note')}")


def briefly(one: PlanStatus) -> str:
    """`: the first line of what there is to say (and 2 more lines)`; empty when there is nothing."""
    found = [*status_reason(one), *beside(one)]
    more = f" (and {counted(len(found) - 1, 'more line')})" if len(found) > 1 else ""
    return f": {found[0].text}{more}" if found else ""


def affects(one: PlanStatus) -> str:
    """`affects: Configuration web, Configuration api (and 12 more)`."""
    shown = ", ".join(status_title(named) for named in one.dependants[:DEPENDANTS])
    rest = one.dependants_left_out + max(len(one.dependants) - DEPENDANTS, 0)
    return f"affects: {shown}{f' (and {rest:,} more)' if rest else ''}" if shown else f"affects: {rest:,} more"


def where(place: PlanPlace | None, beside_: PlanPlace | None) -> str:
    """` (line 5)` in the file that was named already, else ` (path:5)`."""
    if place is None:
        return ""
    same = beside_ is not None and beside_.path == place.path
    return f" (line {place.line})" if same else f" ({place_at_line(place)})"
