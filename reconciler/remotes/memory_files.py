"""Files that are in memory and on no disk, for programs that inherit them: however a run ends, nothing is left of them.

Belongs here: making one, and the name by which a program opens it. Does not: what is in it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def open_memory_file(content: bytes) -> Iterator[int]:
    """The descriptor of such a file, at its beginning, for as long as the context lasts."""
    descriptor = os.memfd_create("reconciler", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def inherited_path(descriptor: int) -> str:
    """The path under which a program opens a file that it inherits."""
    return f"/proc/self/fd/{descriptor}"
