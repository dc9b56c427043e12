"""Server programs as processes: free ports, waiting until one listens, and ending one with all that it started.

What the programs are, and how they are told what to do, is in the modules that use this.
"""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

LISTEN_SECONDS = 20.0
REAP_SECONDS = 10.0
STEP_SECONDS = 0.01
ADDRESS = "127.0.0.1"


def free_port() -> int:
    """A port of loopback that nothing uses now."""
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def listening(
    command: Sequence[str], *, port: int, log: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that stays in front and listens on this port; `log` gets all that it writes."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environment),
            start_new_session=True,
        )
    try:
        _wait(process, port=port, log=log)
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and every one that came of it, those in sessions of their own too (sshd makes such)."""
    if process.poll() is None:
        process.send_signal(signal.SIGSTOP)  # it starts no more while we look at what it started
    found = descendants(process.pid)
    process.kill()
    process.wait(REAP_SECONDS)
    for one in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    _gone(found)


def descendants(process: int) -> list[int]:
    """The processes that a process has started, theirs too, as far as they still run; in no order."""
    parents = _parents()
    found, new = set[int](), {process}
    while new:
        new = {child for child, parent in parents.items() if parent in new} - found
        found |= new
    return sorted(found)


def command_lines(process: int) -> list[bytes]:
    """The arguments of a process and of every one that came of it, with zero bytes between; gone ones are left out."""
    lines = []
    for one in (process, *descendants(process)):
        with contextlib.suppress(OSError):
            lines.append(Path(f"/proc/{one}/cmdline").read_bytes())
    return lines


def _parents() -> dict[int, int]:
    """Of every living process, which one started it."""
    found = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - a thousand names, many times a second
        if entry.isdigit():
            with contextlib.suppress(OSError):
                # The name in parentheses may hold anything; the state and the parent come after the last one.
                state, parent = Path(f"/proc/{entry}/stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
                if state != "Z":
                    found[int(entry)] = int(parent)
    return found


def _gone(processes: Sequence[int]) -> None:
    deadline = time.monotonic() + REAP_SECONDS
    while living := set(processes) & set(_parents()):
        assert time.monotonic() < deadline, f"these processes do not end: {sorted(living)}"
        time.sleep(STEP_SECONDS)


def _wait(process: subprocess.Popen[bytes], *, port: int, log: Path) -> None:
    """Return once it takes connections; fail with what it wrote when it ends or takes too long."""
    deadline = time.monotonic() + LISTEN_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((ADDRESS, port), timeout=1):
            return
        time.sleep(STEP_SECONDS)
    raise AssertionError(f"{process.args!r} does not listen on {port}: {log.read_text(errors='replace')}")
