"""`reconciler runs`, and a run as text: its statuses as a table, the reasons, and the verdict in one line."""

from collections.abc import Mapping, Sequence

import click

from reconciler.cli import client, tables
from reconciler.cli.client import Client
from reconciler.cli.options import Session, connected, wide_form_option
from reconciler.cli.tables import Column, commit, moment
from reconciler.model.errors import Refused
from reconciler.model.outcomes import UpdateStatus
from reconciler.model.text import visible
from reconciler.model.values import Value

ORDER = {status.value: position for position, status in enumerate(UpdateStatus)}
STORED = frozenset({UpdateStatus.UNCHANGED, UpdateStatus.CONFIGURED, UpdateStatus.CREATED, UpdateStatus.DELETED})
SUMMARY = 20  # statuses in an overview; the run itself has all of them
SHOWN = 100  # runs in the list
MOST = 10_000  # runs among which those of one project are found; the service gives no more at once
NO_RUN = "there is no run {}; `reconciler runs` lists them"


def counted(counts: Mapping[str, Value]) -> str:
    """Return `3 created, 1 invalid`, in the order that statuses have everywhere."""
    known = sorted(counts.items(), key=lambda pair: (ORDER.get(pair[0], len(ORDER)), pair[0]))
    return ", ".join(f"{number} {status}" for status, number in known if number)


def counts(run: Value) -> str:
    """Return the counts of a run."""
    found = client.at(run, "counts")
    return counted(found) if isinstance(found, dict) else ""


def outcome(run: Value) -> str:
    """Return the outcome of a run, or its phase while it goes on."""
    return client.text(run, "outcome") or client.text(run, "phase")


STATUS_COLUMNS = (
    Column("STATUS", "status"),
    Column("KIND", "kind"),
    Column("NAME", "name"),
    Column("WHERE", client.place),
)
COLUMNS = (
    Column("ID", tables.short_id("id"), narrow=True),
    Column("ID", "id", wide=True),
    Column("REPOSITORY", "repository"),
    Column("PROJECT", "project", optional=True, wide=True),
    Column("OUTCOME", outcome),
    Column("COMMIT", commit("commit")),
    Column("COUNTS", counts),
    Column("FINISHED", moment("finishedAt")),
)


def verdict(run: Value, *, colour: bool) -> str:
    """Return one line: the outcome, the commit, the counts and the message."""
    ended = outcome(run)
    told = [part for part in (counts(run), client.text(run, "message")) if part]
    if not told and ended == "succeeded":
        told = ["nothing changed"]
    shown = tables.word(ended) if colour else visible(ended)
    where = f" at {visible(client.text(run, 'commit')[:12])}" if client.text(run, "commit") else ""
    more = "".join(f"; {visible(part)}" for part in told)
    return f"{visible(client.text(run, 'repository'))}: {shown}{where}{more}\n"


def whole_report(run: Value, *, colour: bool) -> str:
    """Return every status of a run, every reason, then the verdict."""
    found = client.objects(client.at(run, "statuses"))
    changes = flow_lines(client.at(run, "flows", "changes"))
    parts = (status_table(found, colour=colour), status_reasons(found), changes, verdict(run, colour=colour))
    return "\n".join(part for part in parts if part)


def flow_lines(changes: Value) -> str:
    """Return what changes in delivery, a line each; nothing when nothing does."""
    return "".join(f"delivery: {visible(client.text(one, 'text'))}\n" for one in client.objects(changes))


def summary(run: Value, *, colour: bool) -> str:
    """Return the verdict, then the first statuses that are not stored as Git has them."""
    statuses = client.objects(client.at(run, "statuses"))
    found = [one for one in statuses if client.text(one, "status") not in STORED or client.text(one, "reason")]
    shown, rest = found[:SUMMARY], len(found[SUMMARY:])
    more = visible(f"and {rest} more; reconciler runs {client.text(run, 'id')}") + "\n" if rest else ""
    return verdict(run, colour=colour) + status_table(shown, colour=colour) + status_reasons(shown) + more


def status_table(statuses: Sequence[Value], *, colour: bool) -> str:
    """Return the statuses, a row for each; nothing when there are none."""
    return tables.table(STATUS_COLUMNS, statuses, colour=colour) if statuses else ""


def status_reasons(statuses: Sequence[Value]) -> str:
    """Return every line of every reason, and every note; a line without a place gets the place in front."""
    found = []
    for status in statuses:
        path = client.text(status, "path")
        notes = [f"note: {note}" for note in client.strings(client.at(status, "notes"))]
        for line in (*client.lines(status, "reason"), *notes):
            if not path:
                found.append(f"{client.text(status, 'kind') or '?'}/{client.text(status, 'name') or '?'}: {line}")
            elif visible(line).startswith(f"{visible(path)}:"):
                found.append(line)
            else:
                found.append(f"{client.place(status)}: {line}")
    return "".join(visible(line) + "\n" for line in found)


@click.command()
@click.argument("run", metavar="[ID]", required=False)
@click.option("--last", metavar="REPOSITORY", help="The last run of this repository, instead of an ID.")
@wide_form_option
@connected
def runs(session: Session, *, run: str | None, last: str | None, form: str) -> None:
    """List the latest runs, or show every status and reason of the run ID.

    The last eight characters of an ID, as the list and the service's log show them, do as well.
    """
    if run is not None and last is not None:
        raise click.UsageError("give either an ID or --last, not both")
    colour = session.coloured
    with session.client() as service:
        if run is None and last is None:
            found = _latest(service, project=session.project)
            tables.write_list("runs", found, COLUMNS, form=form, colour=colour, empty="no runs found")
            return
        if last is not None:
            run = _last(service, last)
        elif run is not None:
            run = tables.whole_id(run, lambda: [client.text(each, "id") for each in _listed(service, limit=MOST)])
        one = service.get("runs", str(run), missing=NO_RUN.format(run)).get("run")
    tables.write_one(one, form=form, as_text=lambda: whole_report(one, colour=colour))


def _last(service: Client, repository: str) -> str:
    known = client.NO_REPOSITORY.format(repository)
    missing = f"{known}, and `reconciler runs` also lists runs of those that left the settings"
    run = client.text(service.get("repositories", repository, missing=missing), "repository", "lastRun")
    if not run:
        raise Refused(f"{repository} has had no run yet; `reconciler reconcile {repository}` asks for one")
    return run


def _latest(service: Client, *, project: str | None) -> list[dict[str, Value]]:
    found = _listed(service, limit=SHOWN if project is None else MOST)
    if project is None:
        return found
    chosen = [run for run in found if client.text(run, "project") == project]
    if not chosen:
        check_project(service)
    return chosen[:SHOWN]


def _listed(service: Client, *, limit: int) -> list[dict[str, Value]]:
    return client.objects(service.get("runs", query={"limit": str(limit)}).get("runs"))


def check_project(service: Client) -> None:
    """Raise Refused when the session's project does not exist; any request about resources says so."""
    service.get("resources", "Fleet", query={"limit": "1"})
