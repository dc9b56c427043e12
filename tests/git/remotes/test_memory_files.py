"""Files that are in memory alone."""

import os
import subprocess

from reconciler.git.remotes import credentials


def test_a_program_that_inherits_one_reads_all_of_it_as_often_as_it_opens_it() -> None:
    content = bytes(range(256)) * 1000
    with credentials.open_memory_file(content) as descriptor:
        path = credentials.inherited_path(descriptor)
        command = ["cat", path, path]
        done = subprocess.run(command, pass_fds=[descriptor], capture_output=True, timeout=10, check=True)
        assert done.stdout == content * 2


def test_it_is_inherited_by_those_alone_that_it_is_passed_to() -> None:
    with credentials.open_memory_file(b"canary-a") as descriptor:
        path = credentials.inherited_path(descriptor)
        done = subprocess.run(["cat", path], close_fds=False, capture_output=True, timeout=10, check=False)
        assert (done.returncode, done.stdout) == (1, b"")


def test_nothing_is_left_open_and_it_stands_at_its_beginning() -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a kernel folder
    with credentials.open_memory_file(b"canary-a") as descriptor:
        assert os.read(descriptor, 100) == b"canary-a"
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
