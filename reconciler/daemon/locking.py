"""One daemon per state directory: a second one on the same directory refuses to start."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from reconciler import errors


@contextlib.contextmanager
def hold(state_directory: Path) -> Iterator[None]:
    """Hold the directory's lock; made if missing, for its owner alone. The kernel lets go of it when the process ends.

    Raises Refused when another process holds it, or the directory cannot be used.
    """
    try:
        state_directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(state_directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise errors.Refused(
            f"The state directory {state_directory} cannot be used ({error.strerror}); "
            "choose another with `stateDir`, or mend its permissions."
        ) from error
    try:
        _lock(descriptor, state_directory)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, state_directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
        raise errors.Refused(
            f"Another daemon (process {holder}) uses the state directory {state_directory}; "
            "stop it, or give this one another `stateDir`."
        ) from error
    with contextlib.suppress(OSError):  # the number only helps a person; on a full disk the lock holds without it
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
