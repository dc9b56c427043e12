"""A lane of the worker: what its thread cannot bear ends the process, since others would wait for it for ever."""

import subprocess
import sys

SCRIPT = """
import threading
from reconciler.worker.child import JobLane as Lane
from reconciler.worker.messages import Envelope

def fails(job, open_view):
    if job.number == 2:
        raise MemoryError("no room to say so")

lane = Lane("test", fails, lambda *_: False)
lane.put(Envelope(1, "", None))
lane.put(Envelope(2, "", None))
threading.Event().wait(60)
"""


def test_a_lane_that_cannot_go_on_ends_the_reader_and_says_why() -> None:
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (1, "MemoryError: no room to say so")
