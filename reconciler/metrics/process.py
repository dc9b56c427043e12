"""Metrics of the service's main process, under the names that every client library gives them, and of the program.

Belongs here: asking the kernel and the interpreter. Does not: anything that the service counts itself. Where there is
no `/proc`, what it would tell is absent.

Source of the names: "Writing client libraries" of the Prometheus documentation, "Process metrics".
"""

import gc
import os
import platform
import resource
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from reconciler.metrics.families import MetricFamily, MetricKind, Sample, Step
from reconciler.version import __version__

PROCESS = Path("/proc/self")
FILES_A_STEP = 10

CPU = MetricFamily("process_cpu_seconds_total", MetricKind.COUNTER, "Processor time of the main process, all threads.")
RESIDENT = MetricFamily("process_resident_memory_bytes", MetricKind.GAUGE, "Its resident memory.")
VIRTUAL = MetricFamily("process_virtual_memory_bytes", MetricKind.GAUGE, "Its virtual memory.")
FILES = MetricFamily("process_open_fds", MetricKind.GAUGE, "Its open files.")
MOST_FILES = MetricFamily("process_max_fds", MetricKind.GAUGE, "How many it may open.")
STARTED = MetricFamily("process_start_time_seconds", MetricKind.GAUGE, "When it started, in Unix seconds.")
COLLECTIONS = MetricFamily(
    "python_gc_collections_total", MetricKind.COUNTER, "Rounds of the garbage collector.", ("generation",)
)
BUILD = MetricFamily(
    "reconciler_build_info", MetricKind.GAUGE, "1; the labels say which program this is.", ("python", "version")
)

FAMILIES = (CPU, RESIDENT, VIRTUAL, FILES, MOST_FILES, STARTED, COLLECTIONS, BUILD)


def process_steps() -> Iterator[Step]:
    """All of them."""
    yield Sample(CPU, time.process_time())
    memory = _memory()
    if memory is not None:
        yield Sample(RESIDENT, memory[1])
        yield Sample(VIRTUAL, memory[0])
    yield from _files()
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        yield Sample(MOST_FILES, soft)
    started = _started()
    if started is not None:
        yield Sample(STARTED, started)
    for generation, seen in enumerate(gc.get_stats()):
        yield Sample(COLLECTIONS, seen["collections"], (str(generation),))
    yield Sample(BUILD, 1, (platform.python_version(), __version__))


def _memory() -> tuple[int, int] | None:
    """Virtual and resident, in bytes."""
    try:
        virtual, resident, *_ = (PROCESS / "statm").read_text().split()
    except OSError:
        return None
    size = resource.getpagesize()
    return int(virtual) * size, int(resident) * size


def _files() -> Iterator[Step]:
    """Counted a few at a time, since there may be tens of thousands."""
    number = 0
    try:
        with os.scandir(PROCESS / "fd") as entries:
            for _ in entries:
                number += 1
                if not number % FILES_A_STEP:
                    yield None
    except OSError:
        return
    yield Sample(FILES, number - 1)  # without the one that this was read through


@cache
def _started() -> float | None:
    """In Unix seconds: proc(5), `starttime` of `/proc/PID/stat`, and `btime` of `/proc/stat`."""
    try:
        ticks = int((PROCESS / "stat").read_text().rpartition(")")[2].split()[19])
        lines = (PROCESS.parent / "stat").read_text().splitlines()
    except OSError:
        return None
    booted = next((int(line.split()[1]) for line in lines if line.startswith("btime ")), None)
    return None if booted is None else booted + ticks / os.sysconf("SC_CLK_TCK")
