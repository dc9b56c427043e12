"""Checks of files, directories, disks and limits."""

import itertools
import os
import pwd
import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from reconciler.model.text import counted
from reconciler.ops import backup
from reconciler.ops import databases as ops_databases
from reconciler.ops.doctor import DoctorFinding, error, ok, warning
from reconciler.settings import bounded_io
from reconciler.settings.models import Settings
from reconciler.store import files as store_files

# Whether the files that the settings name can be read, and their secrets by nobody else.

NAME = "files"
MOST_BYTES = 4 << 20
OTHERS_READ, OTHERS_WRITE = 0o004, 0o022
OTHERS_ENTER = 0o001
MOST_ENTRIES = 1000


class NamedFile(NamedTuple):
    """A file that a setting names, and whether it holds a secret."""

    setting: str
    path: Path
    is_secret: bool


class SecretFileFacts(NamedTuple):
    """One of them: what is wrong with reading it, nothing when it can be read, and its mode."""

    named: NamedFile
    wrong: str
    mode: int


def named_files(settings: Settings) -> list[NamedFile]:
    """All of them, in one order."""
    return [each for each in _named(settings) if each is not None]


def gather_secret_files(named: NamedFile) -> SecretFileFacts:
    """Look at one; nothing of what is in it stays."""
    try:
        bounded_io.read_file(named.path, limit=MOST_BYTES)
        return SecretFileFacts(named, "", stat.S_IMODE(named.path.stat().st_mode))
    except FileNotFoundError:
        return SecretFileFacts(named, "does not exist", 0)
    except OSError as problem:
        return SecretFileFacts(named, f"cannot be read ({os.strerror(problem.errno or 0)})", 0)
    except bounded_io.NotAFile:
        return SecretFileFacts(named, "is not a regular file", 0)
    except bounded_io.FileTooLarge:
        return SecretFileFacts(named, f"has more than {MOST_BYTES >> 20} MiB", 0)


def judge_secret_files(facts: list[SecretFileFacts]) -> list[DoctorFinding]:
    """What is wrong with them."""
    if not facts:
        return [ok(NAME, "the settings name none")]
    wrong = [finding for each in facts for finding in _of_one(each)]
    return wrong or [ok(NAME, f"{counted(len(facts), 'file')} of the settings can be read, and no secret by everybody")]


def secrets_folder(path: Path | None) -> list[DoctorFinding]:
    """Those below `secrets.directory`, of which resources name some."""
    if path is None:
        return []
    if not path.is_dir():
        told = f"{path}, the folder of `secrets.directory`, is no folder"
        return [error(NAME, told, "make it, or correct `secrets.directory`")]
    found = list(itertools.islice(_read_by_everybody(path), MOST_ENTRIES))
    if not found:
        return []
    told = f"{counted(len(found), 'file')} below {path}, the folder of `secrets.directory`, may be read by everybody"
    todo = f"`chmod -R o-rwx {path}`, and replace the secrets if anybody else uses this machine"
    return [error(NAME, f"{told}, as {found[0]}", todo)]


def settings_file(path: Path | None, *, has_secret: bool) -> list[DoctorFinding]:
    """The settings file itself, in which a client's secret may stand."""
    if path is None or not has_secret:
        return []
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & OTHERS_READ:
        return []
    told = f"{path} holds `auth.oidc.oauth2ClientSecret`, and everybody may read it (mode {mode:04o})"
    todo = "take it out and set SERVICE_OIDC_OAUTH2_CLIENT_SECRET, or let the service alone read the file"
    return [error(NAME, told, todo)]


def _read_by_everybody(folder: Path) -> Iterator[Path]:
    """In one order. Who may not enter a folder reads nothing of what is in it, whatever the modes there are."""
    if not folder.stat().st_mode & OTHERS_ENTER:
        return
    for path in sorted(folder.iterdir()):
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            yield from _read_by_everybody(path)
        elif stat.S_ISREG(mode) and mode & OTHERS_READ:
            yield path


