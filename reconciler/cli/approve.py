"""`reconciler approve`: releasing what a repository holds, after looking at it."""

import re
import sys
import time

import click

from reconciler.cli import connecting, output, repositories, waiting, words
from reconciler.cli.answers import answer_at, answer_objects, answer_text
from reconciler.cli.client import Client
from reconciler.cli.sessions import Session, connected
from reconciler.model.errors import Refused
from reconciler.model.text import visible
from reconciler.model.values import Value

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
    with connecting.make_client(session) as client:
        held = _held(client, repository)
        if commit is None:
            output.write(_shown(repository, held))
            _confirm(yes=yes)
        run = _approved(client, repository, _whole(commit, held))
        if not wait:
            output.line(f"{repository}: run {run}")
            return
        ended = waiting.wait_for_runs(client, run, deadline=deadline)
    context.exit(waiting.report_runs(repository, ended, colour=session.coloured))


def _held(client: Client, name: str) -> Value:
    """What can be released. Raises Refused when there is nothing, or when a file has to be mended."""
    found = repositories.one_repository(client, name)
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
    lines = [f"{head}: {words.counted(total, 'resource')} to delete", *(f"  {one}" for one in resources)]
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
    with connecting.explain_missing(repositories.unknown_repository(name)):
        return answer_text(client.post("repositories", name, "approve", body={"commit": commit}), "run")
