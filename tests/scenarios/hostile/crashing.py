"""A worker that behaves as if a library had a fault: marked texts end it, or keep it.

Reader(command=crashing.COMMAND)
"""

import os
import signal
import sys
import time

from reconciler.model import documents
from reconciler.model.documents import Document, Locations, Syntax
from reconciler.model.positions import TextLimits
from tests.worker import unconfined

COMMAND = (sys.executable, "-c", "from tests.scenarios.hostile.crashing import main; main()")

ABORT = "abort-the-reader"  # as a library does that finds its memory in disorder
KILL = "kill-the-reader"  # as the kernel does when there is no memory left
HANG = "hang-the-reader"
PLACE = "end-the-reader-later"  # when it is told where something stands, and every file was read

_read, _locate = documents.read, documents.locate


def read(data: bytes, *, syntax: Syntax, limits: TextLimits) -> list[Document]:
    """The product's own, but for marked texts."""
    if ABORT.encode() in data:
        os.abort()
    if KILL.encode() in data:
        os.kill(os.getpid(), signal.SIGKILL)
    while HANG.encode() in data:
        time.sleep(60)
    return _read(data, syntax=syntax, limits=limits)


def locate(data: bytes, *, syntax: Syntax, limits: TextLimits) -> Locations:
    """The product's own, but for a marked text."""
    if PLACE.encode() in data:
        os.abort()
    return _locate(data, syntax=syntax, limits=limits)


def main() -> None:
    """The worker, with the parser above."""
    documents.read = read
    documents.locate = locate
    unconfined.main(*sys.argv[1:])
