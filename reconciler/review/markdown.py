"""A plan as a comment on a pull request."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote

from reconciler.model.outcomes import UpdateStatus
from reconciler.model.plan import RISK, Plan, PlanEntry, PlanPlace, PlanStatus, PlanTip
from reconciler.model.text import counted
from reconciler.review import plan as review_plan
from reconciler.review import text
from reconciler.review.plan import LIMIT, MINIMUM, PlanLine, clean_text
from reconciler.review.text import OwnerGroup, by_risk, owner_groups

# Text from outside as Markdown that says nothing but the text, on GitHub, GitLab and Gitea alike.
#
# Whatever comes from outside stands in code: a span or a fence. Of code these forges read no mention, no reference to
# an issue or a commit, no HTML, no link and no word that closes an issue; GitLab's orders (`/approve`) count at the
# start of a line alone, where nothing from outside ever stands. So owners are shown as they are written, `@team`, and
# nobody is called; an unseen character in them would come along when somebody copies.

_TICKS = re.compile(r"`+")
_URL = re.compile(r"https?://[^/\s]+(?:/.*)?", re.DOTALL)
_SAFE = "/:?#@!&+,;=%-._~"
_URL_MOST = 2_000  # characters
_NOT_IN_KEYS = re.compile(r"[^A-Za-z0-9._/]+")  # a row of hyphens becomes one: two could end a comment
_KEY_MOST = 64  # characters


def span(text: str) -> str:
    """The text, which is clean and on one line, as a code span."""
    ticks = "`" * (_longest(text) + 1)
    padding = " " if not text.strip() or text[0] in "` " or text[-1] in "` " else ""
    return f"{ticks}{padding}{text or ' '}{padding}{ticks}"


def cell(text: str) -> str:
    """The same inside a table, where a pipe ends the cell even in code."""
    return span(text.replace("|", r"\x7c"))


def fence(lines: Iterable[str]) -> tuple[str, str]:
    """How a block of code with these lines begins and ends; no line of it can end it."""
    ticks = "`" * max(3, max((_longest(line) for line in lines), default=0) + 1)
    return f"{ticks}diff\n", f"{ticks}\n"


def linked(shown: str, url: str | None) -> str:
    """The text as code that leads to the URL, when that is one of the web."""
    if url is None or not _URL.fullmatch(url) or len(url) > _URL_MOST:
        return span(shown)
    return f"[{span(shown)}]({quote(url, safe=_SAFE, errors='replace').replace('&', '&amp;')})"


def comment_marker(key: str) -> str:
    """The hidden first line by which a comment is found again. Another key never makes the same line."""
    kept = _NOT_IN_KEYS.sub("-", key)[:_KEY_MOST].strip("-")
    if kept != key or not key:
        kept += "-" + hashlib.sha256(key.encode(errors="backslashreplace")).hexdigest()[:8]
    return f"<!-- reconciler-plan: {kept} -->"


def _longest(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0) if "`" in text else 0


# A text with an upper limit, filled piece by piece.


def sheet_size(text: str) -> int:
    """Bytes of UTF-8; never less than its characters, as any forge counts them."""
    return len(text) if text.isascii() else len(text.encode())


class Sheet:
    """Pieces that fit into so many bytes of UTF-8 together."""

    def __init__(self, limit: int) -> None:
        """`limit`: bytes."""
        self.left = limit
        self._pieces: list[str] = []

    def add(self, piece: str, *, keep: int = 0) -> bool:
        """Add the piece if it fits and leaves so many bytes to others; whether it did."""
        needed = sheet_size(piece)
        if needed + keep > self.left:
            return False
        self._pieces.append(piece)
        self.left -= needed
        return True

    def __str__(self) -> str:
        """What was added."""
        return "".join(self._pieces)


# The plan as a comment on a pull request: one that can be found again, whose first words are the verdict.
#
# The riskiest comes first and is kept longest. What does not fit is left out from the end: whole resources, and of the
# last one that is shown its last lines. So fences and folds are always closed, and the last line says what is missing.

Link = Callable[[PlanPlace, PlanTip], str | None]
_Address = Callable[[PlanStatus], str | None]

_OPEN = frozenset({UpdateStatus.INVALID, UpdateStatus.ERROR, UpdateStatus.FORBIDDEN, UpdateStatus.DELETED})
_CLOSE = "\n</details>\n\n"
_GONE = frozenset({UpdateStatus.DELETED, UpdateStatus.IN_USE})  # from the head, so that the base alone has their files
_LINES = 60  # of one resource, which has a quarter of the limit at most
_NOTES = 10


class _Section(NamedTuple):
    """One fold."""

    summary: str
    is_open: bool
    groups: tuple[OwnerGroup, ...]


def render_markdown(plan: Plan, *, marker: str, limit: int = LIMIT, link: Link | None = None) -> str:
    """The comment, of at most `limit` bytes of UTF-8 and so of at most as many characters.

    `marker` is the key of the hidden first line: the same for the comments of which only the last is to stay. `link`
    gives the address of a place in one of the two sides, for instance at the forge.
    """
    sheet = Sheet(max(limit, MINIMUM))
    sheet.add(f"{comment_marker(marker)}\n{_verdict(plan)}\n\n")
    sections = tuple(_sections(plan))
    statuses = [(group.entry, one) for section in sections for group in section.groups for one in group.statuses]
    sheet.left -= sheet_size(_missing(statuses))
    for piece in _about(plan, room=sheet.left // 4):
        sheet.add(piece, keep=sheet.left // 2)
    shown = _fill(sheet, sections, _addresses(plan, link), several=len(plan.entries) > 1)
    return f"{sheet}{_missing(statuses[shown:])}"


def _addresses(plan: Plan, link: Link | None) -> _Address:
    """The address of each resource, in the side that has its file."""

    def address(status: PlanStatus) -> str | None:
        if status.at is None or link is None:
            return None
        return link(status.at, plan.base if status.status in _GONE else plan.head)

    return address


def _verdict(plan: Plan) -> str:
    told = _told(review_plan.tally_plan(plan.entries))
    return (
        f"### Plan for {span(clean_text(review_plan.short_commit(plan.head)))}{review_plan.committed(plan.head)}: "
        f"{told}"
    )


def _told(found: review_plan.PlanTally) -> str:
    return review_plan.plan_verdict(found).replace("~", r"\~")  # two of them would strike out what is between


def _about(plan: Plan, *, room: int) -> Iterator[str]:
    """What stands above the resources, the most important first."""
    yield f"Merging {_tip(plan.head)} into {_tip(plan.base)}.\n\n"
    if moved := review_plan.moved(plan, span(clean_text(plan.base.ref))):
        yield f"**Note:** {moved}.\n\n"
    if plan.stale:
        yield f"**Note:** {review_plan.STALE}.\n\n"
    if plan.server is not None:
        yield f"Against {span(clean_text(plan.server))}{review_plan.revision(plan)}.\n\n"
    for entry in plan.entries:
        if entry.refused:
            yield (
                f"**Note:** nothing of the entry {span(clean_text(entry.name))} would be stored: "
                f"{review_plan.REFUSED}.\n\n"
            )
    if len(plan.entries) > 1:
        yield _table(plan.entries, room)
    yield from _notes(plan)


def _tip(tip: PlanTip) -> str:
    short = span(clean_text(review_plan.short_commit(tip)))
    return f"{span(clean_text(tip.ref))} ({short})" if review_plan.is_named(tip) else short


def _table(entries: Sequence[PlanEntry], room: int) -> str:
    sheet = Sheet(room)
    sheet.add("| entry | folder | what changes |\n|---|---|---|\n")
    for number, entry in enumerate(entries):
        row = (
            f"| {cell(clean_text(entry.name))} | {cell(clean_text(entry.path) or './')} | "
            f"{_told(review_plan.tally_plan([entry]))} |\n"
        )
        if not sheet.add(row, keep=60):
            return f"{sheet}\nand {counted(len(entries) - number, 'more entry', 'more entries')}\n\n"
    return f"{sheet}\n"


def _notes(plan: Plan) -> Iterator[str]:
    notes = [(entry, note) for entry in plan.entries for note in entry.notes]
    if notes:
        several = len(plan.entries) > 1
        lines = [
            f"- {f'entry {span(clean_text(entry.name))}: ' if several else ''}"
            f"{span(clean_text(note, review_plan.VALUE))}\n"
            for entry, note in notes[:_NOTES]
        ]
        rest = len(notes) - _NOTES
        yield "".join([*lines, *([f"- and {counted(rest, 'more note')}\n"] if rest > 0 else [])]) + "\n"


def _sections(plan: Plan) -> Iterator[_Section]:
    """A fold for each status, the riskiest first, and one for what was so before."""
    pairs = by_risk(plan)
    for status in RISK:
        if found := [(entry, one) for entry, one in pairs if one.status is status and not one.existing]:
            tally = review_plan.PlanTally()
            tally.new[status] = len(found)
            held = sum(one.held for _, one in found)
            more = f", {held:,} {review_plan.HELD}" if held else ""
            summary = f"{review_plan.SYMBOLS[status]} {review_plan.in_words(tally.new)}{more}"
            yield _Section(summary, status in _OPEN, tuple(owner_groups(found)))
    if existing := [(entry, one) for entry, one in pairs if one.existing]:
        yield _Section(f"{len(existing):,} already in trouble: it was so before", False, tuple(owner_groups(existing)))


def _fill(sheet: Sheet, sections: Sequence[_Section], address: _Address, *, several: bool) -> int:
    """Add the resources that fit; how many do."""
    most = sheet.left // 4 + _LINES
    shown = 0
    for section in sections:
        begin = ahead = f"<details{' open' if section.is_open else ''}><summary>{section.summary}</summary>\n"
        for group in section.groups:
            ahead += _heading(group, several=several)
            for status in group.statuses:
                piece = _resource(status, address, min(sheet.left - sheet_size(ahead + _CLOSE), most))
                if piece is None:
                    _close(sheet, is_open=not ahead.startswith(begin))
                    return shown
                sheet.add(ahead + piece)
                ahead = ""
                shown += 1
        _close(sheet, is_open=True)
    return shown


def _close(sheet: Sheet, *, is_open: bool) -> None:
    if is_open:
        sheet.add(_CLOSE)


def _heading(group: OwnerGroup, *, several: bool) -> str:
    entry = f"entry {span(clean_text(group.entry.name))}, " if several else ""
    owners = f", owned by {', '.join(map(span, group.owned_by))}" if group.owners else ""
    return f"\n{entry}{span(group.heading)}{owners}\n\n"


def _resource(status: PlanStatus, address: _Address, room: int) -> str | None:
    """A resource with as many of its lines as fit; None when not even its name does."""
    at = status.at
    place = "" if at is None or not status.name else f" in {linked(review_plan.place_at_line(at), address(status))}"
    why = review_plan.word(status) if status.existing or status.held else ""
    why += review_plan.briefly(status) if status.existing else ""
    name = f"- {span(review_plan.status_title(status))}{place}{f': {span(why)}' if why else ''}"
    lines = [] if status.existing else [f"{line}\n" for line in _lines(status)]
    block = _block(lines, room - sheet_size(name) - 1)
    if lines and not block:
        name += f" ({counted(len(lines), 'line')} not shown)"
    whole = f"{name}\n{block}"
    return whole if sheet_size(whole) <= room else None


def _block(lines: Sequence[str], room: int) -> str:
    """Lines in a fence, as many as fit; empty when none does."""
    begin, end = fence(lines[:_LINES])
    inner = Sheet(room - sheet_size(f"\n{begin}{end}") - sheet_size(_more(len(lines))))
    shown = next((number for number, line in enumerate(lines[:_LINES]) if not inner.add(line)), min(len(lines), _LINES))
    if not shown:
        return ""
    return f"\n{begin}{inner}{_more(len(lines) - shown) if shown < len(lines) else ''}{end}"


def _more(number: int) -> str:
    return f"# and {counted(number, 'more line')}\n"


def _lines(status: PlanStatus) -> Iterator[PlanLine]:
    """The lines of a resource, as a forge colours them: `!` is what it has for `~`."""
    yield from review_plan.status_reason(status)
    for field in status.fields:
        sides = text.field_sides(field, status.at)
        if sides is None:
            yield from (
                line._replace(mark="!") if line.mark == "~" else line for line in text.field_lines(field, status.at)
            )
        else:
            yield from _values(sides)
    yield from review_plan.beside(status)


def _values(sides: text.Sides) -> Iterator[PlanLine]:
    if sides.old is not None:
        yield PlanLine("-", f"{sides.path}: {sides.old}{sides.where if sides.new is None else ''}")
    if sides.new is not None:
        yield PlanLine("+", f"{sides.path}: {sides.new}{sides.where}")


def _missing(statuses: Sequence[tuple[PlanEntry, PlanStatus]]) -> str:
    """What is not shown; empty when all is."""
    if not statuses:
        return ""
    found = review_plan.PlanTally()
    for _, status in statuses:
        found.add(status)
    told = [review_plan.in_words(found.new)] if found.new else []
    told += [f"{found.unchanged:,} unchanged"] if found.unchanged else []
    told += [f"{found.existing.total():,} already in trouble"] if found.existing else []
    number = f"{len(statuses):,} resource{' is' if len(statuses) == 1 else 's are'}"
    return f"**{number} not shown:** {', '.join(told)}. For the whole plan run `reconciler plan`.\n"
