"""`reconciler reconcile`, `suspend`, `resume` and `approve`."""

import re
import sys
import time

import click

from reconciler.cli import exits, output, runs
from reconciler.cli import session as cli_session
from reconciler.cli.client import Client
from reconciler.cli.session import Session, connected
from reconciler.cli.tables import answer_at, answer_objects, answer_text
from reconciler.model.errors import Refused
from reconciler.model.text import visible
from reconciler.model.values import Value

# `reconciler suspend`: having the service look at a repository no more, so that people can change what it owns.


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
    meant = {"/reason": "--reason", "/expiry": "--for" if until is None else "--until"}
    unknown = runs.unknown_repository(repository)
    with (
        cli_session.make_client(session) as client,
        cli_session.explain_missing(unknown),
        cli_session.make_options(meant),
    ):
        found = client.post("repositories", repository, "suspend", body=body).get("repository")
    end = output.moment_text(answer_text(answer_at(found, "suspension"), "until"))
    output.line(f"{repository}: suspended until {end or 'somebody resumes it'}")


# Waiting for runs that were asked for, and printing what they did.

FIRST_LOOK = 0.1  # seconds; a run of a local repository takes about as long
LONGEST_LOOK = 2.0  # seconds between two looks at a long run
LOST = "run {run} left no record: it could not be written, or the service was restarted; `reconciler status` says more"
STORED = ("succeeded", "superseded")  # superseded: a newer head's run did the work


def wait_for_runs(client: Client, run: str, *, deadline: float) -> dict[str, Value]:
    """The run, once it has ended. Raises Refused when that is not before the deadline, a moment of `monotonic`."""
    pause = FIRST_LOOK
    while True:
        with cli_session.explain_missing(LOST.format(run=run)):
            found = client.get("runs", run).get("run")
        if isinstance(found, dict) and (answer_text(found, "phase") == "finished" or answer_text(found, "outcome")):
            return found
        if time.monotonic() + pause > deadline:
            raise Refused(
                f"run {run} is not finished yet; --timeout waits longer, and it goes on without anyone waiting"
            )
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_LOOK)


def report_runs(name: str, run: dict[str, Value], *, colour: bool) -> int:
    """Print what a run did; the exit code."""
    output.write(runs.whole_report({**run, "repository": name}, colour=colour))
    outcome = answer_text(run, "outcome")
    if outcome in STORED:
        return exits.OK
    return exits.ERROR if outcome == "failed" else exits.NOT_STORED


# `reconciler reconcile`: asking the service to look at repositories now, and waiting for the outcome.

SUSPENDED = "suspended"


@click.command()
@click.argument("repository", required=False)
@click.option("--wait", is_flag=True, help="Wait for the runs, and print what they did.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=300.0, help="How long to wait, in seconds (300)."
)
@connected
@click.pass_context
def reconcile(context: click.Context, session: Session, *, repository: str | None, wait: bool, timeout: float) -> None:
    """Look at REPOSITORY now, or at all of them.

    With --wait it prints every status and reason, and ends with 3 when something was not stored, with 1 when a run
    failed.
    """
    deadline = time.monotonic() + timeout
    codes = [exits.OK]
    with cli_session.make_client(session) as client:
        names = [repository] if repository else _names(client, project=session.project)
        runs = [(name, _asked(client, name)) for name in names]
        for name, run in runs:
            if wait:
                ended = wait_for_runs(client, run, deadline=deadline)
                codes.append(report_runs(name, ended, colour=session.coloured))
            else:
                output.line(f"{name}: run {run}")
    # A failed run says more than one that stored only a part.
    context.exit(exits.ERROR if exits.ERROR in codes else max(codes))


def _names(client: Client, *, project: str | None) -> list[str]:
    """All but the suspended ones, of which a note tells: somebody wants them left alone."""
    found = runs.repositories_of(client, project=project)
    if not found:
        raise Refused(runs.no_repositories(project))
    for repository in found:
        if answer_text(repository, "state") == SUSPENDED:
            output.note(f"{answer_text(repository, 'name')}: not looked at. {answer_text(repository, 'message')}")
    return [answer_text(repository, "name") for repository in found if answer_text(repository, "state") != SUSPENDED]


