"""A plan for a terminal, and its fields and groups for every rendering."""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from reconciler.model.outcomes import UpdateStatus
from reconciler.model.plan import (
    RISK,
    SENSITIVE,
    SENSITIVE_CHANGED,
    CutText,
    Plan,
    PlanDifference,
    PlanEntry,
    PlanField,
    PlanPlace,
    PlanStatus,
    PlanTip,
)
from reconciler.model.text import counted
from reconciler.review import plan as review_plan
from reconciler.review.plan import LINE, NAME, SYMBOLS, VALUE, PlanLine, clean_text, where

# What differs between two texts, line by line.

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


# One field that differs as lines that a person reads.

TEXT_LINES = 40  # lines of one text's difference
ELEMENTS = 20  # of a list in another order

_BARE = re.compile(r"[\w./:-]+", re.ASCII)


class Sides(NamedTuple):
    """A field that fits on a line: what was and what is; None where there is none."""

    path: str
    old: str | None
    new: str | None
    where: str


def field_sides(field: PlanField, of: PlanPlace | None) -> Sides | None:
    """The field's two values; None when it takes lines of its own (`lines`)."""
    if (
        field.difference is PlanDifference.REORDERED
        or _is_text(field.old)
        or _is_text(field.new)
        or _hidden_change(field)
    ):
        return None
    return Sides(clean_text(field.path), _side(field, field.old), _side(field, field.new), where(field.at, of))


def field_lines(field: PlanField, of: PlanPlace | None) -> Iterator[PlanLine]:
    """A field that is more than two values: another order, lines of text, a secret that is another one."""
    path, place = clean_text(field.path), where(field.at, of)
    if _hidden_change(field):
        yield PlanLine("~", f"{path}: {SENSITIVE_CHANGED}{place}")
    elif field.difference is PlanDifference.REORDERED:
        yield PlanLine("~", f"{path}: order changed: {_elements(field.old)} -> {_elements(field.new)}{place}")
    else:
        yield PlanLine(
            {PlanDifference.ADDED: "+", PlanDifference.REMOVED: "-"}.get(field.difference, "~"), f"{path}:{place}"
        )
        yield from _text_lines(_split(field.old), _split(field.new))


def _hidden_change(field: PlanField) -> bool:
    return field.sensitive and field.new == SENSITIVE_CHANGED


def _side(field: PlanField, given: Any) -> str | None:
    if given is msgspec.UNSET:
        return None
    return SENSITIVE if field.sensitive and given == SENSITIVE else shown_value(given)


def _is_text(given: Any) -> bool:
    return isinstance(given, str) and "\n" in given


def _split(given: Any) -> list[str]:
    if given is msgspec.UNSET:
        return []
    return given.split("\n") if isinstance(given, str) else [shown_value(given)]


def _elements(given: Any) -> str:
    if not isinstance(given, list | tuple):
        return "" if given is msgspec.UNSET else shown_value(given)
    shown = ", ".join(_element(one) for one in given[:ELEMENTS])
    return f"{shown} and {len(given) - ELEMENTS:,} more" if len(given) > ELEMENTS else shown


def _element(given: Any) -> str:
    name = given.get("name") if isinstance(given, dict) else given
    return clean_text(name) if isinstance(name, str) and _BARE.fullmatch(name) else shown_value(given)


def _text_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[PlanLine]:
    """What differs between two texts, with a little around it; bounded."""
    found = list(text_difference(old, new))
    yield from (PlanLine(mark, clean_text(text, LINE)) for mark, text in found[:TEXT_LINES])
    if len(found) > TEXT_LINES:
        yield PlanLine("#", f"and {counted(len(found) - TEXT_LINES, 'more line')}")


def shown_value(given: Any) -> str:
    """A value as compact JSON; of a long one how it begins, and how long it is."""
    if isinstance(given, CutText):
        return f"{clean_text(given.begins, VALUE)}... ({given.bytes:,} bytes)"
    return clean_text(msgspec.json.encode(given).decode(), VALUE)


