"""One daemon per state directory, and one per store: a second one on either refuses to start."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from reconciler.model import errors
from reconciler.ops import doctor

FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


@contextlib.contextmanager
def hold_state_directory(state_directory: Path) -> Iterator[None]:
    """Hold the directory's lock; made if missing, for its owner alone. The kernel lets go of it when the process ends.

    Raises Refused when another process holds it, or the directory cannot be used.
    """
    try:
        state_directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(state_directory / "lock", FLAGS, 0o600)
    except OSError as error:
        raise errors.Refused(
            f"The state directory {state_directory} cannot be used ({error.strerror}); "
            "choose another with `stateDir`, or mend its permissions."
        ) from error
    with _held(descriptor, f"the state directory {state_directory}", todo="give this one another `stateDir`"):
        yield


@contextlib.contextmanager
def hold_store(store: Path) -> Iterator[None]:
    """Hold a store, by a file beside it: whoever closed a descriptor of the store itself would drop SQLite's locks.

    Two state directories may name one store. Raises Refused as `hold` does.
    """
    lock = store.with_name(f"{store.name}{doctor.STORE_LOCK}")
    try:
        descriptor = os.open(lock, FLAGS, 0o600)
    except OSError as error:
        raise errors.Refused(
            f"The store {store} cannot be used, since {lock} cannot be opened ({error.strerror}); "
            "name another with `store.url`, or mend that folder."
        ) from error
    with _held(descriptor, f"the store {store}", todo="give this one another `store.url`"):
        yield


@contextlib.contextmanager
def _held(descriptor: int, what: str, *, todo: str) -> Iterator[None]:
    try:
        _lock(descriptor, what, todo=todo)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, what: str, *, todo: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
        raise errors.Refused(f"Another daemon (process {holder}) uses {what}; stop it, or {todo}.") from error
    with contextlib.suppress(OSError):  # the number only helps a person; on a full disk the lock holds without it
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
