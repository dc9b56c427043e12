"""Crews for tests: helpers that are processes of their own, started anew, since a process with threads must not fork.

with crews.crew(2) as crew: ...
"""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator

from reconciler.worker.crew import Crew, Helper

HELPER = (
    "import socket, sys; from reconciler.worker import crew as helper; "
    "helper.serve_helper(socket.socket(fileno=int(sys.argv[1])))"
)
# The reader child with as many helpers as a machine of three cores gives it, whatever this one has.
TWO_HELPERS = "from reconciler.worker import crew; crew.most_helpers = lambda: 2; "
CHILD = (sys.executable, "-c", f"{TWO_HELPERS}from reconciler.worker.child import main; main()")
CRASHING = (sys.executable, "-c", f"{TWO_HELPERS}from tests.scenarios.hostile.crashing import main; main()")


@contextlib.contextmanager
def crew(number: int, script: str = HELPER) -> Iterator[Crew]:
    """So many helpers, or processes in their place that do something else: `script` gets the number of its socket."""
    with contextlib.ExitStack() as started:
        helpers = []
        for _ in range(number):
            ours, theirs = socket.socketpair()
            command = [sys.executable, "-c", script, str(theirs.fileno())]
            process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
            theirs.close()
            started.callback(process.wait, 10)
            started.callback(ours.close)
            helpers.append(Helper(process.pid, ours))
        yield Crew(helpers)
