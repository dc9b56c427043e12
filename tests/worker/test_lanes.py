"""A lane of the worker: what its thread cannot bear ends the process, since its job would be waited for for ever."""

import subprocess
import sys

SCRIPT = """
import io, threading
from reconciler.worker import child, messages
from reconciler.worker.sandbox import Protections
from tests.commit_jobs import commit_job

class NoRoom(io.BytesIO):
    def write(self, data):
        if self.tell():
            raise MemoryError("no room to say so")
        return super().write(data)  # that it takes jobs

order = messages.framed(messages.Envelope(1, "", commit_job()))
child.Worker(NoRoom(), {}).serve(io.BytesIO(order), Protections())
threading.Event().wait(60)
"""


def test_a_lane_that_cannot_go_on_ends_the_reader_and_says_why() -> None:
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (1, "MemoryError: no room to say so")
