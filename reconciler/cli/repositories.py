"""`reconciler status`, `reconcile`, `suspend`, `resume` and `approve`: the repositories that the service follows."""

import functools
import time
from collections.abc import Callable
from typing import Any

import click

from reconciler.cli import client, exits, output, runs, tables
from reconciler.cli.client import Client
from reconciler.cli.options import connected, wide_form_option
from reconciler.cli.tables import Column, commit
from reconciler.model.errors import Refused
from reconciler.model.values import Value

NONE = "the service follows no repository in a project of yours; one is named under `repositories` in its settings"
FINE = ("", "succeeded")  # outcomes without a report; the empty one means no run, or a run in progress
SUSPENDED = "suspended"
LONGEST_WAIT = 30.0  # seconds of one request for a run, since a proxy may end one that takes a minute
PAUSE = 0.2  # seconds between two requests, since a service that stops or an older one does not wait
LOST = "run {} left no record: it could not be written, or the service was restarted; `reconciler status` says more"
STORED = ("succeeded", "superseded")  # superseded: a newer head's run did the work
SHORTEST = 7  # digits that suffice for the held commit


def _follows(repository: Value) -> str:
    """Return the name of the branch or ref, and of a tag or commit with its kind."""
    kind, name = client.text(repository, "follows", "kind"), client.text(repository, "follows", "name")
    return f"{kind} {name[:12] if kind == 'commit' else name}" if kind in ("tag", "commit") else name


def _ahead(repository: Value) -> str:
    """Return the newest commit, unless it is applied."""
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
    Column("HEAD", _ahead, optional=True),
    Column("HOLDER", "holder", optional=True),
    Column("LAST RUN", _last_run),
    Column("OUTCOME", lambda repository: runs.outcome(client.at(repository, "lastRun"))),
    Column("COUNTS", lambda repository: runs.counts(client.at(repository, "lastRun"))),
)


@click.command()
@wide_form_option
@connected
def status(service: Client, *, form: str) -> None:
    """Show each repository's state, and what its last run did.

    Below the table is what was not stored, and why.
    """
    found = _repositories(service)
    for repository in found:
        if isinstance(last := repository.get("lastRun"), str):
            repository["lastRun"] = service.get("runs", last, missing=runs.NO_RUN.format(last)).get("run")
    tables.write_list("repositories", found, COLUMNS, form=form)
    if form in ("table", "wide"):
        output.write("".join(_trouble(repository) for repository in found))
    if not found:
        output.note(_none(service))


def _repositories(service: Client) -> list[dict[str, Value]]:
    """Return the repositories of the project, or all. Raises Refused if the project does not exist."""
    return runs.of_project(service, client.objects(service.get("repositories"), "repositories"))


def _none(service: Client) -> str:
    return f"the service follows no repository for the project {service.project}" if service.project else NONE


def _trouble(repository: Value) -> str:
    """Return the problems of a repository, each after an empty line; the empty text if there are none."""
    run, name = client.at(repository, "lastRun"), client.text(repository, "name")
    parts = [] if client.text(run, "outcome") in FINE else [runs.summary(run)]
    message = client.text(repository, "message")
    # The message of the repository is often that of its last run, and not repeated then. If it is ready, its message is
    # from that run too, unless a later poll failed and could not be stored.
    if message and (
        message != client.text(run, "message") or not (parts or client.text(repository, "state") == "ready")
    ):
        parts.append(output.as_lines([f"{name}: {message}"]))
    if client.at(repository, "held", "approvable") is True:
        total = client.number(repository, "held", "count")
        what = f"{output.counted(total, 'deletion')} held" if total else "nothing of the head is applied"
        parts.append(output.as_lines([f"{name}: {what}; `reconciler approve {name}` shows and releases it"]))
    if drift := client.number(repository, "drift"):
        verb, them = ("differs", "it") if drift == 1 else ("differ", "them")
        told = f"{output.counted(drift, 'resource')} {verb} from the head; `reconciler resume {name}` overwrites {them}"
        parts.append(output.as_lines([f"{name}: {told}"]))
    return "".join("\n" + part for part in parts)


@click.command()
@click.argument("repository")
@click.option("--reason", required=True, help="The reason, in one line, for people who look at the repository.")
@click.option(
    "--for", "--until", "expiry", metavar="WHEN", help="Resume by itself: after 30m or 2h, or at 2026-11-21T08:00:00Z."
)
@connected
def suspend(service: Client, *, repository: str, **given: str | None) -> None:
    """Stop polling REPOSITORY until it is resumed.

    Meanwhile an admin may change and delete its resources. Suspending it again replaces reason and expiry.
    """
    body: dict[str, Value] = {name: value for name, value in given.items() if value is not None}
    missing = client.NO_REPOSITORY.format(repository)
    answer = service.post("repositories", repository, "suspend", body=body, missing=missing)
    end = output.moment_text(client.text(answer, "repository", "suspension", "until"))
    output.line(f"{repository}: suspended until {end or 'somebody resumes it'}")


