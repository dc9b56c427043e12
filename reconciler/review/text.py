"""A plan for a terminal: the verdict, the symbols, each resource with its fields, and the counts. Each line begins with
one of our words or signs, so that no runner of a pipeline takes it for a command. The lines for fields are for every
rendering.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import msgspec

from reconciler.model.outcomes import UpdateStatus
from reconciler.model.plan import (
    HIDDEN,
    HIDDEN_CHANGED,
    RISK,
    CutText,
    Plan,
    PlanDifference,
    PlanEntry,
    PlanField,
    PlanPlace,
    PlanRendering,
    PlanStatus,
    PlanTip,
)
from reconciler.model.text import counted
from reconciler.review import plan as review_plan
from reconciler.review.plan import LINE, SYMBOLS, VALUE, PlanLine, clean_text, where

CONTEXT = 2  # lines around what differs
COMPARED = 60  # lines of each side for which the shortest difference is found: it takes their product


def text_difference(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the lines that differ and a few around them: `-` removed, `+` added, `|` unchanged."""
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
    """Yield runs of equal and of different lines, in the form of `difflib`."""
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
    """Return the number of equal lines at the beginning, and of the others at the end."""
    most = min(len(old), len(new))
    before = next((at for at in range(most) if old[at] != new[at]), most)
    most -= before
    return before, next((at for at in range(most) if old[-1 - at] != new[-1 - at]), most)


TEXT_LINES = 40  # lines of one text's difference
ELEMENTS = 20  # of a list in another order
WIDTH = 100  # bytes of a list or mapping on one line

_COLORS = {"+": "32", "~": "33", "-": "31", "!": "1;31", "=": "35", "#": "36"}
_PLAIN = (UpdateStatus.CREATED, UpdateStatus.CONFIGURED, UpdateStatus.DELETED)  # the symbol says enough
_INDENT = "      "

_BARE = re.compile(r"[\w./:-]+", re.ASCII)


class Sides(NamedTuple):
    """A field that fits on one line: its old and new value; None for a missing one."""

    path: str
    old: str | None
    new: str | None
    where: str

    def __str__(self) -> str:
        """Return one line: `~ path: old -> new`."""
        mark = "+" if self.old is None else "-" if self.new is None else "~"
        values = " -> ".join(value for value in (self.old, self.new) if value is not None)
        return f"{mark} {self.path}: {values}{self.where}"


def field_sides(field: PlanField, of: PlanPlace | None, *, whole: bool = False) -> Sides | None:
    """Return the two values of a field; None if it needs several lines (`field_lines`). `whole`: long lists and
    mappings stay on one line.
    """
    is_text = any(isinstance(side, str) and "\n" in side for side in (field.old, field.new))
    is_long = not whole and any(map(_is_long, (field.old, field.new)))
    if field.difference is PlanDifference.REORDERED or is_text or is_long or _is_other_secret(field):
        return None

    def side(given: Any) -> str | None:
        if given is msgspec.UNSET:
            return None
        return str(given) if field.sensitive and isinstance(given, str) and given in HIDDEN else shown_value(given)

    return Sides(clean_text(field.path), side(field.old), side(field.new), where(field.at, of))


def field_lines(field: PlanField, of: PlanPlace | None) -> Iterator[PlanLine]:
    """Yield the lines of a field that is more than two values: another order, lines of text, a long list or mapping, a
    changed secret.
    """
    path, place = clean_text(field.path), where(field.at, of)
    if _is_other_secret(field):
        yield PlanLine("~", f"{path}: {field.new}{place}")
    elif field.difference is PlanDifference.REORDERED:
        yield PlanLine("~", f"{path}: order changed: {_elements(field.old)} -> {_elements(field.new)}{place}")
    else:
        mark = {PlanDifference.ADDED: "+", PlanDifference.REMOVED: "-"}.get(field.difference, "~")
        yield PlanLine(mark, f"{path}:{place}")
        found = list(text_difference(_split(field.old), _split(field.new)))
        yield from (PlanLine(mark, clean_text(text, LINE)) for mark, text in found[:TEXT_LINES])
        if len(found) > TEXT_LINES:
            yield PlanLine("#", f"and {counted(len(found) - TEXT_LINES, 'more line')}")


def _is_other_secret(field: PlanField) -> bool:
    return field.sensitive and isinstance(field.new, str) and field.new in HIDDEN_CHANGED


def _split(given: Any) -> list[str]:
    if given is msgspec.UNSET:
        return []
    if isinstance(given, str):
        return given.split("\n")
    return list(_outline(given)) if _is_nested(given) else [shown_value(given)]


def _is_nested(given: Any) -> bool:
    return isinstance(given, dict | list) and bool(given)


def _is_long(given: Any) -> bool:
    return _is_nested(given) and len(msgspec.json.encode(given)) > WIDTH


