"""`reconciler runs`: what looks at repositories did, as a list, or one of them with every status and reason."""

import click

from reconciler.cli import connecting, output, repositories, short_ids, statuses, tables, words
from reconciler.cli.answers import answer_objects, answer_text
from reconciler.cli.client import Client
from reconciler.cli.form_option import wide_form_option
from reconciler.cli.sessions import Session, connected
from reconciler.cli.tables import Column
from reconciler.model.errors import Refused
from reconciler.model.values import Value

SHOWN = 100  # runs in the list
LOOKED_AT = 10_000  # runs among which those of one project are found; the service gives no more at once


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
    with connecting.make_client(session) as client:
        if run is None and last is None:
            _list(_latest(client, project=session.project), form=form, colour=session.coloured)
            return
        found = one(client, _last(client, str(last)) if run is None else _whole(client, run))
        _show(found, form=form, colour=session.coloured)


def one(client: Client, run: str) -> Value:
    """One run with its statuses. Raises Refused."""
    with connecting.explain_missing(f"there is no run {run}; `reconciler runs` lists them"):
        return client.get("runs", run).get("run")


def _whole(client: Client, run: str) -> str:
    """The id of the run that is meant. Raises Refused."""
    return short_ids.whole_id(run, lambda: [answer_text(each, "id") for each in _listed(client, limit=LOOKED_AT)])


def _last(client: Client, repository: str) -> str:
    with connecting.explain_missing(
        f"{repositories.unknown_repository(repository)}, and `reconciler runs` also lists runs of those that left "
        "the settings"
    ):
        run = answer_text(client.get("repositories", repository).get("repository"), "lastRun")
    if not run:
        raise Refused(f"{repository} has had no run yet; `reconciler reconcile {repository}` asks for one")
    return run


def _latest(client: Client, *, project: str | None) -> list[dict[str, Value]]:
    found = _listed(client, limit=SHOWN if project is None else LOOKED_AT)
    if project is None:
        return found
    chosen = [run for run in found if answer_text(run, "project") == project]
    if not chosen:
        repositories.check_repositories(client)
    return chosen[:SHOWN]


def _listed(client: Client, *, limit: int) -> list[dict[str, Value]]:
    return answer_objects(client.get("runs", query={"limit": str(limit)}).get("runs"))


def _list(found: list[dict[str, Value]], *, form: str, colour: bool) -> None:
    output.write(tables.shown("runs", found, form=form, columns=COLUMNS, colour=colour))
    if not found:
        output.note("no runs found")


def _show(run: Value, *, form: str, colour: bool) -> None:
    if form == "json":
        output.write(output.as_json(run))
    elif form == "yaml":
        output.write(output.as_yaml([run]))
    else:
        output.write(statuses.whole_report(run, colour=colour))


COLUMNS = (
    Column("ID", lambda run: short_ids.short_id(answer_text(run, "id")), kept=True, narrow=True),
    Column("ID", lambda run: answer_text(run, "id"), kept=True, wide=True),
    Column("REPOSITORY", lambda run: answer_text(run, "repository"), kept=True),
    Column("PROJECT", lambda run: answer_text(run, "project"), wide=True),
    Column("OUTCOME", lambda run: answer_text(run, "outcome") or answer_text(run, "phase"), kept=True),
    Column("COMMIT", lambda run: answer_text(run, "commit")[:12], kept=True),
    Column("COUNTS", statuses.counts, kept=True),
    Column("FINISHED", lambda run: words.moment_text(answer_text(run, "finishedAt")), kept=True),
)
