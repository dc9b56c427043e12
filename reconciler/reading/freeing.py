"""The memory of the reader child and its helpers: what stays out of the garbage collector's sight, what is given back.

Belongs here: how this process treats its own memory. Does not: what it may have (`confining`).
"""

import ctypes
import gc

# Objects that came, less those that went, until cycles are looked for among them. Reading keeps what it makes, and
# makes next to no cycles: at Python's own 700, a twelfth of the time of a first read went into looking.
COLLECT_AFTER = 10_000


def settle_memory() -> None:
    """Once all is imported: that is never looked through again. Its pages stay shared with what is forked, too."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])


def give_back_memory() -> None:
    """What was freed, to the machine, since allocators keep it. Where the C library cannot be asked, they do.

    Takes some milliseconds, in most of which the interpreter is free.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(0)
