"""`reconciler status`: the repositories, what state they are in and what their last run did."""

import click

from reconciler.cli import connecting, output, repositories, statuses, tables, words
from reconciler.cli.answers import answer_at, answer_text
from reconciler.cli.client import Client
from reconciler.cli.form_option import wide_form_option
from reconciler.cli.runs import one
from reconciler.cli.sessions import Session, connected
from reconciler.cli.tables import Column
from reconciler.model.text import visible
from reconciler.model.values import Value

FINE = ("", "succeeded")  # outcomes that need no words; the empty one is that of no run, or of one that goes on


@click.command()
@wide_form_option
@connected
def status(session: Session, *, form: str) -> None:
    """Show each repository's state, and what its last run did.

    Beneath the table stands what was not stored, and why.
    """
    with connecting.make_client(session) as client:
        found = [_with_last_run(client, each) for each in repositories.repositories_of(client, project=session.project)]
    if form == "json":
        output.write(output.as_json({"repositories": list[Value](found)}))
    elif form == "yaml":
        output.write(output.as_yaml(found))
    elif found:
        output.write(tables.table_of(COLUMNS, found, wide=form == "wide", colour=session.coloured))
        output.write("".join(_trouble(repository, colour=session.coloured) for repository in found))
    if not found:
        output.note(repositories.no_repositories(session.project))


def _with_last_run(client: Client, repository: dict[str, Value]) -> dict[str, Value]:
    """The repository with the record of its last run in place of the id."""
    last = repository.get("lastRun")
    return {**repository, "lastRun": one(client, last)} if isinstance(last, str) else repository


def _trouble(repository: Value, *, colour: bool) -> str:
    """What is wrong with a repository, after an empty line; nothing when all is well."""
    run = repository.get("lastRun") if isinstance(repository, dict) else None
    parts = [] if answer_text(run, "outcome") in FINE else [statuses.summary(run, colour=colour)]
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
    what = f"{words.counted(total, 'deletion')} held" if total else "nothing of the head is applied"
    return visible(f"{name}: {what}; `reconciler approve {name}` shows and releases it") + "\n"


def _overwrite(repository: Value) -> str:
    """What a resume will undo, when something was changed while the repository is suspended."""
    name, drift = answer_text(repository, "name"), int(answer_text(repository, "drift") or 0)
    if not drift:
        return ""
    verb, them = ("differs", "it") if drift == 1 else ("differ", "them")
    told = f"{words.counted(drift, 'resource')} {verb} from the head; `reconciler resume {name}` overwrites {them}"
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
    return words.moment_text(answer_text(run, "finishedAt") or answer_text(run, "startedAt"))


def _outcome(repository: Value) -> str:
    run = answer_at(repository, "lastRun")
    return answer_text(run, "outcome") or answer_text(run, "phase")


COLUMNS = (
    Column("REPOSITORY", lambda repository: answer_text(repository, "name"), kept=True),
    Column("PROJECT", lambda repository: answer_text(repository, "project"), tells_apart=True),
    Column("FOLLOWS", _follows, kept=True),
    Column("STATE", lambda repository: answer_text(repository, "state"), kept=True),
    Column("COMMIT", lambda repository: answer_text(repository, "commit")[:12], kept=True),
    Column("HEAD", _ahead, narrow=True),
    Column("HEAD", _head, kept=True, wide=True),
    Column("LAST RUN", _moment, kept=True),
    Column("OUTCOME", _outcome, kept=True),
    Column("COUNTS", lambda repository: statuses.counts(answer_at(repository, "lastRun")), kept=True),
)