def _of_one(facts: SecretFileFacts) -> Iterator[DoctorFinding]:
    path, setting = facts.named.path, facts.named.setting
    if facts.wrong:
        todo = f"mend that, or correct `{setting}`"
        yield error(NAME, f"{path}, the file of `{setting}`, {facts.wrong}", todo)
    if facts.named.is_secret and facts.mode & OTHERS_READ:
        told = f"{path}, the secret of `{setting}`, may be read by everybody (mode {facts.mode:04o})"
        yield error(NAME, told, f"`chmod o-rwx {path}`, and replace the secret if anybody else uses this machine")
    if facts.mode & OTHERS_WRITE:
        told = f"{path}, the file of `{setting}`, may be written by others than its owner (mode {facts.mode:04o})"
        yield warning(NAME, told, f"`chmod go-w {path}`")


def _named(settings: Settings) -> Iterator[NamedFile | None]:
    yield _one("tls.certFile", settings.tls.cert_file, is_secret=False)
    yield _one("tls.keyFile", settings.tls.key_file, is_secret=True)
    yield _one("outbound.caFile", settings.outbound.ca_file, is_secret=False)
    for number, repository in enumerate(settings.repositories):
        at, given = f"repositories[{number}]", repository.credentials
        yield _one(f"{at}.credentials.passwordFile", given.password_file, is_secret=True)
        yield _one(f"{at}.credentials.tokenFile", given.token_file, is_secret=True)
        yield _one(f"{at}.credentials.sshKeyFile", given.ssh_key_file, is_secret=True)
        yield _one(f"{at}.credentials.sshPassphraseFile", given.ssh_passphrase_file, is_secret=True)
        yield _one(f"{at}.credentials.knownHostsFile", given.known_hosts_file, is_secret=False)
        yield _one(f"{at}.credentials.caFile", given.ca_file, is_secret=False)
        yield _one(f"{at}.verify.signersFile", repository.verify.signers_file, is_secret=False)
        yield _one(f"{at}.hook.secretFile", repository.hook.secret_file, is_secret=True)
    for number, alert in enumerate(settings.alerts):
        yield _one(f"alerts[{number}].urlFile", alert.url_file, is_secret=True)  # chats take a URL for a password
        yield _one(f"alerts[{number}].secretFile", alert.secret_file, is_secret=True)


def _one(setting: str, path: Path | None, *, is_secret: bool) -> NamedFile | None:
    return None if path is None else NamedFile(setting, path, is_secret)


# Whether the state directory is the service's own: whose it is, and who else may look into it.

STATE_NAME = "state directory"
FOR_OTHERS = 0o077
PRIVATE = (".db", "lock", "-password")  # how names end of what holds secrets, or keeps others out
ROOT = 0


class StateEntry(NamedTuple):
    """A file or folder: whose it is, and its mode."""

    path: Path
    owner: int
    mode: int


class StateFacts(NamedTuple):
    """The folder, None when there is none, what is in it, sorted, and the user that looks."""

    path: Path
    folder: StateEntry | None
    entries: tuple[StateEntry, ...]
    user: int


def gather_state(path: Path) -> StateFacts:
    """Look. Raises OSError."""
    try:
        folder = _entry(path)
    except FileNotFoundError:
        return StateFacts(path, None, (), os.geteuid())
    if not stat.S_ISDIR(folder.mode) or not os.access(path, os.R_OK | os.X_OK):
        return StateFacts(path, folder, (), os.geteuid())
    names = sorted(path.iterdir())[:MOST_ENTRIES]
    return StateFacts(path, folder, tuple(_entry(name) for name in names), os.geteuid())


def judge_state(facts: StateFacts) -> list[DoctorFinding]:
    """What is wrong with it."""
    if facts.folder is None:
        return [ok(STATE_NAME, f"{facts.path} is not there yet; the first start makes it")]
    if not stat.S_ISDIR(facts.folder.mode):
        return [error(STATE_NAME, f"{facts.path} is no folder", "move it away, or name another with `stateDir`")]
    wrong = list(_wrong(facts, facts.folder))
    return wrong or [ok(STATE_NAME, f"{facts.path} belongs to {user(facts.folder.owner)}, who alone may enter it")]


