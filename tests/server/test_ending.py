"""The bound on the daemon's end holds until the process is gone."""

import subprocess
import sys

SECONDS = 10.0  # what takes longer does not happen
HANGING = """
import threading
from concurrent.futures import ThreadPoolExecutor
from reconciler.server.process import ShutdownDeadline as Bound
Bound(seconds=0.1).begin()
ThreadPoolExecutor(1).submit(threading.Event().wait)
"""
ENDING = """
from reconciler.server.process import ShutdownDeadline as Bound
Bound(seconds=60).begin()
"""


def ended(program: str) -> tuple[int, str]:
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=SECONDS)
    return ran.returncode, ran.stderr


def test_a_thread_that_the_end_of_the_process_waits_for_is_waited_for_no_longer_than_the_bound() -> None:
    told = "The stop took longer than 0.1 seconds, for work in a thread did not end; the daemon was ended.\n"
    assert ended(HANGING) == (1, told)


def test_a_process_that_ends_in_time_waits_for_no_bound() -> None:
    assert ended(ENDING) == (0, "")