# Resources by folder and owners, in the order in which a skin shows them.

OWNERS = 10  # names in one heading
_RANK = {status: rank for rank, status in enumerate(RISK)}


class OwnerGroup(NamedTuple):
    """What lies in one folder and has the same owners."""

    entry: PlanEntry
    folder: str
    owners: tuple[str, ...]
    statuses: list[PlanStatus]

    @property
    def heading(self) -> str:
        """The folder as people write it."""
        if self.statuses[0].at is None:
            return "without a file"
        return clean_text(self.folder) if self.folder else "./"

    @property
    def owned_by(self) -> tuple[str, ...]:
        """The owners, as many as a heading bears."""
        rest = len(self.owners) - OWNERS
        shown = tuple(clean_text(one, NAME) for one in self.owners[:OWNERS])
        return (*shown, f"and {rest} more") if rest > 0 else shown


def owner_groups(found: Iterable[tuple[PlanEntry, PlanStatus]]) -> Iterator[OwnerGroup]:
    """Groups in the order of what comes first in each; inside one the order stays."""
    seen: dict[tuple[str, bool, str, tuple[str, ...]], OwnerGroup] = {}
    for entry, status in found:
        key = (entry.name, status.at is None, status.folder, status.owners)
        if key not in seen:
            seen[key] = OwnerGroup(entry, status.folder, status.owners, [])
        seen[key].statuses.append(status)
    yield from seen.values()


def by_risk(plan: Plan) -> list[tuple[PlanEntry, PlanStatus]]:
    """Every status of every entry, the riskiest first; of equal risk in the order of entries."""
    return sorted(plan.all, key=lambda pair: (pair[1].existing, _RANK[pair[1].status]))


# The plan for a terminal: the verdict, what the symbols mean, each resource with its fields, and the counts.
#
# Each line begins with a word or a sign of ours, so that no runner of a pipeline takes it for an order of its own.

_COLORS = {"+": "32", "~": "33", "-": "31", "!": "1;31", "=": "35", "#": "36"}
_PLAIN = (UpdateStatus.CREATED, UpdateStatus.CONFIGURED, UpdateStatus.DELETED)  # the symbol says enough
_INDENT = "      "


def render_text(plan: Plan, *, color: bool, width: int | None = None, has_worktree: bool = False) -> Iterator[str]:
    """The plan in pieces that end with a line. `width`: columns; a field that needs more has a line for each value.

    `has_worktree`: it was made where files lie that may not be committed.
    """
    yield f"{review_plan.first_line(plan)}\n"
    yield from (f"  {line}\n" for line in _about(plan, has_worktree=has_worktree))
    yield from _legend(plan, color=color)
    for entry in plan.entries:
        yield from _entry(entry, several=len(plan.entries) > 1, color=color, width=width)
    yield f"\n{review_plan.last_line(review_plan.tally_plan(plan.entries))}\n"


def _about(plan: Plan, *, has_worktree: bool) -> Iterator[str]:
    yield f"merging {_tip(plan.head)}{review_plan.committed(plan.head)} into {_tip(plan.base)}"
    if moved := review_plan.moved(plan, clean_text(plan.base.ref), has_worktree=has_worktree):
        yield f"note: {moved}"
    if plan.server is not None:
        yield f"against {clean_text(plan.server)}{review_plan.revision(plan)}"
    if plan.stale:
        yield f"note: {review_plan.STALE}"


def _tip(tip: PlanTip) -> str:
    short = review_plan.short_commit(tip)
    return f"{clean_text(tip.ref)} ({short})" if review_plan.is_named(tip) else short


def _legend(plan: Plan, *, color: bool) -> Iterator[str]:
    there = {status.status for _, status in plan.all}
    if there:
        shown = "   ".join(_painted(f"{SYMBOLS[one]} {one.value}", SYMBOLS[one], color) for one in RISK if one in there)
        yield f"\n  {shown}\n"