def _waiting(text: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add the options `--wait` and `--timeout`, and pass the command its deadline on the clock `monotonic`; None if it
    does not wait.
    """

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def wrapper(*args: Any, wait: bool, timeout: float, **arguments: Any) -> int:
            return function(*args, deadline=time.monotonic() + timeout if wait else None, **arguments)

        seconds = click.FloatRange(min=0, min_open=True)
        option = click.option("--timeout", type=seconds, default=300.0, help="How long to wait, in seconds (300).")
        return click.option("--wait", is_flag=True, help=text)(option(wrapper))

    return decorate


@click.command()
@click.argument("repository", required=False)
@_waiting("Wait for the runs, and print what they did.")
@connected
def reconcile(service: Client, *, repository: str | None, deadline: float | None) -> int:
    """Poll REPOSITORY now, or all repositories.

    With --wait it prints each status and reason, and ends with 3 if something was not stored, with 1 if a run failed.
    """
    names = [repository] if repository else _awake(service)
    begun = [(name, _begin(service, name, "reconcile")) for name in names]
    codes = [_ended(service, *each, deadline=deadline) for each in begun]
    # A failed run is worse than one that stored a part.
    return exits.ERROR if exits.ERROR in codes else max(codes, default=exits.OK)


def _awake(service: Client) -> list[str]:
    """Return all repositories that are not suspended. A note names each suspended one."""
    found = _repositories(service)
    if not found:
        raise Refused(_none(service))
    for repository in found:
        if client.text(repository, "state") == SUSPENDED:
            output.note(f"{client.text(repository, 'name')}: not polled. {client.text(repository, 'message')}")
    return [client.text(one, "name") for one in found if client.text(one, "state") != SUSPENDED]


@click.command()
@click.argument("repository")
@_waiting("Wait for the run, and print what it did.")
@connected
def resume(service: Client, *, repository: str, deadline: float | None) -> int:
    """Poll REPOSITORY again. Its resources become what Git says.

    With --wait it prints each status and reason, and ends as `reconcile --wait` does.
    """
    return _ended(service, repository, _begin(service, repository, "resume"), deadline=deadline)


def _begin(service: Client, name: str, what: str, body: Value = None) -> str:
    """Start a run, and return its id."""
    missing = client.NO_REPOSITORY.format(name)
    return client.text(service.post("repositories", name, what, body=body, missing=missing), "run")


def _ended(service: Client, name: str, run: str, *, deadline: float | None) -> int:
    """Print the id of a run, or wait for its end and print its report. Return the exit code.

    Raises Refused if the run does not end before the deadline.
    """
    if deadline is None:
        output.line(f"{name}: run {run}")
        return exits.OK
    while True:
        left = max(1, round(1000 * min(deadline - time.monotonic(), LONGEST_WAIT)))
        found = service.get("runs", run, query={"wait": f"{left}ms"}, missing=LOST.format(run)).get("run")
        if isinstance(found, dict) and (client.text(found, "phase") == "finished" or client.text(found, "outcome")):
            break
        if time.monotonic() >= deadline:
            raise Refused(
                f"run {run} is not finished yet; --timeout waits longer, and it goes on without anyone waiting"
            )
        time.sleep(PAUSE)
    output.write(runs.whole_report({**found, "repository": name}))
    outcome = client.text(found, "outcome")
    if outcome in STORED:
        return exits.OK
    return exits.ERROR if outcome == "failed" else exits.NOT_STORED


@click.command()
@click.argument("repository")
@click.argument("commit", required=False)
@click.option("--yes", is_flag=True, help="Do not ask.")
@_waiting("Wait for the run, and print what it did.")
@connected
def approve(service: Client, *, repository: str, commit: str | None, yes: bool, deadline: float | None) -> int:
    """Approve what REPOSITORY holds at COMMIT.

    Without COMMIT it shows what is held at the head, and asks. With --wait it prints each status and reason, and ends
    as `reconcile --wait` does.
    """
    found = service.get("repositories", repository, missing=client.NO_REPOSITORY.format(repository))
    state, held = client.text(found, "repository", "state"), client.at(found, "repository", "held")
    if held is None:
        raise Refused(f"{repository} holds nothing, so there is nothing to approve; it is {state}")
    if client.at(held, "approvable") is not True:
        why = client.text(found, "repository", "message")
        raise Refused(f"what {repository} holds cannot be approved; mend the file: {why}")
    head = client.text(held, "commit")
    if commit is None:
        output.lines(_held_lines(repository, held))
        if not yes:
            nobody = "there is no terminal for an answer; name the COMMIT that is meant, or give --yes"
            output.confirm("Approve this?", otherwise=nobody)
    # The first digits suffice for the held commit.
    if commit is None or (len(commit) >= SHORTEST and head.startswith(commit)):
        commit = head
    run = _begin(service, repository, "approve", {"commit": commit})
    return _ended(service, repository, run, deadline=deadline)


def _held_lines(name: str, held: Value) -> list[str]:
    """Return a line for each resource that would be deleted. The service may name only the first ones."""
    found = client.objects(held, "resources")
    resources = [f"  {client.text(one, 'kind')}/{client.text(one, 'name')}" for one in found]
    total = client.number(held, "count")
    head = f"{name} at {client.text(held, 'commit')[:12]}"
    if not total:
        return [f"{head} is held as a whole; nothing of it is deleted"]
    more = [f"  and {total - len(resources)} more"] if total > len(resources) else []
    return [f"{head}: {output.counted(total, 'resource')} to delete", *resources, *more]