def _outline(given: Any) -> Iterator[str]:
    """Yield a list or a mapping as YAML has it, a line for each value in it."""
    pairs = (
        [(f"{_key(key)}:", each) for key, each in given.items()] if isinstance(given, dict) else zip(repeat("-"), given)
    )
    for begin, value in pairs:
        if not _is_nested(value):
            yield f"{begin} {shown_value(value)}"
            continue
        inner = _outline(value)
        yield f"{begin} {next(inner)}" if begin == "-" else begin
        yield from (f"  {line}" for line in inner)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else shown_value(key)


def _elements(given: Any) -> str:
    if not isinstance(given, list | tuple):
        return "" if given is msgspec.UNSET else shown_value(given)

    def element(one: Any) -> str:
        name = one.get("name") if isinstance(one, dict) else one
        return clean_text(name) if isinstance(name, str) and _BARE.fullmatch(name) else shown_value(one)

    shown = ", ".join(element(one) for one in given[:ELEMENTS])
    return f"{shown} and {len(given) - ELEMENTS:,} more" if len(given) > ELEMENTS else shown


def shown_value(given: Any) -> str:
    """Return a value as compact JSON, or the beginning and the size of a long one."""
    if isinstance(given, CutText):
        return f"{clean_text(given.begins, VALUE)}... ({given.bytes:,} bytes)"
    return clean_text(msgspec.json.encode(given).decode(), VALUE)


# The YAML that Collectors run, compared part by part, because the changed parts of a long text may be far apart.

FOR_COLLECTORS = "what collectors run"
RENDERED_LINES = 100  # of one difference
_PART = re.compile(r"( {0,4})[^\s-][^:]*")  # a key near the margin


class ShownRendering(NamedTuple):
    """A Configuration that changes for Collectors."""

    mark: str
    title: str
    at: PlanPlace | None
    violations: list[PlanLine]
    difference: list[PlanLine]
    existing: bool


def shown_renderings(entry: PlanEntry) -> Iterator[ShownRendering]:
    """Yield the Configurations whose YAML for Collectors changes."""
    for one in entry.renderings:
        mark = "!" if one.violations else "+" if one.old is None else "-" if one.new is None else "~"
        title = f"Configuration {clean_text(one.name)}"
        shown = ShownRendering(mark, title, one.at, [*_unfit(one)], [*_rendered(one)], one.existing)
        if shown.violations or shown.difference:
            yield shown


def renderings_left_out(entry: PlanEntry) -> str:
    """Return how many Configurations were not compared, or ''."""
    number = counted(entry.renderings_left_out, "more Configuration")
    return f"{number} not compared, since they are too many or too large" if entry.renderings_left_out else ""


def _unfit(one: PlanRendering) -> Iterator[PlanLine]:
    for violation in one.violations[: review_plan.REASONS]:
        yield PlanLine("!", f"{clean_text(violation, VALUE)}{review_plan.WAS_SO if one.existing else ''}")
    if len(one.violations) > review_plan.REASONS:
        yield PlanLine("#", f"and {counted(len(one.violations) - review_plan.REASONS, 'more line')}")


def _rendered(one: PlanRendering) -> Iterator[PlanLine]:
    if one.raw or (one.new is None and one.violations):  # the fields show it, or there is no result
        return
    found = list(_rendered_difference(one.old or "", one.new or ""))
    yield from (PlanLine(mark, clean_text(text, LINE)) for mark, text in found[:RENDERED_LINES])
    if len(found) > RENDERED_LINES:
        yield PlanLine("#", f"and {counted(len(found) - RENDERED_LINES, 'more line')}")


def _rendered_difference(old: str, new: str) -> Iterator[tuple[str, str]]:
    before, after = _parts(old), _parts(new)
    told: set[tuple[str, ...]] = set()
    for part in sorted({*before, *after}):
        lines = list(text_difference(before.get(part, []), after.get(part, [])))
        if not lines:
            continue
        for above in (part[:depth] for depth in range(1, len(part))):
            if above not in told:
                told.add(above)
                yield "|", (after.get(above) or before[above])[0]
        told.add(part)
        yield from lines


def _parts(text: str) -> dict[tuple[str, ...], list[str]]:
    """Divide a YAML text at its outer keys: each part has the lines under its key, by the path of keys."""
    found: dict[tuple[str, ...], list[str]] = {}
    path: tuple[str, ...] = ()
    for line in text.removesuffix("\n").split("\n") if text else ():
        if key := _PART.match(line):
            path = (*(one for one in path if len(one) - len(one.lstrip()) < len(key[1])), key[0])
        found.setdefault(path, []).append(line)
    return found