def _asked(client: Client, name: str) -> str:
    with cli_session.explain_missing(runs.unknown_repository(name)):
        return answer_text(client.post("repositories", name, "reconcile"), "run")


# `reconciler resume`: having the service look at a suspended repository again, and waiting for what that changes.


@click.command()
@click.argument("repository")
@click.option("--wait", is_flag=True, help="Wait for the run, and print what it did.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=300.0, help="How long to wait, in seconds (300)."
)
@connected
@click.pass_context
def resume(context: click.Context, session: Session, *, repository: str, wait: bool, timeout: float) -> None:
    """Look at REPOSITORY again: what was changed meanwhile becomes what Git says.

    With --wait it prints every status and reason, and ends as `reconcile --wait` does.
    """
    deadline = time.monotonic() + timeout
    with cli_session.make_client(session) as client:
        with cli_session.explain_missing(runs.unknown_repository(repository)):
            run = answer_text(client.post("repositories", repository, "resume"), "run")
        if not wait:
            output.line(f"{repository}: run {run}")
            return
        ended = wait_for_runs(client, run, deadline=deadline)
    context.exit(report_runs(repository, ended, colour=session.coloured))


# `reconciler approve`: releasing what a repository holds, after looking at it.

FULL = re.compile(r"[0-9a-f]{40}")
SHORTEST = 7  # digits of a commit that are enough to mean the one that is held


@click.command()
@click.argument("repository")
@click.argument("commit", required=False)
@click.option("--yes", is_flag=True, help="Do not ask; for when nobody is there to answer.")
@click.option("--wait", is_flag=True, help="Wait for the run, and print what it did.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=300.0, help="How long to wait, in seconds (300)."
)
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
    with cli_session.make_client(session) as client:
        held = _held(client, repository)
        if commit is None:
            output.write(_shown(repository, held))
            _confirm(yes=yes)
        run = _approved(client, repository, _whole(commit, held))
        if not wait:
            output.line(f"{repository}: run {run}")
            return
        ended = wait_for_runs(client, run, deadline=deadline)
    context.exit(report_runs(repository, ended, colour=session.coloured))


def _held(client: Client, name: str) -> Value:
    """What can be released. Raises Refused when there is nothing, or when a file has to be mended."""
    found = runs.one_repository(client, name)
    held = answer_at(found, "held")
    if held is None:
        raise Refused(f"{name} holds nothing, so there is nothing to approve; it is {answer_text(found, 'state')}")
    if answer_at(held, "approvable") is not True:
        raise Refused(f"what {name} holds cannot be approved; mend the file: {answer_text(found, 'message')}")
    return held


def _shown(name: str, held: Value) -> str:
    """Every resource that would go, so far as the service names them."""
    resources = [
        f"{answer_text(one, 'kind')}/{answer_text(one, 'name')}" for one in answer_objects(answer_at(held, "resources"))
    ]
    total = int(answer_text(held, "count") or 0)
    head = f"{name} at {answer_text(held, 'commit')[:12]}"
    if not total:
        return visible(f"{head} is held as a whole; nothing of it is deleted") + "\n"
    lines = [f"{head}: {output.counted(total, 'resource')} to delete", *(f"  {one}" for one in resources)]
    if total > len(resources):
        lines.append(f"  and {total - len(resources)} more")
    return "".join(visible(line) + "\n" for line in lines)


def _confirm(*, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise Refused("nobody is here to answer; name the COMMIT that is meant, or give --yes")
    output.confirm("Approve this?")


def _whole(commit: str | None, held: Value) -> str:
    """The full id of what is meant; the beginning of the held one will do, as people see it. Raises Refused."""
    head = answer_text(held, "commit")
    if commit is None or (len(commit) >= SHORTEST and head.startswith(commit)):
        return head
    if not FULL.fullmatch(commit):
        raise Refused(
            f"{commit} does not name the commit that is held, {head[:12]}; give its full id, or at least its first "
            f"{SHORTEST} digits"
        )
    return commit


def _approved(client: Client, name: str, commit: str) -> str:
    with cli_session.explain_missing(runs.unknown_repository(name)):
        return answer_text(client.post("repositories", name, "approve", body={"commit": commit}), "run")
