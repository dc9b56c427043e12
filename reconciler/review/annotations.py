"""A plan as commands of GitHub's workflows, which mark lines of files: `::warning file=...,line=3::...`.

The comment and the annotation for a missing plan are here too.

An error is a resource that would not be stored, a warning needs attention (also notes of a whole entry), a notice is a
change. GitHub shows ten of each level in a step, so the last one of a level counts the others.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from reconciler.model import flows
from reconciler.model.outcomes import UpdateStatus
from reconciler.model.plan import Plan, PlanEntry, PlanPlace, PlanStatus
from reconciler.model.text import counted
from reconciler.review import plan as review_plan
from reconciler.review import text
from reconciler.review.markdown import comment_marker, span
from reconciler.review.plan import GONE, VALUE, by_risk, clean_text, status_title

SHOWN = 10  # annotations of one level that GitHub shows in a step
_AT = re.compile(r":([1-9][0-9]{0,8}):([1-9][0-9]{0,8}):")
FIELDS = 5  # of a resource that changes, in its annotation
NOTES = 5  # before the deletions and the references that lead nowhere
ERROR, WARNING, NOTICE = "error", "warning", "notice"
_LEVELS = {  # with the sentence for a status without a reason
    UpdateStatus.INVALID: (ERROR, "It would not be stored."),
    UpdateStatus.ERROR: (ERROR, "It would not be stored."),
    UpdateStatus.FORBIDDEN: (ERROR, "It belongs to somebody else and would not be stored."),
    UpdateStatus.DELETED: (WARNING, "Merging deletes it."),
    UpdateStatus.IN_USE: (WARNING, "It would stay: something refers to it."),
    UpdateStatus.DEPRECATED: (WARNING, "It says of itself that it is deprecated."),
    UpdateStatus.CONFIGURED: (NOTICE, "Merging changes it."),
}
_HELD = "Merging would delete it; it stays until somebody releases what is held."
FEW = 10  # resources of one cause, or files that conflict


class AnnotationMark(NamedTuple):
    """One annotation."""

    level: str
    title: str
    message: str
    at: PlanPlace | None = None


def render_annotations(plan: Plan) -> Iterator[str]:
    """Yield lines: the verdict as a notice, then errors, notes, warnings and changes, the riskiest first."""
    yield command(AnnotationMark(NOTICE, "Reconciler plan", review_plan.first_line(plan)))
    of_level: dict[str, list[AnnotationMark]] = {ERROR: [], WARNING: [], NOTICE: []}
    fresh = [(entry, status) for entry, status in by_risk(plan) if not status.existing]
    groups = list(review_plan.resource_groups(fresh))
    others = {id(group.statuses[0]): group.statuses[1:] for group in groups if group.cause}
    told = {id(one) for statuses in others.values() for one in statuses}
    for entry, status in fresh:
        is_told = id(status) in told or (status.renamed and status.status is UpdateStatus.DELETED)
        for mark in () if is_told else _marks(status, _of(plan, entry), others.get(id(status), ())):
            of_level[mark.level].append(mark)
    notes = [mark for entry in plan.entries for mark in _entry_marks(entry, _of(plan, entry))]
    flowing = [mark for entry in plan.entries for mark in _flow_mark(entry, _of(plan, entry))]
    unfit = [mark for entry in plan.entries for mark in _unfit_marks(entry, _of(plan, entry))]
    yield from _bounded([*of_level[ERROR], *unfit], SHOWN)
    yield from _bounded([*notes[:NOTES], *of_level[WARNING], *notes[NOTES:]], SHOWN)
    yield from _bounded([*flowing, *of_level[NOTICE]], SHOWN - 1)  # the verdict is one of them


def _of(plan: Plan, entry: PlanEntry) -> str:
    return f" (entry {clean_text(entry.name)})" if len(plan.entries) > 1 else ""


def _entry_marks(entry: PlanEntry, of: str) -> Iterator[AnnotationMark]:
    """Yield the marks of an entry as a whole, which has no place."""
    title = f"Reconciler plan{of}"
    if entry.refused:
        yield AnnotationMark(WARNING, title, f"Nothing of this entry would be stored: {review_plan.REFUSED}.")
    for flow in entry.flows[: review_plan.MOST_FLOWS]:
        if flow.change in flows.ENDS:
            yield AnnotationMark(WARNING, f"{title}: delivery", review_plan.flow_text(flow))
    told = (clean_text(note, VALUE) for note in entry.notes)
    yield from (AnnotationMark(WARNING, title, note) for note in told if note.strip())


def _flow_mark(entry: PlanEntry, of: str) -> Iterator[AnnotationMark]:
    """Yield one mark for the flows that a new version delivers."""
    told = [review_plan.flow_text(one) for one in entry.flows[: review_plan.MOST_FLOWS] if one.change not in flows.ENDS]
    if told:
        yield AnnotationMark(NOTICE, f"Reconciler plan{of}: delivery", "\n".join(told))


def _unfit_marks(entry: PlanEntry, of: str) -> Iterator[AnnotationMark]:
    """Yield the marks of Configurations that are unfit for Collectors, at the components that cause it."""
    for one in entry.renderings:
        for violation in () if one.existing else filter(None, one.violations):
            found = _AT.search(violation, 1)
            at = found and PlanPlace(path=violation[: found.start()], line=int(found[1]), column=int(found[2]))
            title = f"Configuration {clean_text(one.name)} {review_plan.UNFIT}{of}"
            yield AnnotationMark(ERROR, title, clean_text(violation, VALUE), at or one.at)


def _marks(status: PlanStatus, of: str, others: Sequence[PlanStatus]) -> Iterator[AnnotationMark]:
    """Yield the marks of a resource: its status, its notes, and each reference to a missing resource. `others` are
    invalid for the same cause.
    """
    title = status_title(status)
    if level := _LEVELS.get(status.status):
        said = [line.text for line in review_plan.status_reason(status)]
        said = said or list(_changed(status)) or [_HELD if status.held else level[1]]
        if others:
            names = ", ".join(status_title(one) for one in others[:FEW])
            rest = len(others) - FEW
            said.append(f"the same holds for {names}{f' and {rest:,} more' if rest > 0 else ''}")
        if status.dependants:
            said.append(review_plan.affects(status))
        yield AnnotationMark(level[0], f"{title} {review_plan.word(status)}{of}", "\n".join(said), _place(status))
    if status.notes:
        notes = [line.text.removeprefix("note: ") for line in review_plan.status_notes(status)]
        yield AnnotationMark(WARNING, f"{title} note{of}", "\n".join(notes), _place(status))
    for named in status.unresolved:
        told = f"Nothing here is {status_title(named)}; without a server it cannot be told whether it exists."
        yield AnnotationMark(WARNING, f"{title} unresolved{of}", told, named.at or status.at)


def _bounded(marks: Sequence[AnnotationMark], most: int) -> Iterator[str]:
    """Yield as many as are shown; the last one counts the rest."""
    rest = len(marks) - most
    for number, mark in enumerate(marks[:most], 1):
        is_last = number == most and rest > 0
        told = f"\n{rest:,} more {mark.level}{'s' if rest > 1 else ''}: see the whole plan." if is_last else ""
        yield command(mark._replace(message=mark.message + told))


def _changed(status: PlanStatus) -> Iterator[str]:
    """Yield the changed fields of a resource. For a text of several lines, only the fact of the change is shown."""
    if status.status is not UpdateStatus.CONFIGURED:
        return
    for field in status.fields[:FIELDS]:
        sides = text.field_sides(field, status.at, whole=True)
        yield str(next(text.field_lines(field, status.at)) if sides is None else sides)
    if rest := max(len(status.fields) - FIELDS, 0) + status.fields_left_out:
        yield f"and {counted(rest, 'more field')}"


def _place(status: PlanStatus) -> PlanPlace | None:
    """Return the wrong line, or the first changed one, otherwise the beginning of the resource. A deleted resource has
    the first line of its file: its own may be gone.
    """
    if status.at is None or status.status in GONE:
        return status.at and PlanPlace(path=status.at.path)
    path = status.at.path
    for line in (status.reason or "").split("\n"):
        if line.startswith(f"{path}:") and (found := _AT.match(line, len(path))):
            return PlanPlace(path=path, line=int(found[1]), column=int(found[2]))
    changed = (field.at for field in status.fields if status.status is UpdateStatus.CONFIGURED)
    return next(filter(None, changed), status.at)


def command(mark: AnnotationMark) -> str:
    """Return the line that makes one annotation."""

    def escaped(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    place = mark.at
    where = {} if place is None else {"file": clean_text(place.path), "line": str(place.line), "col": str(place.column)}
    properties = {name: escaped(value).replace(":", "%3A").replace(",", "%2C") for name, value in where.items()}
    properties["title"] = escaped(mark.title).replace(":", "%3A").replace(",", "%2C")
    told = ",".join(f"{name}={value}" for name, value in properties.items())
    return f"::{mark.level} {told}::{escaped(mark.message)}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPlan:
    """The reason for a missing plan: a sentence without a full stop, and its first files, of `total`. `head` is the
    short id of the commit, or its name if the commit does not exist.
    """

    head: str
    sentence: str
    files: tuple[str, ...] = ()
    total: int = 0

    def lines(self) -> list[str]:
        """Return the first files, and how many more there are."""
        shown = [clean_text(path) for path in self.files[:FEW]]
        rest = max(self.total, len(self.files)) - len(shown)
        return [*shown, f"and {counted(rest, 'more file')}"] if rest else shown


def absent_comment(found: NoPlan, *, marker: str) -> str:
    """Return the comment, with the hidden mark of the plan's comment. It is short enough for every forge."""
    title = f"No plan for {span(clean_text(found.head))}: {span(clean_text(found.sentence, VALUE))}"
    files = "".join(f"- {span(line)}\n" for line in found.lines())
    return f"{comment_marker(marker)}\n### {title}\n" + (f"\n{files}" if files else "")


def absent_annotation(found: NoPlan) -> str:
    """Return the same as one error of a workflow."""
    told = "\n".join((clean_text(found.sentence, VALUE), *found.lines()))
    return command(AnnotationMark(ERROR, f"No plan for {clean_text(found.head)}", told))
