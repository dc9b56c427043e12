"""`reconciler status` and `reconciler runs`."""

from collections.abc import Mapping

import click

from reconciler.cli import output, tables
from reconciler.cli import session as cli_session
from reconciler.cli.client import Client
from reconciler.cli.options import wide_form_option
from reconciler.cli.session import Session, connected
from reconciler.cli.tables import Column, answer_at, answer_lines, answer_objects, answer_strings, answer_text, place
from reconciler.model.errors import Refused
from reconciler.model.outcomes import UpdateStatus
from reconciler.model.text import visible
from reconciler.model.values import Value

# What a run did, for a person: its statuses as a table, the reasons, and the verdict in one line.

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


# The repositories of a session: all that the service follows, or those of the project that was chosen.

NONE = "the service follows no repository in a project of yours; one is named under `repositories` in its settings"


def repositories_of(client: Client, *, project: str | None) -> list[dict[str, Value]]:
    """The repositories, in the service's order. Raises Refused for a project that does not exist."""
    found = answer_objects(client.get("repositories").get("repositories"))
    if project is None:
        return found
    chosen = [repository for repository in found if answer_text(repository, "project") == project]
    if not chosen:
        check_repositories(client)
    return chosen


def check_repositories(client: Client) -> None:
    """Raise Refused when the session's project does not exist; any request about resources says so."""
    client.get("resources", "Fleet", query={"limit": "1"})


def no_repositories(project: str | None) -> str:
    """What to say when there is none."""
    return NONE if project is None else f"the service follows no repository for the project {project}"


def one_repository(client: Client, name: str) -> Value:
    """One repository by its name, of whatever project. Raises Refused."""
    with cli_session.explain_missing(unknown_repository(name)):
        return client.get("repositories", name).get("repository")


def unknown_repository(name: str) -> str:
    """What to say when there is no such repository."""
    return f"there is no repository {name}; `reconciler status` shows those there are"


# `reconciler runs`: what looks at repositories did, as a list, or one of them with every status and reason.

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
    with cli_session.make_client(session) as client:
        if run is None and last is None:
            _list(_latest(client, project=session.project), form=form, colour=session.coloured)
            return
        found = one(client, _last(client, str(last)) if run is None else _whole(client, run))
        _show(found, form=form, colour=session.coloured)


def one(client: Client, run: str) -> Value:
    """One run with its statuses. Raises Refused."""
    with cli_session.explain_missing(f"there is no run {run}; `reconciler runs` lists them"):
        return client.get("runs", run).get("run")


def _whole(client: Client, run: str) -> str:
    """The id of the run that is meant. Raises Refused."""
    return tables.whole_id(run, lambda: [answer_text(each, "id") for each in _listed(client, limit=LOOKED_AT)])


