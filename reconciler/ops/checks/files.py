"""Checks of files, directories, databases, disks and limits.

Each check is one function, which returns its findings. It keeps nothing of a secret's content.
"""

import os
import pwd
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from reconciler.model.errors import ReconcilerError, Refused
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.model.text import counted
from reconciler.notifications.models import read_notifications
from reconciler.ops import databases
from reconciler.ops.databases import ProgressWatch
from reconciler.ops.doctor import DoctorFinding, error, ok, warning
from reconciler.settings import bounded_io
from reconciler.settings.models import Settings
from reconciler.store import files as store_files
from reconciler.store.contract import StoreFault
from reconciler.store.files import OPERATIONS, STORE, DatabaseKind
from reconciler.store.records import DamagedVersion

MOST_BYTES = 4 << 20
MOST_ENTRIES = 1000
OTHERS_READ, OTHERS_WRITE, OTHERS_ENTER = 0o004, 0o022, 0o001

# Files that the settings name.

NAME = "files"
OF_EVERYBODY = ("certFile", "caFile", "knownHostsFile", "signersFile")  # without a secret


class NamedFile(NamedTuple):
    """A file that a setting names; `is_secret` when it holds a secret."""

    setting: str
    path: Path
    is_secret: bool


def named_files(settings: Settings) -> list[NamedFile]:
    """Return all files that the settings name, in one order. A file with a chat's URL counts as a secret."""
    return list(_named_files(settings.model_dump(by_alias=True), ""))


def _named_files(value: object, at: str) -> Iterator[NamedFile]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _named_files(one, f"{at}.{name}".lstrip("."))
    elif isinstance(value, (list, tuple)):
        for number, one in enumerate(value):
            yield from _named_files(one, f"{at}[{number}]")
    elif isinstance(value, Path) and at.endswith("File"):
        yield NamedFile(at, value, not at.endswith(OF_EVERYBODY))


def check_named_files(named: Sequence[NamedFile]) -> list[DoctorFinding]:
    """Check that the files are readable, and that nobody else can read secrets."""
    if not named:
        return [ok(NAME, "the settings name none")]
    wrong = [finding for each in named for finding in _named_file(each)]
    return wrong or [ok(NAME, f"{counted(len(named), 'file')} of the settings can be read, and no secret by everybody")]


def _named_file(named: NamedFile) -> Iterator[DoctorFinding]:
    path, setting = named.path, named.setting
    wrong, mode = "", 0
    try:
        bounded_io.read_file(path, limit=MOST_BYTES)
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        wrong = "does not exist"
    except OSError as problem:
        wrong = f"cannot be read ({os.strerror(problem.errno or 0)})"
    except bounded_io.NotAFile:
        wrong = "is not a regular file"
    except bounded_io.FileTooLarge:
        wrong = f"has more than {MOST_BYTES >> 20} MiB"
    if wrong:
        yield error(NAME, f"{path}, the file of `{setting}`, {wrong}", f"mend that, or correct `{setting}`")
    if named.is_secret and mode & OTHERS_READ:
        told = f"{path}, the secret of `{setting}`, may be read by everybody (mode {mode:04o})"
        yield error(NAME, told, f"`chmod o-rwx {path}`, and replace the secret if anybody else uses this machine")
    if mode & OTHERS_WRITE:
        told = f"{path}, the file of `{setting}`, may be written by others than its owner (mode {mode:04o})"
        yield warning(NAME, told, f"`chmod go-w {path}`")


def check_secrets_folder(path: Path | None) -> list[DoctorFinding]:
    """Check that only the service may enter `secrets.directory`."""
    if path is None:
        return []
    if not path.is_dir():
        told = f"{path}, the folder of `secrets.directory`, is no folder"
        return [error(NAME, told, "make it, or correct `secrets.directory`")]
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & OTHERS_ENTER:
        return []
    told = f"{path}, the folder of `secrets.directory`, may be entered by everybody (mode {mode:04o})"
    return [warning(NAME, told, f"`chmod o-rwx {path}`, and replace the secrets that others may have read")]


# The state directory: its owner, and the access of others.

STATE_NAME = "state directory"
FOR_OTHERS = 0o077
PRIVATE = (".db", "lock", "-password")  # ends of names of files with secrets, and of locks
ROOT = 0