def user(number: int) -> str:
    """A user's name, or the number of one that has none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _wrong(facts: StateFacts, folder: StateEntry) -> Iterator[DoctorFinding]:
    owner = user(folder.owner)
    if facts.user not in (folder.owner, ROOT):
        told = f"{facts.path} belongs to {owner}, and this is {user(facts.user)}"
        yield error(STATE_NAME, told, _looking_as(owner, facts.path))
    elif facts.user != folder.owner:
        told = f"this is root, and the service is {owner}: which files {owner} may not read does not show"
        yield warning(STATE_NAME, told, _looking_as(owner, facts.path))
    if folder.mode & FOR_OTHERS:
        told = f"{facts.path} is open to others than its owner (mode {folder.mode & 0o777:04o})"
        yield warning(STATE_NAME, told, f"`chmod 700 {facts.path}`")
    for entry in facts.entries:
        yield from _of_entry(entry, folder)


def _looking_as(owner: str, path: Path) -> str:
    return f"look as {owner}: `runuser -u {owner} -- reconciler doctor --state-dir {path}`"


def _of_entry(entry: StateEntry, folder: StateEntry) -> Iterator[DoctorFinding]:
    if entry.owner != folder.owner:
        told = f"{entry.path} belongs to {user(entry.owner)}, so that the service of {user(folder.owner)} cannot use it"
        yield error(STATE_NAME, told, f"`chown -R --reference={folder.path} {entry.path}`")
    if entry.path.name.endswith(PRIVATE) and stat.S_ISREG(entry.mode) and entry.mode & FOR_OTHERS:
        told = f"{entry.path} may be read by others than its owner (mode {entry.mode & 0o777:04o})"
        yield error(STATE_NAME, told, f"`chmod 600 {entry.path}`")


def _entry(path: Path) -> StateEntry:
    found = path.lstat() if path.is_symlink() else path.stat()
    return StateEntry(path, found.st_uid, found.st_mode)


# What upkeep left under other names: each takes room, and holds all that a store holds.

KEPT_NAME = "kept files"
UNFINISHED = (".partial", backup.INCOMING)  # how names end of what did not come to its end


class KeptCopy(NamedTuple):
    """A file, the database beside which it lies, and how large it is with its logs, in bytes."""

    path: Path
    database: Path
    size: int


def gather_kept_copies(databases: Sequence[Path]) -> list[KeptCopy]:
    """All of them, sorted. Raises OSError."""
    return [
        KeptCopy(path, database, _size(path))
        for database in sorted(databases)
        for path in sorted(database.parent.glob(f"{database.name}.*"))
        if not path.name.endswith(store_files.LOGS) and path.is_file()
    ]


def judge_kept_copies(found: Sequence[KeptCopy]) -> list[DoctorFinding]:
    """Each is to go one day."""
    return [finding for left in found for finding in _of_one_copy(left)]


def _of_one_copy(left: KeptCopy) -> Iterator[DoctorFinding]:
    what, kind = (
        f"{left.path} ({ops_databases.size_text(left.size)})",
        left.path.name.removeprefix(f"{left.database.name}."),
    )
    if left.path.name.endswith(UNFINISHED):
        todo = "remove it, unless the service is starting or a restore is under way"
        yield warning(KEPT_NAME, f"{what} is part of a copy that did not come to its end", todo)
    elif kind.startswith(f"{backup.KEPT}-"):
        yield warning(KEPT_NAME, f"{what} is what was there before a restore", "remove it when all is well")
    elif kind.startswith(f"{store_files.DAMAGED}-"):
        told = "is a damaged database that was set aside, and a new one took its place"
        yield warning(KEPT_NAME, f"{what} {told}", "look at the disk, and remove it when nobody needs it any more")
    elif kind.startswith(f"{ops_databases.KEPT}-"):
        told = "is the copy from before an upgrade, and the way back (docs/upgrades.md)"
        yield ok(KEPT_NAME, f"{what} {told}; it may be removed when the upgrade is good")


def _size(path: Path) -> int:
    return sum(each.stat().st_size for each in store_files.beside(path) if each.exists())


# Whether the disks have room: for log records, for large changes, for the copy before an upgrade.

DISK_NAME = "disk"
LARGE_CHANGE_BYTES = 128 << 20  # below that the store gives large changes up
FEW_FILES = 1000


class DiskFacts(NamedTuple):
    """A folder's disk: bytes and files that are free to this user; None for a disk that counts no files."""

    folder: Path
    free: int
    files: int | None


def gather_disks(folder: Path) -> DiskFacts:
    """Look at the folder, or at the nearest one above it that is there. Raises OSError."""
    place = next(each for each in (folder, *folder.parents) if each.is_dir())
    found = os.statvfs(place)
    return DiskFacts(folder, found.f_bavail * found.f_frsize, found.f_favail if found.f_files else None)


