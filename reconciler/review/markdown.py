"""A plan as a comment on a pull request. It can be found again, and begins with the verdict.

The riskiest resources come first. If the comment is too long, the end is left out: whole resources, and the last lines
of the last shown one. Fences and folds are always closed, and the last line says what is missing.

Text from outside has no effect as Markdown on GitHub, GitLab and Gitea: it is in code, a span or a fence. In code,
these forges recognise no mention, reference, HTML, link or word that closes an issue. GitLab's commands (`/approve`)
count only at the start of a line, where text from outside never is. So owners are shown unchanged, `@team`, and nobody
is mentioned; an invisible character in them would be copied with the text.
"""

import hashlib
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote

from reconciler.model.plan import Plan, PlanEntry, PlanStatus, PlanTip
from reconciler.model.text import counted
from reconciler.review import plan as review_plan
from reconciler.review import text
from reconciler.review.plan import (
    LIMIT,
    MINIMUM,
    VALUE,
    PlanLine,
    PlanSection,
    ResourceGroup,
    clean_text,
)

_TICKS = re.compile(r"`+")
_URL = re.compile(r"https?://[^/\s]+(?:/.*)?", re.DOTALL)
_SAFE = "/:?#@!&+,;=%-._~"
_URL_MOST = 2_000  # characters
_NOT_IN_KEYS = re.compile(r"[^A-Za-z0-9._/]+")  # several hyphens become one, because two could end a comment
_KEY_MOST = 64  # characters


def span(text: str) -> str:
    """Return a clean text on one line as a code span."""
    ticks = "`" * (_longest(text) + 1)
    padding = " " if not text.strip() or text[0] in "` " or text[-1] in "` " else ""
    return f"{ticks}{padding}{text or ' '}{padding}{ticks}"


def cell(text: str) -> str:
    """Return a code span for a table, where a pipe ends the cell even in code."""
    return span(text.replace("|", r"\x7c"))


def fence(lines: Iterable[str]) -> tuple[str, str]:
    """Return the beginning and the end of a block of code; none of these lines can end it."""
    ticks = "`" * max(3, max((_longest(line) for line in lines), default=0) + 1)
    return f"{ticks}diff\n", f"{ticks}\n"


def linked(shown: str, url: str | None) -> str:
    """Return the text as code, with a link to the URL if it is http or https."""
    if url is None or not _URL.fullmatch(url) or len(url) > _URL_MOST:
        return span(shown)
    return f"[{span(shown)}]({quote(url, safe=_SAFE, errors='replace').replace('&', '&amp;')})"


def comment_marker(key: str) -> str:
    """Return the hidden first line by which a comment is found again. Another key never makes the same line."""
    kept = _NOT_IN_KEYS.sub("-", key)[:_KEY_MOST].strip("-")
    if kept != key or not key:
        kept += "-" + hashlib.sha256(key.encode(errors="backslashreplace")).hexdigest()[:8]
    return f"<!-- reconciler-plan: {kept} -->"


def _longest(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0) if "`" in text else 0


def sheet_size(text: str) -> int:
    """Return the size in bytes of UTF-8, which is never less than a forge's count of characters."""
    return len(text) if text.isascii() else len(text.encode())


class Sheet:
    """A text with a limit in bytes of UTF-8, filled piece by piece."""

    def __init__(self, limit: int) -> None:
        """`limit` is in bytes."""
        self.left = limit
        self._pieces: list[str] = []

    def add(self, piece: str, *, keep: int = 0) -> bool:
        """Add a piece if it fits and leaves `keep` bytes free. Return True if it was added."""
        needed = sheet_size(piece)
        if needed + keep > self.left:
            return False
        self._pieces.append(piece)
        self.left -= needed
        return True

    def __str__(self) -> str:
        """Return the added pieces."""
        return "".join(self._pieces)


