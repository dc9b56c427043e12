"""What a run did, for a person: its statuses as a table, the reasons, and the verdict in one line."""

from collections.abc import Mapping

from reconciler.cli import tables
from reconciler.cli.answers import at, lines, objects, place, strings, text
from reconciler.documents.values import Value
from reconciler.escaping import visible
from reconciler.planning.statuses import UpdateStatus

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
    found = at(run, "counts")
    return counted(found) if isinstance(found, dict) else ""


def verdict(run: Value, *, colour: bool) -> str:
    """One line: how the run ended, at which commit, what it counted, and its message."""
    word = text(run, "outcome") or text(run, "phase")
    shown = tables.word(word) if colour else visible(word)
    commit = text(run, "commit")[:12]
    told = [part for part in (counts(run), text(run, "message")) if part]
    if not told and word == "succeeded":
        told = ["nothing changed"]
    where = f" at {visible(commit)}" if commit else ""
    more = "".join(f"; {visible(part)}" for part in told)
    return f"{visible(text(run, 'repository'))}: {shown}{where}{more}\n"


def whole(run: Value, *, colour: bool) -> str:
    """Every status of a run, every reason, then the verdict."""
    found = objects(at(run, "statuses"))
    parts = (table(found, colour=colour), reasons(found), verdict(run, colour=colour))
    return "\n".join(part for part in parts if part)


def summary(run: Value, *, colour: bool) -> str:
    """The verdict, then what of the run is not stored as Git wants it, so much as an overview bears."""
    found = [status for status in objects(at(run, "statuses")) if is_trouble(status)]
    shown = found[:SUMMARY]
    rest = len(found) - len(shown)
    more = visible(f"and {rest} more; reconciler runs {text(run, 'id')}") + "\n" if rest else ""
    return verdict(run, colour=colour) + table(shown, colour=colour) + reasons(shown) + more


def is_trouble(status: Value) -> bool:
    """Whether someone has to do something about it."""
    return text(status, "status") not in STORED or bool(text(status, "reason"))


def table(statuses: list[dict[str, Value]], *, colour: bool) -> str:
    """The statuses, a row for each; nothing when there are none."""
    rows = [(*(text(status, name) for name in ("status", "kind", "name")), place(status)) for status in statuses]
    return tables.render(HEADER, rows, colour=colour) if rows else ""


def notes(status: Value) -> list[str]:
    """What else to know of a status, a line for each."""
    return [f"note: {note}" for note in strings(at(status, "notes"))]


def reasons(statuses: list[dict[str, Value]]) -> str:
    """Every line of every reason, and every note; one that does not say where it belongs gets that in front."""
    found = [_placed(line, status) for status in statuses for line in (*lines(status, "reason"), *notes(status))]
    return "".join(visible(line) + "\n" for line in found)


def _placed(line: str, status: Value) -> str:
    path = text(status, "path")
    if path:
        return line if visible(line).startswith(f"{visible(path)}:") else f"{place(status)}: {line}"
    return f"{text(status, 'kind') or '?'}/{text(status, 'name') or '?'}: {line}"
