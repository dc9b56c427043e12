"""What processes use, as the kernel tells it: CPU time, memory, threads."""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(process: int) -> float:
    """CPU time of a process and all its children, those that ended and those that run."""
    running = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return _own_cpu_seconds(process) + sum(_own_cpu_seconds(int(child)) for child in running)


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


def threads(process: int) -> int:
    """How many threads it has."""
    return _number(Path(f"/proc/{process}/status").read_text(), r"^Threads:\s+([0-9]+)")


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