_CLOSE = "\n</details>\n\n"
_LINES = 250  # of one resource, which has a quarter of the limit at most
_NOTES = 10
_ENTRIES = 50
_WIDTH = 100  # characters
_RENDERED = 8 * 1024  # bytes of the difference of one Configuration for Collectors
_RESERVED = 200  # bytes, to end the fold and say how many of these differences are not shown


def render_markdown(plan: Plan, *, marker: str, limit: int = LIMIT, command: str = "") -> str:
    """Return the comment, of at most `limit` bytes of UTF-8. `marker` is the key of the hidden first line: comments
    with the same key replace each other. `command` makes the plan again.
    """
    sheet = Sheet(max(limit, MINIMUM))
    verdict = _verdict(plan.entries)
    head = f"{span(clean_text(review_plan.short_commit(plan.head)))}{review_plan.committed(plan.head)}"
    sheet.add(f"{comment_marker(marker)}\n### Plan for {head}: {verdict}\n\n")
    sections = tuple(review_plan.sections(plan))
    statuses = [one for section in sections for group in section.groups for one in group.statuses]
    again = _again(command)
    if sheet_size(again) > sheet.left // 4:
        again = ""
    sheet.left -= sheet_size(_missing(statuses) + again)
    for piece in _about(plan):
        sheet.add(piece, keep=sheet.left // 2)
    shown = _fill(sheet, plan, sections)
    _add_renderings(sheet, plan)
    return f"{sheet}{_missing(statuses[shown:])}{again}"


def _again(command: str) -> str:
    shown = review_plan.pasteable(command)
    if not shown:
        return ""
    _, end = fence([shown])
    return f"\n{review_plan.AGAIN}\n\n{end.strip()}sh\n{shown}\n{end}"


def _verdict(entries: Sequence[PlanEntry]) -> str:
    told = review_plan.plan_verdict(review_plan.tally_plan(entries))
    return told.replace("~", r"\~")  # two tildes would strike out the text between them


def _about(plan: Plan) -> Iterator[str]:
    """Yield the text above the resources, the most important first."""
    yield f"Merging {_tip(plan.head)} into {_tip(plan.base)}.\n\n"
    if moved := review_plan.moved(plan, span(clean_text(plan.base.ref))):
        yield f"**Note:** {moved}.\n\n"
    if plan.stale:
        yield f"**Note:** {review_plan.STALE}.\n\n"
    if plan.server is not None:
        pages = [linked(clean_text(entry.name), entry.page) for entry in plan.entries[:_ENTRIES] if entry.page]
        kept = f" In the console: {', '.join(pages)}." if pages else ""
        yield f"Against {span(clean_text(plan.server))}{review_plan.revision(plan)}.{kept}\n\n"
    several = len(plan.entries) > 1
    for entry in plan.entries:
        if entry.refused:
            name = span(clean_text(entry.name))
            yield f"**Note:** nothing of the entry {name} would be stored: {review_plan.REFUSED}.\n\n"
    if several:
        yield _table(plan.entries)
    yield from _flows(plan)
    yield from _unfit(plan)
    notes = [(entry, note) for entry in plan.entries for note in entry.notes]
    lines = [
        f"- {f'entry {span(clean_text(entry.name))}: ' if several else ''}{span(clean_text(note, VALUE))}\n"
        for entry, note in notes[:_NOTES]
    ]
    if len(notes) > _NOTES:
        lines.append(f"- and {counted(len(notes) - _NOTES, 'more note')}\n")
    if lines:
        yield "".join(lines) + "\n"


def _flows(plan: Plan) -> Iterator[str]:
    """Yield the changes in delivery, with marks that forges colour."""
    for entry in plan.entries:
        if entry.flows:
            several = f" of the entry {span(clean_text(entry.name))}" if len(plan.entries) > 1 else ""
            shown, folded = review_plan.parted_flows(entry)
            yield f"**Delivery{several}:**\n{_whole_block(shown)}\n"
            if folded:
                summary = counted(len(entry.flows) - len(shown), "more flow")
                yield f"<details><summary>{summary}</summary>\n{_whole_block(folded)}{_CLOSE}"


def _whole_block(lines: Iterable[PlanLine]) -> str:
    texts = [f"{line}\n" for line in _wrapped(lines)]
    begin, end = fence(texts)
    return f"\n{begin}{''.join(texts)}{end}"


def _unfit(plan: Plan) -> Iterator[str]:
    """Yield the reasons why Configurations are unfit for Collectors, in wrapped lines."""
    for entry in plan.entries:
        found = [one for one in text.shown_renderings(entry) if one.violations and not one.existing]
        lines = [
            f"! {part}\n"
            for one in found
            for line in (PlanLine("!", one.title), *one.violations)
            for part in textwrap.wrap(line.text, _WIDTH)
        ]
        if lines:
            several = f" of the entry {span(clean_text(entry.name))}" if len(plan.entries) > 1 else ""
            yield f"**{len(found):,} {review_plan.UNFIT}{several}:**\n{_block(lines, 8 * VALUE)}\n"


def _add_renderings(sheet: Sheet, plan: Plan) -> None:
    """Add the changes for Collectors in one fold, as far as they fit, and the number of others."""
    shown = [one for entry in plan.entries for one in text.shown_renderings(entry) if one.difference]
    added = 0
    for one in shown:
        at = "" if one.at is None else f" in {span(review_plan.place_at_line(one.at))}"
        block = _block([f"{line}\n" for line in one.difference], _RENDERED)
        begin = "" if added else f"<details><summary><b>{text.FOR_COLLECTORS}</b></summary>\n\n"
        if not sheet.add(f"{begin}- {span(one.title)}{at}\n{block}", keep=_RESERVED):
            break
        added += 1
    if added:
        sheet.add(_CLOSE)
    left = [counted(len(shown) - added, "change") + " not shown"] if added < len(shown) else []
    left += filter(None, map(text.renderings_left_out, plan.entries))
    if left:
        sheet.add(f"{text.FOR_COLLECTORS}: {'; '.join(left)}\n")


def _tip(tip: PlanTip) -> str:
    short = span(clean_text(review_plan.short_commit(tip)))
    return f"{span(clean_text(tip.ref))} ({short})" if review_plan.is_named(tip) else short


def _table(entries: Sequence[PlanEntry]) -> str:
    rows = "".join(
        f"| {cell(clean_text(entry.name))} | {cell(clean_text(entry.path) or './')} | {_verdict([entry])} |\n"
        for entry in entries[:_ENTRIES]
    )
    rest = len(entries) - _ENTRIES
    more = f"\nand {counted(rest, 'more entry', 'more entries')}\n" if rest > 0 else ""
    return f"| entry | folder | what changes |\n|---|---|---|\n{rows}{more}\n"


def _fill(sheet: Sheet, plan: Plan, sections: Sequence[PlanSection]) -> int:
    """Add the resources that fit, and return their number."""
    most = sheet.left // 4
    shown = 0
    for section in sections:
        begin = ahead = f"<details{' open' if section.is_open else ''}><summary><b>{section.summary}</b></summary>\n"
        for group in section.groups:
            ahead += _heading(group, several=len(plan.entries) > 1)
            for status in group.statuses:
                name = _name(status, review_plan.address(plan, group.entry, status))
                room = sheet.left - sheet_size(ahead + _CLOSE)
                if sheet_size(name) + 1 > room:
                    if not ahead.startswith(begin):
                        sheet.add(_CLOSE)
                    return shown
                lines = list(_lines(status, with_reason=not group.cause))
                sheet.add(ahead + _resource(name, lines, min(room, most), open_lines=section.open_lines(group)))
                ahead = ""
                shown += 1
        sheet.add(_CLOSE)
    return shown


def _heading(group: ResourceGroup, *, several: bool) -> str:
    entry = f"entry {span(clean_text(group.entry.name))}, " if several else ""
    owners = f", owned by {', '.join(map(span, group.owned_by))}" if group.owners else ""
    cause = "\n" + _block([f"{line}\n" for line in _wrapped(group.cause)], 4 * VALUE) if group.cause else ""
    heading = group.heading if group.cause else span(group.heading)
    return f"\n{entry}{heading}{owners}{cause}\n\n"


def _name(status: PlanStatus, address: str | None) -> str:
    """Return the title line of a resource."""
    at = status.at
    place = "" if at is None or not status.name else f" in {linked(review_plan.place_at_line(at), address)}"
    why = review_plan.word(status) if status.existing or status.held or status.renamed else ""
    why += review_plan.briefly(status) if status.existing else ""
    return f"- {span(review_plan.status_title(status))}{place}{f': {span(why)}' if why else ''}"


def _resource(name: str, lines: Sequence[PlanLine], room: int, *, open_lines: int) -> str:
    """Return a resource with as many of its lines as fit; more than `open_lines` are folded."""
    texts = [f"{line}\n" for line in lines]
    begin, end = "", ""
    if len(texts) > open_lines:
        begin, end = f"\n<details><summary>{counted(len(texts), 'line')}</summary>\n", "\n</details>\n\n"
    block = _block(texts, room - sheet_size(name) - 1 - sheet_size(begin + end))
    if block:
        return f"{name}\n{begin}{block}{end}"
    hidden = f" ({counted(len(texts), 'line')} not shown)" if texts else ""
    return f"{name}{hidden}\n" if sheet_size(name + hidden) < room else f"{name}\n"


def _block(lines: Sequence[str], room: int) -> str:
    """Return as many lines in a fence as fit; empty if none does."""

    def more(number: int) -> str:
        return f"# and {counted(number, 'more line')}\n"

    begin, end = fence(lines[:_LINES])
    inner = Sheet(room - sheet_size(f"\n{begin}{end}") - sheet_size(more(len(lines))))
    shown = next((number for number, line in enumerate(lines[:_LINES]) if not inner.add(line)), min(len(lines), _LINES))
    rest = more(len(lines) - shown) if shown < len(lines) else ""
    return f"\n{begin}{inner}{rest}{end}" if shown else ""


def _lines(status: PlanStatus, *, with_reason: bool) -> Iterator[PlanLine]:
    """Yield the lines of a resource, wrapped, with marks that forges colour."""
    if status.existing:
        return  # its name says it
    if with_reason:
        yield from _wrapped(review_plan.status_reason(status))
    for field in status.fields:
        sides = text.field_sides(field, status.at)
        for number, line in enumerate(text.field_lines(field, status.at) if sides is None else ()):
            yield _coloured(line._replace(text=f"  {line.text}") if number and line.text else line)
        if sides is not None and sides.old is not None:
            yield PlanLine("-", f"{sides.path}: {sides.old}{sides.where if sides.new is None else ''}")
        if sides is not None and sides.new is not None:
            yield PlanLine("+", f"{sides.path}: {sides.new}{sides.where}")
    yield from _wrapped(review_plan.beside(status))


def _coloured(line: PlanLine) -> PlanLine:
    """Return a line with the mark that a forge colours."""
    return line._replace(mark="!") if line.mark == "~" else line


def _wrapped(lines: Iterable[PlanLine]) -> Iterator[PlanLine]:
    """Yield sentences in lines that are short enough not to scroll."""
    for line in map(_coloured, lines):
        for part in textwrap.wrap(line.text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False):
            yield line._replace(text=part)


def _missing(statuses: Sequence[PlanStatus]) -> str:
    """Return the sentence with the number of resources that are not shown; empty if all are."""
    if not statuses:
        return ""
    found = review_plan.PlanTally()
    for status in statuses:
        found.add(status)
    told = [review_plan.in_words(found.new)] if found.new else []
    told += [f"{found.unchanged:,} unchanged"] if found.unchanged else []
    told += [f"{found.existing.total():,} already in trouble"] if found.existing else []
    number = f"{len(statuses):,} resource{' is' if len(statuses) == 1 else 's are'}"
    return f"**{number} not shown:** {', '.join(told)}. For the whole plan run `reconciler plan`.\n"
