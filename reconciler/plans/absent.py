"""That there is no plan, as a comment and as an annotation: what was said of an earlier push must not stay.

Belongs here: the layout. Does not: why there is none (`cli.plan_skins` says it in a `NoPlan`), quoting (`quoting`).
"""

from dataclasses import dataclass

from reconciler.model.text import counted
from reconciler.plans import annotations, showing
from reconciler.plans.annotations import ERROR, AnnotationMark
from reconciler.plans.markdown import LIMIT, MINIMUM
from reconciler.plans.quoting import comment_marker, span
from reconciler.plans.sheets import Sheet
from reconciler.plans.showing import clean_text

SHOWN = 100  # files
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
    for name, sentence in ((showing.NAME, showing.VALUE), (50, 100), (10, 20)):
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
    for path in found.files[:SHOWN]:
        if not sheet.add(f"- {span(clean_text(path))}\n", keep=_MORE):
            break
        shown += 1
    if rest := max(found.total, len(found.files)) - shown:
        sheet.add(f"- and {counted(rest, 'more file')}\n")


def absent_annotation(found: NoPlan) -> str:
    """The same as one error of a workflow."""
    files = [clean_text(path) for path in found.files[:FEW]]
    rest = max(found.total, len(found.files)) - len(files)
    told = [clean_text(found.sentence, showing.VALUE), *files, *([f"and {counted(rest, 'more file')}"] if rest else [])]
    return annotations.command(AnnotationMark(ERROR, f"No plan for {clean_text(found.head)}", "\n".join(told)))
