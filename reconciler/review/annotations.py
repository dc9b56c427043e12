"""A plan as annotations of a forge, and the note that there is no plan."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from reconciler.model.outcomes import UpdateStatus
from reconciler.model.plan import NamedResource, Plan, PlanEntry, PlanPlace, PlanStatus
from reconciler.model.text import counted
from reconciler.review import plan as review_plan
from reconciler.review import text
from reconciler.review.markdown import Sheet, comment_marker, span
from reconciler.review.plan import LIMIT, MINIMUM, clean_text
from reconciler.review.text import by_risk

# The plan as commands of GitHub's workflows, which mark lines of files: `::warning file=...,line=3::...`.
#
# An error is what would not be stored, a warning what somebody should look at and what is told of an entry as a whole,
# a notice what changes. GitHub shows ten of each in a step; the last of a level says how many more there are.

SHOWN = 10  # annotations of one level that GitHub shows in a step
_AT = re.compile(r":([1-9][0-9]{0,8}):([1-9][0-9]{0,8}):")
FIELDS = 5  # of a resource that changes, in its annotation
NOTES = 5  # before what is deleted and what leads nowhere
ERROR, WARNING, NOTICE = "error", "warning", "notice"
_LEVELS = {
    UpdateStatus.INVALID: ERROR,
    UpdateStatus.ERROR: ERROR,
    UpdateStatus.FORBIDDEN: ERROR,
    UpdateStatus.DELETED: WARNING,
    UpdateStatus.IN_USE: WARNING,
    UpdateStatus.DEPRECATED: WARNING,
    UpdateStatus.CONFIGURED: NOTICE,
}
_GONE = frozenset({UpdateStatus.DELETED, UpdateStatus.IN_USE})  # from the head's files
_SAID = {
    UpdateStatus.INVALID: "It would not be stored.",
    UpdateStatus.ERROR: "It would not be stored.",
    UpdateStatus.FORBIDDEN: "It belongs to somebody else and would not be stored.",
    UpdateStatus.DELETED: "Merging deletes it.",
    UpdateStatus.IN_USE: "It would stay: something refers to it.",
    UpdateStatus.DEPRECATED: "It says of itself that it is deprecated.",
    UpdateStatus.CONFIGURED: "Merging changes it.",
}
_HELD = "Merging would delete it; it stays until somebody releases what is held."


class _Cause(NamedTuple):
    """What is worth a mark: what becomes of a resource, its notes, or a reference of it that leads nowhere."""

    level: str
    entry: PlanEntry
    status: PlanStatus
    unresolved: NamedResource | None = None
    is_note: bool = False


class AnnotationMark(NamedTuple):
    """One annotation."""

    level: str
    title: str
    message: str
    at: PlanPlace | None = None


def render_annotations(plan: Plan) -> Iterator[str]:
    """Lines: the verdict as a notice, then errors, notes, warnings and what changes, the riskiest first."""
    yield command(AnnotationMark(NOTICE, "Reconciler plan", review_plan.first_line(plan)))
    found = [cause for entry, status in by_risk(plan) if not status.existing for cause in _causes(entry, status)]
    of_level = {level: [cause for cause in found if cause.level == level] for level in (ERROR, WARNING, NOTICE)}
    notes = [mark for entry in plan.entries for mark in _notes(plan, entry)]
    yield from _bounded(plan, of_level[ERROR], SHOWN)
    yield from _bounded(plan, [*notes[:NOTES], *of_level[WARNING], *notes[NOTES:]], SHOWN)
    yield from _bounded(plan, of_level[NOTICE], SHOWN - 1)  # the verdict is one of them


def _causes(entry: PlanEntry, status: PlanStatus) -> Iterator[_Cause]:
    if level := _LEVELS.get(status.status):
        yield _Cause(level, entry, status)
    if status.notes:
        yield _Cause(WARNING, entry, status, is_note=True)
    yield from (_Cause(WARNING, entry, status, named) for named in status.unresolved)


def _notes(plan: Plan, entry: PlanEntry) -> Iterator[AnnotationMark]:
    """What is told of the entry as a whole, which has no place."""
    title = f"Reconciler plan{_of(plan, entry)}"
    if entry.refused:
        yield AnnotationMark(WARNING, title, f"Nothing of this entry would be stored: {review_plan.REFUSED}.")
    told = (clean_text(note, review_plan.VALUE) for note in entry.notes)
    yield from (AnnotationMark(WARNING, title, note) for note in told if note.strip())


def _of(plan: Plan, entry: PlanEntry) -> str:
    return f" (entry {clean_text(entry.name)})" if len(plan.entries) > 1 else ""


def _bounded(plan: Plan, causes: Sequence[_Cause | AnnotationMark], most: int) -> Iterator[str]:
    """As many as are shown; the last one counts the rest."""
    *shown, last = [one if isinstance(one, AnnotationMark) else _mark(plan, one) for one in causes[:most]] or (None,)
    yield from (command(mark) for mark in shown if mark is not None)
    if last is not None:
        rest = len(causes) - most
        told = f"\n{rest:,} more {last.level}{'s' if rest > 1 else ''}: see the whole plan." if rest > 0 else ""
        yield command(last._replace(message=last.message + told))


def _mark(plan: Plan, cause: _Cause) -> AnnotationMark:
    level, entry, status, named, is_note = cause
    of = _of(plan, entry)
    if is_note:
        told = "\n".join(line.text.removeprefix("note: ") for line in review_plan.status_notes(status))
        return AnnotationMark(level, f"{review_plan.status_title(status)} note{of}", told, _place(status))
    if named is not None:
        return AnnotationMark(
            level, f"{review_plan.status_title(status)} unresolved{of}", _unresolved(named), named.at or status.at
        )
    return AnnotationMark(
        level, f"{review_plan.status_title(status)} {review_plan.word(status)}{of}", _message(status), _place(status)
    )


def _message(status: PlanStatus) -> str:
    said = (
        [line.text for line in review_plan.status_reason(status)]
        or [*_changed(status)]
        or [_HELD if status.held else _SAID[status.status]]
    )
    return "\n".join([*said, *([review_plan.affects(status)] if status.dependants else [])])


def _changed(status: PlanStatus) -> Iterator[str]:
    """The fields of a resource that changes; of a text of several lines that it changed."""
    if status.status is not UpdateStatus.CONFIGURED:
        return
    for field in status.fields[:FIELDS]:
        sides = text.field_sides(field, status.at)
        if sides is None:
            yield str(next(text.field_lines(field, status.at)))
        else:
            path, old, new, where = sides
            mark = "+" if old is None else "-" if new is None else "~"
            yield f"{mark} {path}: {' -> '.join(value for value in (old, new) if value is not None)}{where}"
    if rest := max(len(status.fields) - FIELDS, 0) + status.fields_left_out:
        yield f"and {counted(rest, 'more field')}"


def _unresolved(named: NamedResource) -> str:
    return f"Nothing here is {review_plan.status_title(named)}; without a server it cannot be told whether it exists."


def _place(status: PlanStatus) -> PlanPlace | None:
    """The line that is wrong, or the first that changed, else where the resource begins. Of what goes, the first line
    of its file: its own may be gone.
    """
    if status.at is None or status.status in _GONE:
        return status.at and PlanPlace(path=status.at.path)
    changed = (field.at for field in status.fields if status.status is UpdateStatus.CONFIGURED)
    return _named(status.reason or "", status.at.path) or next(filter(None, changed), status.at)


def _named(reason: str, path: str) -> PlanPlace | None:
    """The first place in the file that a line of the reason begins with."""
    for line in reason.split("\n"):
        if line.startswith(f"{path}:") and (found := _AT.match(line, len(path))):
            return PlanPlace(path=path, line=int(found[1]), column=int(found[2]))
    return None


def command(mark: AnnotationMark) -> str:
    """The line that makes one annotation."""
    place = mark.at
    where = {} if place is None else {"file": clean_text(place.path), "line": str(place.line), "col": str(place.column)}
    properties = ",".join(f"{name}={_property(text)}" for name, text in {**where, "title": mark.title}.items())
    return f"::{mark.level} {properties}::{_data(mark.message)}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


# That there is no plan, as a comment and as an annotation: what was said of an earlier push must not stay.

ABSENT_SHOWN = 100  # files
FEW = 10  # of them in an annotation
_MORE = 60  # bytes in which the rest of the files is counted


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPlan:
    """Why there is no plan: a sentence without a full stop, and the files that it is about, of `total`.

    `head` is the short id of the commit, or what it was called where there is no such commit.
    """

    head: str
    sentence: str
    files: tuple[str, ...] = ()
    total: int = 0


def absent_comment(found: NoPlan, *, marker: str, limit: int = LIMIT) -> str:
    """The comment under the hidden mark that the plan's would have, of at most `limit` bytes of UTF-8."""
    sheet = Sheet(max(limit, MINIMUM))
    sheet.add(f"{comment_marker(marker)}\n")
    # A character can take many bytes: the last of these fits whatever it is.
    for name, sentence in ((review_plan.NAME, review_plan.VALUE), (50, 100), (10, 20)):
        title = f"### No plan for {span(clean_text(found.head, name))}: {span(clean_text(found.sentence, sentence))}\n"
        if sheet.add(title, keep=_MORE):
            break
    if found.files:
        _list(found, sheet)
    return str(sheet)


def _list(found: NoPlan, sheet: Sheet) -> None:
    """The files that fit, and how many others there are."""
    sheet.add("\n")
    shown = 0
    for path in found.files[:ABSENT_SHOWN]:
        if not sheet.add(f"- {span(clean_text(path))}\n", keep=_MORE):
            break
        shown += 1
    if rest := max(found.total, len(found.files)) - shown:
        sheet.add(f"- and {counted(rest, 'more file')}\n")


def absent_annotation(found: NoPlan) -> str:
    """The same as one error of a workflow."""
    files = [clean_text(path) for path in found.files[:FEW]]
    rest = max(found.total, len(found.files)) - len(files)
    told = [
        clean_text(found.sentence, review_plan.VALUE),
        *files,
        *([f"and {counted(rest, 'more file')}"] if rest else []),
    ]
    return command(AnnotationMark(ERROR, f"No plan for {clean_text(found.head)}", "\n".join(told)))
