"""`reconciler status`, `reconcile`, `suspend`, `resume` and `approve`: the repositories that the service follows."""

import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from reconciler.cli import client, exits, output, runs, tables
from reconciler.cli.client import Client
from reconciler.cli.options import Session, connected, wide_form_option
from reconciler.cli.tables import Column, commit
from reconciler.model.errors import Refused
from reconciler.model.text import visible
from reconciler.model.values import Value

NONE = "the service follows no repository in a project of yours; one is named under `repositories` in its settings"
FINE = ("", "succeeded")  # outcomes that need no words; the empty one is that of no run, or of one that goes on
SUSPENDED = "suspended"
FIRST_POLL = 0.1  # seconds; a run of a local repository takes about as long
LONGEST_POLL = 2.0  # seconds between two polls of a long run
LOST = "run {} left no record: it could not be written, or the service was restarted; `reconciler status` says more"
STORED = ("succeeded", "superseded")  # superseded: a newer head's run did the work
FULL = re.compile(r"[0-9a-f]{40}")
SHORTEST = 7  # digits that are enough to name the commit that is held


def _follows(repository: Value) -> str:
    """Return the branch or the ref by its name, a tag and a commit with the word in front."""
    kind, name = client.text(repository, "follows", "kind"), client.text(repository, "follows", "name")
    return f"{kind} {name[:12] if kind == 'commit' else name}" if kind in ("tag", "commit") else name


def _ahead(repository: Value) -> str:
    """Return the newest commit, where it is not the one that is applied."""
    head = client.text(repository, "head")
    return "" if head == client.text(repository, "commit") else head[:12]


def _last_run(repository: Value) -> str:
    run = client.at(repository, "lastRun")
    return output.moment_text(client.text(run, "finishedAt") or client.text(run, "startedAt"))


COLUMNS = (
    Column("REPOSITORY", "name"),
    Column("PROJECT", "project", tells_apart=True),
    Column("FOLLOWS", _follows),
    Column("STATE", "state"),
    Column("COMMIT", commit("commit")),
    Column("HEAD", _ahead, optional=True, narrow=True),
    Column("HEAD", commit("head"), wide=True),
    Column("LAST RUN", _last_run),
    Column("OUTCOME", lambda repository: runs.outcome(client.at(repository, "lastRun"))),
    Column("COUNTS", lambda repository: runs.counts(client.at(repository, "lastRun"))),
)

F = TypeVar("F", bound=Callable[..., Any])


def _wait_options(text: str) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        seconds = click.FloatRange(min=0, min_open=True)
        timeout = click.option("--timeout", type=seconds, default=300.0, help="How long to wait, in seconds (300).")
        return click.option("--wait", is_flag=True, help=text)(timeout(function))

    return decorate


@click.command()
@wide_form_option
@connected
def status(session: Session, *, form: str) -> None:
    """Show each repository's state, and what its last run did.

    Beneath the table stands what was not stored, and why.
    """
    colour = session.coloured
    with session.client() as service:
        found = _repositories(service, project=session.project)
        for repository in found:
            if isinstance(last := repository.get("lastRun"), str):
                repository["lastRun"] = service.get("runs", last, missing=runs.NO_RUN.format(last)).get("run")
    tables.write_list("repositories", found, COLUMNS, form=form, colour=colour)
    if form in ("table", "wide"):
        output.write("".join(_trouble(repository, colour=colour) for repository in found))
    if not found:
        output.note(_none(session.project))


def _repositories(service: Client, *, project: str | None) -> list[dict[str, Value]]:
    """Return the repositories of the project, or all, in the service's order. Raises Refused for no such project."""
    found = client.objects(service.get("repositories").get("repositories"))
    if project is None:
        return found
    chosen = [repository for repository in found if client.text(repository, "project") == project]
    if not chosen:
        runs.check_project(service)
    return chosen


def _none(project: str | None) -> str:
    return NONE if project is None else f"the service follows no repository for the project {project}"