def check_state(path: Path) -> list[DoctorFinding]:
    """Check that the state directory belongs only to the service. Raises OSError."""
    try:
        folder = path.stat()
    except FileNotFoundError:
        return [ok(STATE_NAME, f"{path} is not there yet; the first start makes it")]
    if not stat.S_ISDIR(folder.st_mode):
        return [error(STATE_NAME, f"{path} is no folder", "move it away, or name another with `stateDir`")]
    found = list(_state_folder(path, folder))
    if os.access(path, os.R_OK | os.X_OK):
        for entry in sorted(path.iterdir())[:MOST_ENTRIES]:
            found += _state_entry(entry, folder, above=path)
    return found or [ok(STATE_NAME, f"{path} belongs to {user(folder.st_uid)}, who alone may enter it")]


def _state_folder(path: Path, folder: os.stat_result) -> Iterator[DoctorFinding]:
    owner, asking = user(folder.st_uid), os.geteuid()
    todo = f"look as {owner}: `runuser -u {owner} -- reconciler doctor --state-dir {path}`"
    if asking not in (folder.st_uid, ROOT):
        yield error(STATE_NAME, f"{path} belongs to {owner}, and this is {user(asking)}", todo)
    elif asking != folder.st_uid:
        told = f"this is root, and the service is {owner}: which files {owner} may not read does not show"
        yield warning(STATE_NAME, told, todo)
    if folder.st_mode & FOR_OTHERS:
        told = f"{path} is open to others than its owner (mode {folder.st_mode & 0o777:04o})"
        yield warning(STATE_NAME, told, f"`chmod 700 {path}`")


def _state_entry(path: Path, folder: os.stat_result, *, above: Path) -> Iterator[DoctorFinding]:
    entry = path.lstat() if path.is_symlink() else path.stat()
    if entry.st_uid != folder.st_uid:
        told = f"{path} belongs to {user(entry.st_uid)}, so that the service of {user(folder.st_uid)} cannot use it"
        yield error(STATE_NAME, told, f"`chown -R --reference={above} {path}`")
    if path.name.endswith(PRIVATE) and stat.S_ISREG(entry.st_mode) and entry.st_mode & FOR_OTHERS:
        told = f"{path} may be read by others than its owner (mode {entry.st_mode & 0o777:04o})"
        yield error(STATE_NAME, told, f"`chmod 600 {path}`")