def render_text(plan: Plan, *, color: bool, command: str = "") -> Iterator[str]:
    """Yield the plan in pieces that end with a line; `command` makes it again."""
    yield f"{review_plan.first_line(plan)}\n"
    yield from about_lines(plan)
    if there := {status.status for _, status in plan.all}:
        shown = (_painted(f"{SYMBOLS[one]} {one.value}", SYMBOLS[one], color) for one in RISK if one in there)
        yield f"\n  {'   '.join(shown)}\n"
    for entry in plan.entries:
        if len(plan.entries) > 1:
            folder = f"folder {clean_text(entry.path)}, " if entry.path else ""
            verdict = review_plan.plan_verdict(review_plan.tally_plan([entry]))
            yield f"\nEntry {clean_text(entry.name)} ({folder}project {clean_text(entry.project)}): {verdict}\n"
        yield from _entry(entry, color=color)
    yield f"\n{review_plan.last_line(review_plan.tally_plan(plan.entries))}\n"
    if again := review_plan.pasteable(command):
        yield f"\n{review_plan.AGAIN}\n  {again}\n"


def about_lines(plan: Plan) -> Iterator[str]:
    """Yield the two sides of the comparison, and remarks about them."""
    if review_plan.is_comparison(plan):
        yield f"  comparing {_tip(plan.head)} with the store\n"
    else:
        yield f"  merging {_tip(plan.head)}{review_plan.committed(plan.head)} into {_tip(plan.base)}\n"
    if moved := review_plan.moved(plan, clean_text(plan.base.ref)):
        yield f"  note: {moved}\n"
    if plan.server is not None:
        yield f"  against {clean_text(plan.server)}{review_plan.revision(plan)}\n"
    if plan.stale:
        yield f"  note: {review_plan.STALE}\n"


def _tip(tip: PlanTip) -> str:
    short = review_plan.short_commit(tip)
    return f"{clean_text(tip.ref)} ({short})" if review_plan.is_named(tip) else short


def _entry(entry: PlanEntry, *, color: bool) -> Iterator[str]:
    if entry.refused:
        yield f"\n  nothing of this entry would be stored: {review_plan.REFUSED}\n"
    if entry.flows:
        yield "\n  delivery\n"
        for line in review_plan.flow_lines(entry):
            yield f"    {_painted(line.mark, line.mark, color)} {line.text}\n"
    for group in review_plan.resource_groups((entry, one) for one in entry.statuses if not one.existing):
        owners = f" (owners: {', '.join(group.owned_by)})" if group.owners else ""
        yield f"\n{'' if group.cause else 'in '}{group.heading}{owners}\n"
        yield from (f"  {line}\n" for line in group.cause)
        for status in group.statuses:
            yield f"  {_title(status, color=color)}\n"
            lines = status_lines(status, with_reason=not group.cause)
            yield from (f"{_INDENT}{line}\n" for line in lines)
    renderings = list(shown_renderings(entry))
    if renderings or entry.renderings_left_out:
        yield f"\n{FOR_COLLECTORS}\n"
    for rendering in renderings:
        place = "" if rendering.at is None else f" ({review_plan.place_at_line(rendering.at)})"
        yield f"  {_painted(f'{rendering.mark} {rendering.title}', rendering.mark, color)}{place}\n"
        yield from (f"{_INDENT}{line}\n" for line in (*rendering.violations, *rendering.difference))
    if entry.renderings_left_out:
        yield f"  note: {renderings_left_out(entry)}\n"
    if existing := [one for one in entry.statuses if one.existing]:
        yield f"\nwas so before, and this change does not touch it ({counted(len(existing), 'resource')})\n"
        for status in existing:
            yield f"  {_title(status, color=color)}{review_plan.briefly(status)}\n"
    if entry.notes:
        yield "\n" + "".join(f"  note: {clean_text(note, VALUE)}\n" for note in entry.notes)


def _title(status: PlanStatus, *, color: bool) -> str:
    symbol = SYMBOLS[status.status]
    is_plain = status.status in _PLAIN and not status.held and not status.renamed
    word = "" if is_plain else f" {review_plan.word(status)}"
    place = f" ({review_plan.place_at_line(status.at)})" if status.at is not None and status.name else ""
    return f"{_painted(f'{symbol} {review_plan.status_title(status)}', symbol, color)}{word}{place}"


def status_lines(status: PlanStatus, *, with_reason: bool) -> Iterator[str]:
    """Yield the reason of a status, the fields of the resource, and further remarks."""
    if with_reason:
        yield from map(str, review_plan.status_reason(status))
    for field in status.fields:
        yield from shown_field(field, status.at)
    yield from map(str, review_plan.beside(status))


def shown_field(field: PlanField, of: PlanPlace | None) -> Iterator[str]:
    """Yield `path: old -> new`, or the lines of a field that takes several."""
    sides = field_sides(field, of)
    if sides is None:
        for number, line in enumerate(field_lines(field, of)):
            yield f"{'  ' if number else ''}{line}"
        return
    yield str(sides)


def _painted(text: str, symbol: str, color: bool) -> str:
    return f"\x1b[{_COLORS[symbol]}m{text}\x1b[0m" if color and symbol in _COLORS else text
