"""Resource use of processes, from the kernel: CPU time, memory, threads."""

import contextlib
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(process: int) -> float:
    """CPU time of a process and of all that it started and they did, those that ended and those that run."""
    return sum(map(_own_cpu_seconds, family(process)))


def family(process: int) -> list[int]:
    """A process and all that it started and they did, as far as they run; those that its other threads started, too."""
    found = [process]
    for one in found:  # grows meanwhile
        found += _children(one)
    return found


def cpu_seconds_of(command: Sequence[str], *, times: int, environment: Mapping[str, str]) -> float:
    """CPU time of a command and its children, on average."""
    used = 0.0
    for _ in range(times):
        running = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(running.pid, 0)  # of this one alone: servers of the benchmark have children too
        running.returncode = os.waitstatus_to_exitcode(status)
        if running.returncode:
            raise subprocess.CalledProcessError(running.returncode, command)
        used += usage.ru_utime + usage.ru_stime
    return used / times


def pss_mb(process: int) -> float:
    """Resident memory, shared pages counted by share (PSS), in MB."""
    return _number(Path(f"/proc/{process}/smaps_rollup").read_text(), r"^Pss:\s+([0-9]+) kB") * 1024 / 1e6


def pss_mb_of_all(members: Sequence[int]) -> float:
    """The same of several together; one that has ended has none."""
    sizes = 0.0
    for member in members:
        with contextlib.suppress(OSError):
            sizes += pss_mb(member)
    return sizes


def descriptors(process: int) -> int:
    """How many files, sockets and pipes it has open."""
    return len(os.listdir(f"/proc/{process}/fd"))  # noqa: PTH208 - names alone, ten times a second


def threads(process: int) -> int:
    """How many threads it has."""
    return _number(Path(f"/proc/{process}/status").read_text(), r"^Threads:\s+([0-9]+)")


def _children(process: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):  # it ended meanwhile, or one of its threads did
        for thread in os.listdir(f"/proc/{process}/task"):  # noqa: PTH208 - as above
            found += map(int, Path(f"/proc/{process}/task/{thread}/children").read_text().split())
    return found


def _own_cpu_seconds(process: int) -> float:
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0.0  # it ended meanwhile, and its parent has its time
    # The name, which may hold anything, is in parentheses; after it, utime, stime, cutime and cstime are 12 to 15.
    return sum(int(ticks) for ticks in text.rpartition(")")[2].split()[11:15]) / TICKS


def _number(text: str, pattern: str) -> int:
    found = re.search(pattern, text, flags=re.MULTILINE)
    if found is None:
        raise RuntimeError("the kernel does not tell it")
    return int(found[1])