def judge_disks(facts: DiskFacts, *, reserve: int, store_bytes: int) -> list[DoctorFinding]:
    """`reserve` is `delivery.freeBytes`; `store_bytes` how large the store on this disk is."""
    left = f"the disk of {facts.folder} has {ops_databases.size_text(facts.free)} left"
    if facts.files is not None and facts.files < FEW_FILES:
        todo = "remove files that nobody needs"
        return [error(DISK_NAME, f"the disk of {facts.folder} takes {facts.files} more files and no others", todo)]
    if facts.free < reserve:
        told = f"{left}, less than `delivery.freeBytes` ({ops_databases.size_text(reserve)}): log records are refused"
        return [error(DISK_NAME, told, "make room")]
    if facts.free < reserve + LARGE_CHANGE_BYTES:
        return [warning(DISK_NAME, f"{left}, little more than log records are refused at", "make room")]
    if facts.free < store_bytes + ops_databases.SPARE_BYTES:
        told = (
            f"{left}, too little for the copy that an upgrade makes of the store "
            f"({ops_databases.size_text(store_bytes)})"
        )
        return [warning(DISK_NAME, told, "make room before the next upgrade")]
    return [ok(DISK_NAME, left)]


# How many files the service may open: those of its process while it runs, else of who looks.

LIMIT_NAME = "open files"
WANTED = 8192  # less is little for many destinations; the service takes up to 65,536
LEAST = 1024
FULL = 0.9  # of the limit
TODO = "set LimitNOFILE=65536 in the unit, or `ulimit -Hn 65536` where it is started"
_LINE = re.compile(r"^Max open files\s+(\d+|unlimited)\s+(\d+|unlimited)\s", re.MULTILINE)


class LimitFacts(NamedTuple):
    """The process, None for the one that looks, how many files it may open at most (None: without limit), and how many
    a service has open; None where nobody may look.
    """

    process: int | None
    most: int | None
    opened: int | None = None


def gather_limits(process: int | None) -> LimitFacts:
    """Look. Raises OSError."""
    of_process = Path(f"/proc/{'self' if process is None else process}")
    most = parse_limits((of_process / "limits").read_text(encoding="ascii"))
    try:
        opened = None if process is None else len(list((of_process / "fd").iterdir()))
    except PermissionError:
        opened = None
    return LimitFacts(process, most, opened)


def parse_limits(text: str) -> int | None:
    """The hard limit in a text of /proc/PID/limits, up to which a service helps itself."""
    found = _LINE.search(text)
    return None if found is None or found[2] == "unlimited" else int(found[2])


def judge_limits(facts: LimitFacts) -> list[DoctorFinding]:
    """Whether that is enough."""
    whose = "a service started from here" if facts.process is None else f"the service (process {facts.process})"
    if facts.most is not None and facts.opened is not None and facts.opened >= facts.most * FULL:
        told = f"{whose} has {facts.opened:,} files open, and may open {facts.most:,}: it refuses connections at that"
        return [error(LIMIT_NAME, told, TODO)]
    if facts.most is None or facts.most >= WANTED:
        return [ok(LIMIT_NAME, f"{whose} may open {'any number' if facts.most is None else f'{facts.most:,}'}")]
    told = f"{whose} may open {facts.most:,}, and queues, connections and repositories take some each"
    return [error(LIMIT_NAME, told, TODO) if facts.most < LEAST else warning(LIMIT_NAME, told, TODO)]


# Queue files that the disk damaged, and that delivery put aside.

QUEUE_NAME = "queues"
QUARANTINE = "queues/*/*/quarantine/*.seg"  # below the state directory (docs/queue-format.md)


class QuarantinedFiles(NamedTuple):
    """The damaged files of one queue."""

    folder: Path
    files: int


def gather_quarantine(state: Path) -> list[QuarantinedFiles]:
    """Return the queues with damaged files, sorted. Raises OSError."""
    found = Counter(path.parent for path in state.glob(QUARANTINE))
    return [QuarantinedFiles(folder, number) for folder, number in sorted(found.items())]


def judge_quarantine(found: Sequence[QuarantinedFiles]) -> list[DoctorFinding]:
    """Report them."""
    todo = (
        "look at the disk; `reconciler queue status` says whether batches are lost; remove the files when nobody needs "
        "them, and restart the service"
    )
    return [warning(QUEUE_NAME, f"{counted(one.files, 'damaged queue file')} in {one.folder}", todo) for one in found]