def _entry(entry: PlanEntry, *, several: bool, color: bool, width: int | None) -> Iterator[str]:
    if several:
        yield (
            f"\nEntry {clean_text(entry.name)} ({_filled(entry)}): "
            f"{review_plan.plan_verdict(review_plan.tally_plan([entry]))}\n"
        )
    if entry.refused:
        yield f"\n  nothing of this entry would be stored: {review_plan.REFUSED}\n"
    if entry.flows:
        yield "\n  delivery\n"
        yield from (
            f"    {_painted(line.mark, line.mark, color)} {line.text}\n" for line in review_plan.flow_lines(entry)
        )
    new = [(entry, one) for one in entry.statuses if not one.existing]
    for group in owner_groups(new):
        yield _heading(group)
        for status in group.statuses:
            yield from _resource(status, color=color, width=width)
    yield from _existing([one for one in entry.statuses if one.existing], color=color)
    if entry.notes:
        yield "\n" + "".join(f"  note: {clean_text(note, review_plan.VALUE)}\n" for note in entry.notes)


def _filled(entry: PlanEntry) -> str:
    folder = f"folder {clean_text(entry.path)}, " if entry.path else ""
    return f"{folder}project {clean_text(entry.project)}"


def _heading(group: OwnerGroup) -> str:
    owners = f" (owners: {', '.join(group.owned_by)})" if group.owners else ""
    return f"\nin {group.heading}{owners}\n"


def _resource(status: PlanStatus, *, color: bool, width: int | None) -> Iterator[str]:
    yield f"  {_title(status, color=color)}\n"
    yield from (_line(line) for line in review_plan.status_reason(status))
    for field in status.fields:
        yield from _field(field, status, width)
    yield from (_line(line) for line in review_plan.beside(status))


def _title(status: PlanStatus, *, color: bool) -> str:
    symbol = SYMBOLS[status.status]
    word = "" if status.status in _PLAIN and not status.held else f" {review_plan.word(status)}"
    place = f" ({review_plan.place_at_line(status.at)})" if status.at is not None and status.name else ""
    return f"{_painted(f'{symbol} {review_plan.status_title(status)}', symbol, color)}{word}{place}"


def _line(line: PlanLine) -> str:
    return f"{_INDENT}{line}\n"


def _field(field: PlanField, status: PlanStatus, width: int | None) -> Iterator[str]:
    sides = field_sides(field, status.at)
    if sides is None:
        first, *others = field_lines(field, status.at)
        yield _line(first)
        yield from (f"  {_line(line)}" for line in others)
    else:
        yield from _values(sides, width)


def _values(sides: Sides, width: int | None) -> Iterator[str]:
    """`path: old -> new`, or a line for each where that is too long."""
    path, old, new, where = sides
    if old is None or new is None:
        mark, only = ("-", old) if new is None else ("+", new)
        yield f"{_INDENT}{mark} {path}: {only or ''}{where}\n"
        return
    line = f"{_INDENT}~ {path}: {old} -> {new}{where}\n"
    if width is None or len(line) <= width + 1:
        yield line
    else:
        yield f"{_INDENT}~ {path}:{where}\n{_INDENT}  - {old}\n{_INDENT}  + {new}\n"


def _existing(found: Sequence[PlanStatus], *, color: bool) -> Iterator[str]:
    """What was so before, a line for each."""
    if not found:
        return
    yield f"\nwas so before, and this change does not touch it ({counted(len(found), 'resource')})\n"
    for status in found:
        yield f"  {_title(status, color=color)}{review_plan.briefly(status)}\n"


def _painted(text: str, symbol: str, color: bool) -> str:
    return f"\x1b[{_COLORS[symbol]}m{text}\x1b[0m" if color and symbol in _COLORS else text