def _trouble(repository: Value, *, colour: bool) -> str:
    """Return the trouble of a repository, after an empty line; nothing when all is well."""
    run, name = client.at(repository, "lastRun"), client.text(repository, "name")
    parts = [] if client.text(run, "outcome") in FINE else [runs.summary(run, colour=colour)]
    message = client.text(repository, "message")
    # What held a run is often what holds the repository; once is enough. One that is ready has what its last run told,
    # unless a poll failed since that could not be written down.
    is_news = message != client.text(run, "message") or (not parts and client.text(repository, "state") != "ready")
    if message and is_news:
        parts.append(visible(f"{name}: {message}") + "\n")
    if client.at(repository, "held", "approvable") is True:
        total = int(client.text(repository, "held", "count") or 0)
        what = f"{output.counted(total, 'deletion')} held" if total else "nothing of the head is applied"
        parts.append(visible(f"{name}: {what}; `reconciler approve {name}` shows and releases it") + "\n")
    if drift := int(client.text(repository, "drift") or 0):
        verb, them = ("differs", "it") if drift == 1 else ("differ", "them")
        told = f"{output.counted(drift, 'resource')} {verb} from the head; `reconciler resume {name}` overwrites {them}"
        parts.append(visible(f"{name}: {told}") + "\n")
    return "".join("\n" + part for part in parts)


@click.command()
@click.argument("repository")
@click.option("--reason", required=True, help="Why, in one line; whoever looks at the repository reads it.")
@click.option("--for", "duration", metavar="DURATION", help="Resume by itself after so long: 30m, 2h.")
@click.option("--until", metavar="INSTANT", help="Resume by itself at an instant: 2026-11-21T08:00:00Z.")
@connected
def suspend(session: Session, *, repository: str, reason: str, duration: str | None, until: str | None) -> None:
    """Look at REPOSITORY no more, until it is resumed.

    Meanwhile an admin may change and delete what it owns. Suspending it again replaces reason and expiry.
    """
    if duration is not None and until is not None:
        raise click.UsageError("give either --for or --until, not both")
    expiry = duration if until is None else until
    body: dict[str, Value] = {"reason": reason}
    if expiry is not None:
        body["expiry"] = expiry
    named = {"/reason": "--reason", "/expiry": "--for" if until is None else "--until"}
    missing = client.NO_REPOSITORY.format(repository)
    with session.client() as service:
        answer = service.post("repositories", repository, "suspend", body=body, missing=missing, options=named)
    end = output.moment_text(client.text(answer, "repository", "suspension", "until"))
    output.line(f"{repository}: suspended until {end or 'somebody resumes it'}")


@click.command()
@click.argument("repository", required=False)
@_wait_options("Wait for the runs, and print what they did.")
@connected
@click.pass_context
def reconcile(context: click.Context, session: Session, *, repository: str | None, wait: bool, timeout: float) -> None:
    """Look at REPOSITORY now, or at all of them.

    With --wait it prints every status and reason, and ends with 3 when something was not stored, with 1 when a run
    failed.
    """
    deadline = time.monotonic() + timeout
    with session.client() as service:
        names = [repository] if repository else _awake(service, project=session.project)
        begun = [(name, _begin(service, name, "reconcile")) for name in names]
        codes = [_ended(service, *each, wait=wait, deadline=deadline, colour=session.coloured) for each in begun]
    # A failed run says more than one that stored only a part.
    context.exit(exits.ERROR if exits.ERROR in codes else max(codes, default=exits.OK))


def _awake(service: Client, *, project: str | None) -> list[str]:
    """Return all repositories but the suspended ones, which a note tells: somebody wants them left alone."""
    found = _repositories(service, project=project)
    if not found:
        raise Refused(_none(project))
    for repository in found:
        if client.text(repository, "state") == SUSPENDED:
            output.note(f"{client.text(repository, 'name')}: not looked at. {client.text(repository, 'message')}")
    return [client.text(one, "name") for one in found if client.text(one, "state") != SUSPENDED]


@click.command()
@click.argument("repository")
@_wait_options("Wait for the run, and print what it did.")
@connected
@click.pass_context
def resume(context: click.Context, session: Session, *, repository: str, wait: bool, timeout: float) -> None:
    """Look at REPOSITORY again: what was changed meanwhile becomes what Git says.

    With --wait it prints every status and reason, and ends as `reconcile --wait` does.
    """
    deadline = time.monotonic() + timeout
    with session.client() as service:
        run = _begin(service, repository, "resume")
        code = _ended(service, repository, run, wait=wait, deadline=deadline, colour=session.coloured)
    context.exit(code)


