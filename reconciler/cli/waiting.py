"""Waiting for runs that were asked for, and printing what they did."""

import time

from reconciler.cli import connecting, exits, output, statuses
from reconciler.cli.answers import answer_text
from reconciler.cli.client import Client
from reconciler.model.errors import Refused
from reconciler.model.values import Value

FIRST_LOOK = 0.1  # seconds; a run of a local repository takes about as long
LONGEST_LOOK = 2.0  # seconds between two looks at a long run
LOST = "run {run} left no record: it could not be written, or the service was restarted; `reconciler status` says more"
STORED = ("succeeded", "superseded")  # superseded: a newer head's run did the work


def wait_for_runs(client: Client, run: str, *, deadline: float) -> dict[str, Value]:
    """The run, once it has ended. Raises Refused when that is not before the deadline, a moment of `monotonic`."""
    pause = FIRST_LOOK
    while True:
        with connecting.explain_missing(LOST.format(run=run)):
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
    output.write(statuses.whole_report({**run, "repository": name}, colour=colour))
    outcome = answer_text(run, "outcome")
    if outcome in STORED:
        return exits.OK
    return exits.ERROR if outcome == "failed" else exits.NOT_STORED