def user(number: int) -> str:
    """Return a user's name, or the number of one that has none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


# Damaged queue files in quarantine, and lost batches.

QUEUE_NAME = "queues"
QUARANTINE = "queues/*/*/quarantine/*.seg"  # below the state directory (docs/queue-format.md)


def check_quarantine(state: Path) -> list[DoctorFinding]:
    """List the queues with damaged files. Raises OSError."""
    found = Counter(path.parent for path in state.glob(QUARANTINE))
    todo = (
        "look at the disk; `reconciler queue status` says whether batches are lost; remove the files when nobody needs "
        "them, and restart the service"
    )
    return [
        warning(QUEUE_NAME, f"{counted(number, 'damaged queue file')} in {folder}", todo)
        for folder, number in sorted(found.items())
    ]


def check_lost_batches(operations: Path) -> list[DoctorFinding]:
    """List the queues that lost batches, as the service noted it last in its `ops.db`, which has a check of its own."""
    try:
        stored = [*read_notifications(store_files.notifications(operations))] if operations.is_file() else []
    except StoreFault:
        return []
    damaged = [one for one in stored if one.cause.type is NotificationType.QUEUE_DAMAGED and one.resolved is None]
    todo = "look at the disk, and have senders send them again"
    return [
        error(QUEUE_NAME, f"project {one.cause.project}: {one.title} ({one.details.rstrip('.')})", todo)
        for one in damaged
        if one.severity is Severity.ERROR  # others lost nothing
    ]


# Room on the disks, for log records and for large changes.

DISK_NAME = "disk"
LARGE_CHANGE_BYTES = 128 << 20  # with less, the store refuses large changes
FEW_FILES = 1000


def check_disk(folder: Path, *, reserve: int) -> list[DoctorFinding]:
    """Check the disk of a folder, or of its nearest existing parent. Raises OSError.

    `reserve` is `delivery.freeBytes`.
    """
    place = next(each for each in (folder, *folder.parents) if each.is_dir())
    found = os.statvfs(place)
    free = found.f_bavail * found.f_frsize
    left = f"the disk of {folder} has {databases.size_text(free)} left"
    if found.f_files and found.f_favail < FEW_FILES:  # a disk without inodes counts no files
        todo = "remove files that nobody needs"
        return [error(DISK_NAME, f"the disk of {folder} takes {found.f_favail} more files and no others", todo)]
    if free < reserve:
        told = f"{left}, less than `delivery.freeBytes` ({databases.size_text(reserve)}): log records are refused"
        return [error(DISK_NAME, told, "make room")]
    if free < reserve + LARGE_CHANGE_BYTES:
        return [warning(DISK_NAME, f"{left}, little more than log records are refused at", "make room")]
    return [ok(DISK_NAME, left)]


# Checks of the databases.

QUICK_SECONDS = 15.0
FULL_SECONDS = 3600.0
ELSEWHERE = "look through a copy of it with `sqlite3 COPY 'pragma integrity_check'`, which has no limit"
NAMED = 10  # damaged versions that a sentence names

T = TypeVar("T")

# The two databases: present, ours, of a known version, and intact with everything in the store.


def check_database(
    path: Path, kind: DatabaseKind, *, is_full: bool, clock: Callable[[], float] = time.monotonic
) -> list[DoctorFinding]:
    """Check one database. `is_full` compares the checksum of each stored version, for at most an hour."""
    name = kind.file
    if not path.exists():
        return [_missing(path, kind)]
    if kind is OPERATIONS and (wrong := store_files.damage(path)):
        todo = "restart the service: it sets the file aside and begins a new one, and everybody signs in again"
        return [error(name, f"{path} is damaged ({wrong})", todo)]
    seconds = FULL_SECONDS if is_full else QUICK_SECONDS
    watch = ProgressWatch(clock, seconds, lambda _: None)
    damaged: list[DamagedVersion] | None = []
    try:
        found = store_files.identify(path, kind)
        verdict = _in_time(partial(store_files.verdict, path, kind, watch=watch, is_quick=not is_full))
        if is_full and verdict == "ok" and kind is STORE and found.version == kind.latest:
            damaged = _in_time(
                partial(store_files.damaged_versions, path, watch=watch)
            )  # SQLite does not check our checksums
    except ReconcilerError as problem:
        return [error(name, problem.message.rstrip("."), "")]
    what = f"{path}: version {found.version}, {databases.size_text(found.size)}"
    if verdict is None or damaged is None:
        told = f"{what}, too large to be looked through in {seconds:g} seconds"
        todo = ELSEWHERE if is_full else "look through it with `reconciler doctor --full`"
        return [warning(name, told, todo)]
    if verdict != "ok" or damaged:
        return [_damaged(path, kind, verdict, damaged)]
    later = f"; the next start brings it to version {kind.latest}" if found.version < kind.latest else ""
    return [ok(name, f"{what}, whole{later}")]


def _damaged(path: Path, kind: DatabaseKind, verdict: str, damaged: list[DamagedVersion]) -> DoctorFinding:
    if verdict != "ok":
        return error(kind.file, f"{path} is damaged ({verdict})", "stop the service, and restore a backup")
    return damaged_versions(kind.file, f"{path}: ", damaged)


def damaged_versions(name: str, place: str, damaged: list[DamagedVersion]) -> DoctorFinding:
    """Return the finding of stored versions that do not match their checksums."""
    told = f"{place}{counted(len(damaged), 'stored version')} damaged: {_names(damaged)}"
    return error(name, told, "apply these anew, have Git read in full, or restore a backup; look at the disk")


def _missing(path: Path, kind: DatabaseKind) -> DoctorFinding:
    if kind is not STORE:
        return ok(kind.file, f"{path} is not there yet; the first start makes it")
    told = f"there is no store at {path}, so no service has run there"
    return warning(kind.file, told, f"where one has, elsewhere, {databases.ELSEWHERE}; else the first start makes it")


def _in_time(look: Callable[[], T]) -> T | None:
    """Return the result of a check; None if the time is up."""
    try:
        return look()
    except Refused:
        return None


def _names(damaged: list[DamagedVersion]) -> str:
    first = ", ".join(
        f"version {one.version} of the {one.kind} {one.name} (project {one.project})" for one in damaged[:NAMED]
    )
    return f"{first} and {len(damaged) - NAMED} more" if len(damaged) > NAMED else first
