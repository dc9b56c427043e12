"""The plan for a terminal: the verdict, what the symbols mean, each resource with its fields, and the counts.

Belongs here: the layout and its colours, which never carry a meaning alone. Does not: which lines a resource has
(`showing`, `fields`), whether colour is wanted.

Each line begins with a word or a sign of ours, so that no runner of a pipeline takes it for an order of its own.
"""

from collections.abc import Iterator, Sequence

from reconciler.model.outcomes import UpdateStatus
from reconciler.model.plan import RISK, Plan, PlanEntry, PlanField, PlanStatus, PlanTip
from reconciler.model.text import counted
from reconciler.plans import fields, showing, verdicts
from reconciler.plans.fields import Sides
from reconciler.plans.grouping import OwnerGroup, owner_groups
from reconciler.plans.showing import PlanLine, clean_text
from reconciler.plans.verdicts import SYMBOLS

_COLORS = {"+": "32", "~": "33", "-": "31", "!": "1;31", "=": "35", "#": "36"}
_PLAIN = (UpdateStatus.CREATED, UpdateStatus.CONFIGURED, UpdateStatus.DELETED)  # the symbol says enough
_INDENT = "      "


def render_text(plan: Plan, *, color: bool, width: int | None = None, has_worktree: bool = False) -> Iterator[str]:
    """The plan in pieces that end with a line. `width`: columns; a field that needs more has a line for each value.

    `has_worktree`: it was made where files lie that may not be committed.
    """
    yield f"{verdicts.first_line(plan)}\n"
    yield from (f"  {line}\n" for line in _about(plan, has_worktree=has_worktree))
    yield from _legend(plan, color=color)
    for entry in plan.entries:
        yield from _entry(entry, several=len(plan.entries) > 1, color=color, width=width)
    yield f"\n{verdicts.last_line(verdicts.tally_plan(plan.entries))}\n"


def _about(plan: Plan, *, has_worktree: bool) -> Iterator[str]:
    yield f"merging {_tip(plan.head)}{verdicts.committed(plan.head)} into {_tip(plan.base)}"
    if moved := verdicts.moved(plan, clean_text(plan.base.ref), has_worktree=has_worktree):
        yield f"note: {moved}"
    if plan.server is not None:
        yield f"against {clean_text(plan.server)}{verdicts.revision(plan)}"
    if plan.stale:
        yield f"note: {verdicts.STALE}"


def _tip(tip: PlanTip) -> str:
    short = verdicts.short_commit(tip)
    return f"{clean_text(tip.ref)} ({short})" if verdicts.is_named(tip) else short


def _legend(plan: Plan, *, color: bool) -> Iterator[str]:
    there = {status.status for _, status in plan.all}
    if there:
        shown = "   ".join(_painted(f"{SYMBOLS[one]} {one.value}", SYMBOLS[one], color) for one in RISK if one in there)
        yield f"\n  {shown}\n"


def _entry(entry: PlanEntry, *, several: bool, color: bool, width: int | None) -> Iterator[str]:
    if several:
        yield (
            f"\nEntry {clean_text(entry.name)} ({_filled(entry)}): "
            f"{verdicts.plan_verdict(verdicts.tally_plan([entry]))}\n"
        )
    if entry.refused:
        yield f"\n  nothing of this entry would be stored: {verdicts.REFUSED}\n"
    new = [(entry, one) for one in entry.statuses if not one.existing]
    for group in owner_groups(new):
        yield _heading(group)
        for status in group.statuses:
            yield from _resource(status, color=color, width=width)
    yield from _existing([one for one in entry.statuses if one.existing], color=color)
    if entry.notes:
        yield "\n" + "".join(f"  note: {clean_text(note, showing.VALUE)}\n" for note in entry.notes)


def _filled(entry: PlanEntry) -> str:
    folder = f"folder {clean_text(entry.path)}, " if entry.path else ""
    return f"{folder}project {clean_text(entry.project)}"


def _heading(group: OwnerGroup) -> str:
    owners = f" (owners: {', '.join(group.owned_by)})" if group.owners else ""
    return f"\nin {group.heading}{owners}\n"


def _resource(status: PlanStatus, *, color: bool, width: int | None) -> Iterator[str]:
    yield f"  {_title(status, color=color)}\n"
    yield from (_line(line) for line in showing.status_reason(status))
    for field in status.fields:
        yield from _field(field, status, width)
    yield from (_line(line) for line in showing.beside(status))


def _title(status: PlanStatus, *, color: bool) -> str:
    symbol = SYMBOLS[status.status]
    word = "" if status.status in _PLAIN and not status.held else f" {showing.word(status)}"
    place = f" ({showing.place_at_line(status.at)})" if status.at is not None and status.name else ""
    return f"{_painted(f'{symbol} {showing.status_title(status)}', symbol, color)}{word}{place}"


def _line(line: PlanLine) -> str:
    return f"{_INDENT}{line}\n"


def _field(field: PlanField, status: PlanStatus, width: int | None) -> Iterator[str]:
    sides = fields.field_sides(field, status.at)
    if sides is None:
        first, *others = fields.field_lines(field, status.at)
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
        yield f"  {_title(status, color=color)}{showing.briefly(status)}\n"


def _painted(text: str, symbol: str, color: bool) -> str:
    return f"\x1b[{_COLORS[symbol]}m{text}\x1b[0m" if color and symbol in _COLORS else text