def _begin(service: Client, name: str, what: str, body: Value = None) -> str:
    """Return the id of the run that this request begins."""
    return client.text(
        service.post("repositories", name, what, body=body, missing=client.NO_REPOSITORY.format(name)), "run"
    )


def _ended(service: Client, name: str, run: str, *, wait: bool, deadline: float, colour: bool) -> int:
    """Print the id of a run, or wait for its end and print all of it. Return the exit code.

    Raises Refused when the run does not end before the deadline, a moment of `monotonic`.
    """
    if not wait:
        output.line(f"{name}: run {run}")
        return exits.OK
    pause = FIRST_POLL
    while True:
        found = service.get("runs", run, missing=LOST.format(run)).get("run")
        if isinstance(found, dict) and (client.text(found, "phase") == "finished" or client.text(found, "outcome")):
            break
        if time.monotonic() + pause > deadline:
            raise Refused(
                f"run {run} is not finished yet; --timeout waits longer, and it goes on without anyone waiting"
            )
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_POLL)
    output.write(runs.whole_report({**found, "repository": name}, colour=colour))
    outcome = client.text(found, "outcome")
    if outcome in STORED:
        return exits.OK
    return exits.ERROR if outcome == "failed" else exits.NOT_STORED


@click.command()
@click.argument("repository")
@click.argument("commit", required=False)
@click.option("--yes", is_flag=True, help="Do not ask; for when nobody is there to answer.")
@_wait_options("Wait for the run, and print what it did.")
@connected
@click.pass_context
def approve(
    context: click.Context,
    session: Session,
    *,
    repository: str,
    commit: str | None,
    yes: bool,
    wait: bool,
    timeout: float,
) -> None:
    """Release what REPOSITORY holds at COMMIT.

    Without COMMIT it shows what is held at the head, and asks. With --wait it prints every status and reason, and ends
    as `reconcile --wait` does.
    """
    deadline = time.monotonic() + timeout
    with session.client() as service:
        found = service.get("repositories", repository, missing=client.NO_REPOSITORY.format(repository)).get(
            "repository"
        )
        held = client.at(found, "held")
        if held is None:
            state = client.text(found, "state")
            raise Refused(f"{repository} holds nothing, so there is nothing to approve; it is {state}")
        if client.at(held, "approvable") is not True:
            why = client.text(found, "message")
            raise Refused(f"what {repository} holds cannot be approved; mend the file: {why}")
        if commit is None:
            output.write("".join(visible(line) + "\n" for line in _held(repository, held)))
            if not yes:
                nobody = "nobody is here to answer; name the COMMIT that is meant, or give --yes"
                output.confirm("Approve this?", otherwise=nobody)
        run = _begin(service, repository, "approve", {"commit": _whole_commit(commit, client.text(held, "commit"))})
        code = _ended(service, repository, run, wait=wait, deadline=deadline, colour=session.coloured)
    context.exit(code)


def _held(name: str, held: Value) -> list[str]:
    """Return every resource that would be deleted, as far as the service names them."""
    resources = [
        f"  {client.text(one, 'kind')}/{client.text(one, 'name')}"
        for one in client.objects(client.at(held, "resources"))
    ]
    total = int(client.text(held, "count") or 0)
    head = f"{name} at {client.text(held, 'commit')[:12]}"
    if not total:
        return [f"{head} is held as a whole; nothing of it is deleted"]
    more = [f"  and {total - len(resources)} more"] if total > len(resources) else []
    return [f"{head}: {output.counted(total, 'resource')} to delete", *resources, *more]


def _whole_commit(commit: str | None, head: str) -> str:
    """Return the full id of a commit; its beginning is enough for the one that is held. Raises Refused."""
    if commit is None or (len(commit) >= SHORTEST and head.startswith(commit)):
        return head
    if not FULL.fullmatch(commit):
        raise Refused(
            f"{commit} does not name the commit that is held, {head[:12]}; give its full id, or at least its first "
            f"{SHORTEST} digits"
        )
    return commit
