"""A worker that a hostile file took over: confined as ever, it runs the program that it is given.

subprocess.run(attacking.command(program, *granted), capture_output=True)
"""

import sys
from collections.abc import Mapping
from typing import BinaryIO

from reconciler.store.contract import PlanningView
from reconciler.worker import child
from reconciler.worker.sandbox import Protections


def command(program: str, *granted: str) -> tuple[str, ...]:
    """Return what starts it; `granted` are the arguments of the worker. What the program prints comes out."""
    return (sys.executable, "-c", "from tests.worker.attacking import main; main()", program, *granted)


class Attacker:
    """In place of whoever serves jobs, once all that is given up before is given up."""

    def __init__(self, answers: BinaryIO, connected: Mapping[str, PlanningView]) -> None:
        self._answers = answers
        self._connected = connected

    def serve(self, _jobs: BinaryIO, _protections: Protections) -> None:
        """Run the program."""
        sys.stdout = open(self._answers.fileno(), "w", closefd=False)  # noqa: SIM115 - it stays open
        exec(sys.argv[1], {"connected": self._connected})  # noqa: S102 - what the tests of this folder say
        sys.stdout.flush()


def main() -> None:
    """The worker, with what took it over."""
    child.Worker = Attacker  # type: ignore[misc,assignment]  # `main` makes one
    child.main(*sys.argv[2:])
