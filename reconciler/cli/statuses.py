"""What a run did, for a person: its statuses as a table, the reasons, and the verdict in one line."""

from collections.abc import Mapping

from reconciler.cli import tables
from reconciler.cli.answers import answer_at, answer_lines, answer_objects, answer_strings, answer_text, place
from reconciler.model.outcomes import UpdateStatus
from reconciler.model.text import visible
from reconciler.model.values import Value

HEADER = ("STATUS", "KIND", "NAME", "WHERE")
ORDER = {status.value: position for position, status in enumerate(UpdateStatus)}
STORED = frozenset({UpdateStatus.UNCHANGED, UpdateStatus.CONFIGURED, UpdateStatus.CREATED, UpdateStatus.DELETED})
SUMMARY = 20  # statuses in an overview; the run itself has all of them


def counted(counts: Mapping[str, Value]) -> str:
    """`3 created, 1 invalid`: how often each status occurs, in the order that statuses have everywhere."""
    known = sorted(counts.items(), key=lambda pair: (ORDER.get(pair[0], len(ORDER)), pair[0]))
    return ", ".join(f"{number} {status}" for status, number in known if number)


def counts(run: Value) -> str:
    """The counts of a run."""
    found = answer_at(run, "counts")
    return counted(found) if isinstance(found, dict) else ""


def run_verdict(run: Value, *, colour: bool) -> str:
    """One line: how the run ended, at which commit, what it counted, and its message."""
    word = answer_text(run, "outcome") or answer_text(run, "phase")
    shown = tables.word(word) if colour else visible(word)
    commit = answer_text(run, "commit")[:12]
    told = [part for part in (counts(run), answer_text(run, "message")) if part]
    if not told and word == "succeeded":
        told = ["nothing changed"]
    where = f" at {visible(commit)}" if commit else ""
    more = "".join(f"; {visible(part)}" for part in told)
    return f"{visible(answer_text(run, 'repository'))}: {shown}{where}{more}\n"


def whole_report(run: Value, *, colour: bool) -> str:
    """Every status of a run, every reason, then the verdict."""
    found = answer_objects(answer_at(run, "statuses"))
    parts = (status_table(found, colour=colour), status_reasons(found), run_verdict(run, colour=colour))
    return "\n".join(part for part in parts if part)


def summary(run: Value, *, colour: bool) -> str:
    """The verdict, then what of the run is not stored as Git wants it, so much as an overview bears."""
    found = [status for status in answer_objects(answer_at(run, "statuses")) if is_trouble(status)]
    shown = found[:SUMMARY]
    rest = len(found) - len(shown)
    more = visible(f"and {rest} more; reconciler runs {answer_text(run, 'id')}") + "\n" if rest else ""
    return run_verdict(run, colour=colour) + status_table(shown, colour=colour) + status_reasons(shown) + more


def is_trouble(status: Value) -> bool:
    """Whether someone has to do something about it."""
    return answer_text(status, "status") not in STORED or bool(answer_text(status, "reason"))


def status_table(statuses: list[dict[str, Value]], *, colour: bool) -> str:
    """The statuses, a row for each; nothing when there are none."""
    rows = [(*(answer_text(status, name) for name in ("status", "kind", "name")), place(status)) for status in statuses]
    return tables.render_table(HEADER, rows, colour=colour) if rows else ""


def status_notes(status: Value) -> list[str]:
    """What else to know of a status, a line for each."""
    return [f"note: {note}" for note in answer_strings(answer_at(status, "notes"))]


def status_reasons(statuses: list[dict[str, Value]]) -> str:
    """Every line of every reason, and every note; one that does not say where it belongs gets that in front."""
    found = [
        _placed(line, status)
        for status in statuses
        for line in (*answer_lines(status, "reason"), *status_notes(status))
    ]
    return "".join(visible(line) + "\n" for line in found)


def _placed(line: str, status: Value) -> str:
    path = answer_text(status, "path")
    if path:
        return line if visible(line).startswith(f"{visible(path)}:") else f"{place(status)}: {line}"
    return f"{answer_text(status, 'kind') or '?'}/{answer_text(status, 'name') or '?'}: {line}"
