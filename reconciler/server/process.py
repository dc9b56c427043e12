"""The process: its locks, the deadline of its end, and systemd.

There is one daemon per state directory, and one per store: a second one refuses to start. If a shutdown takes too long,
a thread ends child processes and then this one: the event loop may hang, or the end of the interpreter, which waits for
threads. Without NOTIFY_SOCKET, as on a terminal, sd_notify does nothing.
"""

import contextlib
import fcntl
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from reconciler.model import errors
from reconciler.ops import doctor

FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
# A daemon that is killed while it starts a program leaves a child that holds its locks until it runs that program.
LOCK_SECONDS = 2.0


@contextlib.contextmanager
def hold_state_directory(state_directory: Path) -> Iterator[None]:
    """Hold the directory's lock. A missing directory is made, only for its owner. The kernel releases the lock when the
    process ends.

    Raises Refused when another process holds it, or the directory cannot be used.
    """
    what = f"the state directory {state_directory}"
    try:
        state_directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(what, error, setting="stateDir") from error
    with _locked(state_directory / doctor.LOCK, what, setting="stateDir"):
        yield


@contextlib.contextmanager
def hold_store(store: Path) -> Iterator[None]:
    """Hold a store by a lock file beside it: closing a descriptor of the store itself would drop SQLite's locks.

    Two state directories may name one store. Raises Refused as `hold_state_directory` does.
    """
    lock = store.with_name(f"{store.name}{doctor.STORE_LOCK}")
    with _locked(lock, f"the store {store}", setting="store.url"):
        yield


def _unusable(what: str, error: OSError, *, setting: str) -> errors.Refused:
    return errors.Refused(
        f"{what[:1].upper()}{what[1:]} cannot be used ({error.strerror}); choose another with "
        f"`{setting}`, or mend its permissions."
    )


@contextlib.contextmanager
def _locked(lock: Path, what: str, *, setting: str) -> Iterator[None]:
    try:
        descriptor = os.open(lock, FLAGS, 0o600)
    except OSError as error:
        raise _unusable(what, error, setting=setting) from error
    try:
        _lock(descriptor, what, setting=setting)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, what: str, *, setting: str) -> None:
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError as error:
            if time.monotonic() > until:
                holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
                raise errors.Refused(
                    f"Another daemon (process {holder}) uses {what}; stop it, or give this one another `{setting}`."
                ) from error
        time.sleep(LOCK_SECONDS / 40)
    with contextlib.suppress(OSError):  # the number only helps a person; on a full disk the lock holds without it
        number = f"{os.getpid()}\n".encode()
        os.ftruncate(descriptor, os.pwrite(descriptor, number, 0))


log = logging.getLogger(__name__)

LOG_SECONDS = 1.0  # a reader of our log that hangs must not hold up the end
FAILED = 1  # the exit code


class ShutdownDeadline:
    """The deadline of a shutdown. It begins once, and lasts until the process has ended."""

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._begun = False
        self._waits: list[str] = []

    def begin(self) -> None:
        """Start the deadline. A second call changes nothing."""
        if not self._begun:
            self._begun = True
            self._timer.start()

    async def waits(self, what: str, end: Callable[[], Awaitable[None]]) -> None:
        """Wait for the end of a part. If the deadline passes meanwhile, the log names this part."""
        self._waits.append(what)
        try:
            await end()
        finally:
            self._waits.remove(what)

    def _end(self) -> None:
        # A store write under way did not happen: SQLite rolls it back at the next start.
        saying = threading.Thread(target=self._say, name="last-words", daemon=True)
        saying.start()
        saying.join(LOG_SECONDS)
        for child in child_processes():
            _kill(child)
        os._exit(FAILED)

    def _say(self) -> None:
        late = " and ".join(self._waits) or "work in a thread"
        log.error(
            "The stop took longer than %g seconds, for %s did not end; the daemon was ended.", self._seconds, late
        )


def child_processes() -> list[int]:
    """Return the child processes of this one, if the kernel lists them (Linux)."""
    found: list[int] = []
    for tasks in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # that thread has ended meanwhile
            found += [int(number) for number in tasks.read_text().split()]
    return sorted(found)


def _kill(child: int) -> None:
    """Kill a process, with its group if it leads one, as git and the worker do: git has children of its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(child) == child:
            os.killpg(child, signal.SIGKILL)
        else:
            os.kill(child, signal.SIGKILL)


BEAT_SECONDS = 60  # that a start has until the next sign of it


def notify(message: str) -> None:
    """Send a state, such as `READY=1`. A lost datagram is ignored."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    name = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        try:
            sender.sendto(message.encode(), name)
        except OSError:
            return


def beat() -> None:
    """Report that a long start continues, so that `TimeoutStartSec` begins again."""
    notify(f"EXTEND_TIMEOUT_USEC={BEAT_SECONDS * 1_000_000}")


def watchdog_seconds() -> float | None:
    """Return the longest time between two signs of life for systemd; None if it does not watch this process."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    watched = os.environ.get("WATCHDOG_PID", str(os.getpid()))
    return int(microseconds) / 1e6 if microseconds.isdecimal() and watched == str(os.getpid()) else None