def _last(client: Client, repository: str) -> str:
    with cli_session.explain_missing(
        f"{unknown_repository(repository)}, and `reconciler runs` also lists runs of those that left the settings"
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
        check_repositories(client)
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
        output.write(whole_report(run, colour=colour))


COLUMNS = (
    Column("ID", lambda run: tables.short_id(answer_text(run, "id")), kept=True, narrow=True),
    Column("ID", lambda run: answer_text(run, "id"), kept=True, wide=True),
    Column("REPOSITORY", lambda run: answer_text(run, "repository"), kept=True),
    Column("PROJECT", lambda run: answer_text(run, "project"), wide=True),
    Column("OUTCOME", lambda run: answer_text(run, "outcome") or answer_text(run, "phase"), kept=True),
    Column("COMMIT", lambda run: answer_text(run, "commit")[:12], kept=True),
    Column("COUNTS", counts, kept=True),
    Column("FINISHED", lambda run: output.moment_text(answer_text(run, "finishedAt")), kept=True),
)


# `reconciler status`: the repositories, what state they are in and what their last run did.

FINE = ("", "succeeded")  # outcomes that need no words; the empty one is that of no run, or of one that goes on


@click.command()
@wide_form_option
@connected
def status(session: Session, *, form: str) -> None:
    """Show each repository's state, and what its last run did.

    Beneath the table stands what was not stored, and why.
    """
    with cli_session.make_client(session) as client:
        found = [_with_last_run(client, each) for each in repositories_of(client, project=session.project)]
    if form == "json":
        output.write(output.as_json({"repositories": list[Value](found)}))
    elif form == "yaml":
        output.write(output.as_yaml(found))
    elif found:
        output.write(tables.table_of(STATUS_COLUMNS, found, wide=form == "wide", colour=session.coloured))
        output.write("".join(_trouble(repository, colour=session.coloured) for repository in found))
    if not found:
        output.note(no_repositories(session.project))


def _with_last_run(client: Client, repository: dict[str, Value]) -> dict[str, Value]:
    """The repository with the record of its last run in place of the id."""
    last = repository.get("lastRun")
    return {**repository, "lastRun": one(client, last)} if isinstance(last, str) else repository


def _trouble(repository: Value, *, colour: bool) -> str:
    """What is wrong with a repository, after an empty line; nothing when all is well."""
    run = repository.get("lastRun") if isinstance(repository, dict) else None
    parts = [] if answer_text(run, "outcome") in FINE else [summary(run, colour=colour)]
    message, of_run = answer_text(repository, "message"), answer_text(run, "message")
    # What held a run is often what holds the repository; once is enough. One that is ready has what its last run told,
    # unless a look failed since that could not be written down.
    if message and (message != of_run or (not parts and answer_text(repository, "state") != "ready")):
        parts.append(visible(f"{answer_text(repository, 'name')}: {message}") + "\n")
    if command := _release(repository):
        parts.append(command)
    if command := _overwrite(repository):
        parts.append(command)
    return "".join("\n" + part for part in parts)


def _release(repository: Value) -> str:
    """How what is held is released, when it can be."""
    held = answer_at(repository, "held")
    if answer_at(held, "approvable") is not True:
        return ""
    name, total = answer_text(repository, "name"), int(answer_text(held, "count") or 0)
    what = f"{output.counted(total, 'deletion')} held" if total else "nothing of the head is applied"
    return visible(f"{name}: {what}; `reconciler approve {name}` shows and releases it") + "\n"


def _overwrite(repository: Value) -> str:
    """What a resume will undo, when something was changed while the repository is suspended."""
    name, drift = answer_text(repository, "name"), int(answer_text(repository, "drift") or 0)
    if not drift:
        return ""
    verb, them = ("differs", "it") if drift == 1 else ("differ", "them")
    told = f"{output.counted(drift, 'resource')} {verb} from the head; `reconciler resume {name}` overwrites {them}"
    return visible(f"{name}: {told}") + "\n"


def _follows(repository: Value) -> str:
    """What of the remote is followed: a branch and a ref by their names, a tag and a commit as what they are."""
    kind, name = answer_text(repository, "follows", "kind"), answer_text(repository, "follows", "name")
    return f"{kind} {name[:12] if kind == 'commit' else name}" if kind in ("tag", "commit") else name


def _head(repository: Value) -> str:
    return answer_text(repository, "head")[:12]


def _ahead(repository: Value) -> str:
    """The newest commit, where it is not the one that is applied."""
    return "" if answer_text(repository, "head") == answer_text(repository, "commit") else _head(repository)


def _moment(repository: Value) -> str:
    run = answer_at(repository, "lastRun")
    return output.moment_text(answer_text(run, "finishedAt") or answer_text(run, "startedAt"))


def _outcome(repository: Value) -> str:
    run = answer_at(repository, "lastRun")
    return answer_text(run, "outcome") or answer_text(run, "phase")


STATUS_COLUMNS = (
    Column("REPOSITORY", lambda repository: answer_text(repository, "name"), kept=True),
    Column("PROJECT", lambda repository: answer_text(repository, "project"), tells_apart=True),
    Column("FOLLOWS", _follows, kept=True),
    Column("STATE", lambda repository: answer_text(repository, "state"), kept=True),
    Column("COMMIT", lambda repository: answer_text(repository, "commit")[:12], kept=True),
    Column("HEAD", _ahead, narrow=True),
    Column("HEAD", _head, kept=True, wide=True),
    Column("LAST RUN", _moment, kept=True),
    Column("OUTCOME", _outcome, kept=True),
    Column("COUNTS", lambda repository: counts(answer_at(repository, "lastRun")), kept=True),
)
