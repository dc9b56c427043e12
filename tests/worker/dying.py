"""A worker that is killed at one step of a commit, or out of memory there, so many times; then it lives.

Reader(command=dying.command(Step.PART, 3, marks=folder))
"""

import os
import signal
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Any

from reconciler.model import documents
from reconciler.worker import child, sandbox
from reconciler.worker.messages import Answer, CommitJob, CommitPlanned, Envelope, Part, Ready
from tests.worker import unconfined

STEP_SECONDS = 0.01
ARMED = "armed"  # a file of this name among the marks: without it nothing happens
WOKEN = "woken"  # another one: with it, what rests goes on


class Step(StrEnum):
    """When it is killed: of those that count, at the one with this number, the first one being 1."""

    BEGUN = "begun"  # it took the commit, and did nothing yet
    FILE = "file"  # it is about to parse a file
    READY = "ready"  # it waits for the project's lock
    PART = "part"  # it sent a part
    END = "end"  # all parts are sent, the end is not
    PLANNED = "planned"  # it sent the end


class Harm(StrEnum):
    """The harm that is done to it then."""

    KILL = "kill"
    HANG = "hang"
    REST = "rest"  # it goes on once it is woken
    STARVE = "starve"  # it wants more memory than it may have


def command(step: Step, number: int = 1, *, marks: Path, times: int = 1, harm: Harm = Harm.KILL) -> tuple[str, ...]:
    """Return what starts it. Each start leaves a file in `marks`, so that they are counted over all children."""
    marks.mkdir(exist_ok=True)
    program = "from tests.worker.dying import main; main()"
    return (sys.executable, "-c", program, step.value, str(number), str(marks), str(times), harm.value)


def arm(marks: Path) -> None:
    """From now on it is killed."""
    (marks / ARMED).touch()


def wake(marks: Path) -> None:
    """Have it go on where it rests."""
    (marks / WOKEN).touch()


def ends(marks: Path) -> int:
    """How often it was killed."""
    return sum(1 for mark in marks.iterdir() if mark.name not in (ARMED, WOKEN))


class Death:
    """Counts the steps of commits, and strikes."""

    def __init__(self, step: Step, number: int, *, marks: Path, times: int, harm: Harm) -> None:
        self._step = step
        self._harm = harm
        self._left = number
        self._marks = marks
        self._times = times
        self._process = os.getpid()
        self.commit: int | None = None  # the number of the job under way

    def met(self, step: Step) -> None:
        """It is at this step of a commit."""
        if step is not self._step or not (self._marks / ARMED).exists():
            return
        self._left -= 1
        # Struck once by each child: others of its processes go on for a moment.
        if self._left == 0 and ends(self._marks) < self._times:
            (self._marks / str(self._process)).touch()
            if self._harm is Harm.STARVE:
                bytearray(sandbox.ADDRESS_SPACE_BYTES)
            if self._harm is Harm.KILL:
                os.kill(self._process, signal.SIGKILL)
            end = time.monotonic() + 60
            while time.monotonic() < end and not (self._marks / WOKEN).exists():
                time.sleep(STEP_SECONDS)


class Child(child.Worker):
    """The product's own, but it tells at which step of a commit it is."""

    death: Death

    def _steps(self, envelope: Envelope, *views: Any) -> Any:
        if isinstance(envelope.job, CommitJob):
            self.death.commit = envelope.number
            self.death.met(Step.BEGUN)
        return super()._steps(envelope, *views)

    def _send(self, number: int, answer: Answer) -> None:
        if number != self.death.commit:
            super()._send(number, answer)
            return
        if isinstance(answer, CommitPlanned):
            self.death.met(Step.END)
        super()._send(number, answer)
        match answer:
            case Ready():
                self.death.met(Step.READY)
            case Part():
                self.death.met(Step.PART)
            case CommitPlanned():
                self.death.met(Step.PLANNED)
            case _:
                pass


def main() -> None:
    """The worker, with a death ahead of it."""
    step, number, marks, times, harm = sys.argv[1:6]  # it is not confined: it writes marks
    death = Death(Step(step), int(number), marks=Path(marks), times=int(times), harm=Harm(harm))
    parse = documents.read

    def read(*arguments: Any, **named: Any) -> Any:
        death.met(Step.FILE)
        return parse(*arguments, **named)

    documents.read = read
    Child.death = death
    child.Worker = Child  # type: ignore[misc]  # `main` makes one
    unconfined.main(*sys.argv[6:])
