"""`reconciler runs`, and the report of a run: its statuses as a table, the reasons, and the result in one line."""

from collections.abc import Mapping, Sequence

import click

from reconciler.cli import client, fields, output, tables
from reconciler.cli.client import Client
from reconciler.cli.options import connected, wide_form_option
from reconciler.cli.tables import Column, commit, moment
from reconciler.model.errors import Refused
from reconciler.model.outcomes import UpdateStatus
from reconciler.model.text import visible
from reconciler.model.values import Value

ORDER = {status.value: position for position, status in enumerate(UpdateStatus)}
STORED = frozenset({UpdateStatus.UNCHANGED, UpdateStatus.CONFIGURED, UpdateStatus.CREATED, UpdateStatus.DELETED})
SUMMARY = 20  # statuses in an overview
SHOWN = 100  # runs in the list
MOST = 10_000  # runs in one answer of the service, among which those of a project are found
NO_RUN = "there is no run {}; `reconciler runs` lists them"


def counted(counts: Mapping[str, Value]) -> str:
    """Return `3 created, 1 invalid`, in the usual order of statuses."""
    known = sorted(counts.items(), key=lambda pair: (ORDER.get(pair[0], len(ORDER)), pair[0]))
    return ", ".join(f"{number} {status}" for status, number in known if number)


def counts(run: Value) -> str:
    """Return the counts of a run."""
    found = client.at(run, "counts")
    return counted(found) if isinstance(found, dict) else ""


def outcome(run: Value) -> str:
    """Return the outcome of a run, or its phase while it is in progress."""
    return client.text(run, "outcome") or client.text(run, "phase")


STATUS_COLUMNS = (
    Column("STATUS", "status"),
    Column("KIND", "kind"),
    Column("NAME", "name"),
    Column("WHERE", client.place),
)
COLUMNS = (
    Column("ID", "id"),
    Column("REPOSITORY", "repository"),
    Column("PROJECT", "project", optional=True, wide=True),
    Column("OUTCOME", outcome),
    Column("COMMIT", commit("commit")),
    Column("COUNTS", counts),
    Column("FINISHED", moment("finishedAt")),
)


def verdict(run: Value) -> str:
    """Return one line: the outcome, the commit, the counts and the message."""
    ended = outcome(run)
    told = [part for part in (counts(run), client.text(run, "message")) if part]
    if not told and ended == "succeeded":
        told = ["nothing changed"]
    where = f" at {client.text(run, 'commit')[:12]}" if client.text(run, "commit") else ""
    more = visible("; ".join((where, *told)))
    return f"{visible(client.text(run, 'repository'))}: {visible(ended)}{more}\n"


def whole_report(run: Value) -> str:
    """Return all statuses of a run, all reasons, then the verdict."""
    found = client.objects(run, "statuses")
    changes = flow_lines(client.at(run, "flows", "changes"))
    parts = (tables.table(STATUS_COLUMNS, found), status_reasons(found), changes, verdict(run))
    return "\n".join(part for part in parts if part)


def flow_lines(changes: Value) -> str:
    """Return a line for each change in delivery."""
    return output.as_lines(f"delivery: {client.text(one, 'text')}" for one in client.objects(changes))


def summary(run: Value) -> str:
    """Return the verdict, then the first statuses that are not stored as in Git."""
    statuses = client.objects(run, "statuses")
    found = [one for one in statuses if client.text(one, "status") not in STORED or client.text(one, "reason")]
    shown, rest = found[:SUMMARY], len(found[SUMMARY:])
    more = [f"and {rest} more; reconciler runs {client.text(run, 'id')}"] if rest else []
    return verdict(run) + tables.table(STATUS_COLUMNS, shown) + status_reasons(shown) + output.as_lines(more)


def status_reasons(statuses: Sequence[Value]) -> str:
    """Return all reasons and notes. A line without a place gets the place of its resource."""
    found = []
    for status in statuses:
        path = client.text(status, "path")
        notes = (f"note: {note}" for note in client.strings(status, "notes"))
        for line in (*client.lines(status, "reason"), *notes):
            if not path:
                found.append(f"{client.text(status, 'kind') or '?'}/{client.text(status, 'name') or '?'}: {line}")
            elif visible(line).startswith(f"{visible(path)}:"):
                found.append(line)
            else:
                found.append(f"{client.place(status)}: {line}")
    return output.as_lines(found)


@click.command()
@click.argument("run", metavar="[ID]", required=False)
@click.option("--last", metavar="REPOSITORY", help="The last run of this repository, instead of an ID.")
@click.option("--fields", "with_fields", is_flag=True, help="Also show the fields that the run changed.")
@wide_form_option
@connected
def runs(service: Client, *, run: str | None, last: str | None, with_fields: bool, form: str) -> None:
    """List the latest runs, or show all statuses and reasons of the run ID."""
    if run is not None and last is not None:
        raise click.UsageError("give either an ID or --last, not both")
    if run is None and last is None:
        if with_fields:
            raise click.UsageError("--fields is for one run; give an ID or --last")
        # The service cannot filter by project.
        limit = SHOWN if service.project is None else MOST
        found = client.objects(service.get("runs", query={"limit": str(limit)}), "runs")
        found = of_project(service, found)[:SHOWN]
        tables.write_list("runs", found, COLUMNS, form=form, empty="no runs found")
        return
    if last is not None:
        known = client.NO_REPOSITORY.format(last)
        missing = f"{known}, and `reconciler runs` also lists runs of those that left the settings"
        run = client.text(service.get("repositories", last, missing=missing), "repository", "lastRun")
        if not run:
            raise Refused(f"{last} has had no run yet; `reconciler reconcile {last}` asks for one")
    one = service.get("runs", str(run), missing=NO_RUN.format(run)).get("run")
    if not with_fields or not isinstance(one, dict):
        tables.write_one(one, form=form, as_text=lambda: whole_report(one))
        return
    changed = service.get("runs", str(run), "changes")
    shown: Value = {**one, "changes": changed.get("changes"), "moreChanges": changed.get("more")}
    tables.write_one(shown, form=form, as_text=lambda: f"{_changes(changed)}\n{whole_report(one)}")


def _changes(found: dict[str, Value]) -> str:
    """Return the resources that a run changed, with their fields."""
    lines = ""
    for one in client.objects(found, "changes"):
        where = f" ({visible(client.place(one.get('at')))})" if one.get("at") else ""
        reason = f": {visible(client.text(one, 'reason'))}" if one.get("reason") else ""
        named = f"{client.text(one, 'kind')}/{client.text(one, 'name')}"
        lines += f"{visible(named)} {visible(client.text(one, 'status'))}{where}{reason}\n"
        lines += fields.field_lines(one)
    return lines + ("and more resources, which are not shown\n" if found.get("more") else "")


def of_project(service: Client, found: list[dict[str, Value]]) -> list[dict[str, Value]]:
    """Return those of the chosen project, or all. Raises Refused if the project does not exist."""
    chosen = [one for one in found if service.project in (None, client.text(one, "project"))]
    if not chosen and service.project is not None:
        service.get(
            "resources", "Fleet", query={"limit": "1"}
        )  # any request about resources raises for an unknown project
    return chosen
