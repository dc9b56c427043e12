"""The databases of a service: identity, copies, and files that are whole or absent."""

import contextlib
import hashlib
import logging
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.model.errors import ReconcilerError, Refused
from reconciler.settings.models import Settings
from reconciler.store import database, operations
from reconciler.store.contract import NewerStore, StoreFault

# The two databases of a service: which they are, what a file says that it is, and whether this program may have it.

PACKAGE = "reconciler.ops"


@dataclass(frozen=True, slots=True)
class DatabaseKind:
    """One of them: its file's name, what people call it, the number in its header, the newest version known here.

    `forgotten` are the statements that run in every copy of it.
    """

    file: str
    name: str
    application_id: int
    latest: int
    forgotten: tuple[str, ...] = ()


STORE = DatabaseKind("store.db", "store", database.APPLICATION_ID, database.migrations()[-1].number)
OPERATIONS = DatabaseKind(
    "ops.db",
    "database of sessions and notifications",
    operations.APPLICATION_ID,
    database.migrations(operations.PACKAGE)[-1].number,
    forgotten=("forget_sessions", "forget_flow_key"),
)
KINDS = (STORE, OPERATIONS)
COPIED = re.compile(r"\.(?:before|replaced)-[0-9TZ]+")
"""How the names of copies end that an upgrade or a restore left beside a database."""
ELSEWHERE = "name the service's settings with --config, or its `stateDir` with --state-dir"
"""What to do where there is no store: the settings of a service are those of its unit, and seldom those of a shell."""


@dataclass(frozen=True, slots=True)
class DatabasePlaces:
    """Where both are. `store.url` may lead anywhere, `ops.db` is in the state directory."""

    store: Path
    operations: Path

    def of(self, kind: DatabaseKind) -> Path:
        """Where one is."""
        return self.store if kind is STORE else self.operations


@dataclass(frozen=True, slots=True)
class DatabaseIdentity:
    """What a file's header says, and how large it is. `application_id` 0: nobody's."""

    application_id: int
    version: int
    pages: int
    page_bytes: int
    free_pages: int

    @property
    def size(self) -> int:
        """Bytes, all pages together."""
        return self.pages * self.page_bytes


def database_places(settings: Settings) -> DatabasePlaces:
    """Those of a service with these settings."""
    return DatabasePlaces(settings.store.path, settings.state_dir / OPERATIONS.file)


def missing(found: DatabasePlaces) -> str | None:
    """Why a service must not begin with an empty store: it had one, which is not there, or is empty. None where nothing
    is missing, or nothing was ever there. Raises OSError.
    """
    store = found.store
    if store.exists() and store.stat().st_size:
        return None
    copies = [each for each in store.parent.glob(f"{store.name}.*") if COPIED.fullmatch(each.name, len(store.name))]
    if not copies and not found.operations.exists():
        return None
    is_ = "is empty" if store.exists() else "is missing"
    newest = max(copies, key=lambda each: (each.stat().st_mtime, each.name), default=None)
    backup = "BACKUP" if newest is None else f"{newest}"
    return (
        f"The store {store} {is_}, and {found.operations.parent} is of a service that had one; put it back, restore a "
        f"backup with `reconciler restore {backup}`, or start once with --new-store to begin with an empty one."
    )


def database_identity(connection: sqlite3.Connection) -> DatabaseIdentity:
    """What the file behind a connection says of itself."""

    def one(pragma: str) -> int:
        return int(connection.execute(f"pragma {pragma}").fetchone()[0])

    return DatabaseIdentity(
        one("application_id"), one("user_version"), one("page_count"), one("page_size"), one("freelist_count")
    )


def check_database(found: DatabaseIdentity, kind: DatabaseKind, path: Path) -> None:
    """Raises Refused for a file of something else, NewerStore for one that a later version of this program wrote."""
    if found.application_id != kind.application_id:
        raise Refused(f"{path} is not the {kind.name} of this program; name another file.")
    check_version(found.version, kind, path)


def check_version(version: int, kind: DatabaseKind, path: Path) -> None:
    """Raises NewerStore for a version that this program does not know."""
    if version > kind.latest:
        raise NewerStore(
            f"The {kind.name} in {path} is of version {version}, and this program knows versions up to {kind.latest}: "
            "a later version of the program wrote it; install that one."
        )


def count_rows(connection: sqlite3.Connection) -> Mapping[str, int]:
    """How many rows each table has, sorted by name."""
    names = [name for (name,) in connection.execute(database.load_queries(PACKAGE)["tables"])]
    return {name: connection.execute(f"select count(*) from {_quoted(name)}").fetchone()[0] for name in names}  # noqa: S608 - a name of the schema, quoted


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# Files and folders that are there whole or not at all: forced to the disk, renamed, given to whom they belong.

SPARE_BYTES = 64 << 20  # 64 MiB that are left over beside what is written
CHUNK_BYTES = 1 << 20
LOGS = ("-wal", "-shm", "-journal")  # how names end of what SQLite makes beside a database
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def make_private_file(path: Path) -> None:
    """A new empty file that its owner alone may read; one of that name goes, a link is not followed."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def write_new_file(path: Path, data: bytes) -> None:
    """A new file with this in it, on the disk when this returns."""
    make_private_file(path)
    path.write_bytes(data)
    force_to_disk(path)


def force_to_disk(path: Path) -> None:
    """Have a file or a folder on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits, as `sha256sum` says it."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            found.update(chunk)
    return found.hexdigest()


def keep_copy(path: Path, kept: Path) -> None:
    """Have a file under another name besides, on the disk; `path` stays as it is. Raises OSError."""
    try:
        os.link(path, kept)
    except OSError:  # a disk without such links
        partial = kept.with_name(f"{kept.name}.partial")
        make_private_file(partial)
        shutil.copyfile(path, partial)
        force_to_disk(partial)
        partial.rename(kept)
    force_to_disk(kept.parent)


def give_to_owner(path: Path, *, like: Path) -> None:
    """What root made belongs to whoever owns `like`: the service could not open it otherwise."""
    owner = like.stat()
    if os.geteuid() == 0 and (path.stat().st_uid, path.stat().st_gid) != (owner.st_uid, owner.st_gid):
        os.chown(path, owner.st_uid, owner.st_gid)


def remove_database(path: Path) -> None:
    """Remove a database's file, and those that SQLite has beside it, if they are there."""
    for name in beside(path):
        with contextlib.suppress(FileNotFoundError):
            name.unlink()


def beside(path: Path) -> tuple[Path, ...]:
    """A database's file, and those that SQLite makes beside it."""
    return tuple(path.with_name(path.name + suffix) for suffix in ("", *LOGS))


def check_room(folder: Path, needed: int, *, purpose: str) -> None:
    """Raises Refused when the disk of a folder has no room for so many bytes and some more."""
    free = shutil.disk_usage(folder).free
    if free < needed + SPARE_BYTES:
        raise Refused(
            f"{purpose} takes {size_text(needed + SPARE_BYTES)}, and the disk of {folder} has {size_text(free)} "
            "left; make room "
            "there."
        )


def size_text(number: int) -> str:
    """Bytes as a person reads them: `812 bytes`, `1.4 GiB`."""
    value, unit = float(number), 0
    while value >= 1024 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{number} bytes" if unit == 0 else f"{value:.1f} {UNITS[unit]}"


# How long something may take that has no end of its own, and what is told meanwhile.

EVERY_SECONDS = 2.0  # at most one line of progress
STEPS = 100_000  # of SQLite's machine, some milliseconds, between two looks at the clock

Said = Callable[[str], None]


@dataclass
class ProgressWatch:
    """`clock` is monotonic, in seconds; `seconds` from now on all that it watches must have ended."""

    clock: Callable[[], float]
    seconds: float
    said: Said
    _begun: float = field(init=False)
    _told: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin."""
        self._begun = self._told = self.clock()

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.clock() - self._begun > self.seconds

    def check(self, what: str) -> None:
        """Raises Refused when the time is up."""
        if self.is_over:
            raise Refused(f"{what} took longer than {self.seconds:g} seconds and was given up; nothing was changed.")

    def tell(self, sentence: str) -> None:
        """Say how far it is, unless something was said a moment ago."""
        if self.clock() - self._told >= EVERY_SECONDS:
            self._told = self.clock()
            self.said(sentence)

    @contextmanager
    def over(self, connection: sqlite3.Connection, what: str) -> Iterator[None]:
        """End whatever statement runs meanwhile when the time is up. Raises Refused then."""

        def look() -> int:
            self.tell(f"{what} ...")
            return int(self.is_over)

        connection.set_progress_handler(look, STEPS)
        try:
            yield
        except sqlite3.OperationalError:
            self.check(what)
            raise
        finally:
            connection.set_progress_handler(None, 0)


# A database copied while others write to it, by SQLite's backup API: one moment of it, verified, and on the disk.

PAGES = 2048  # copied at a step, 8 MiB
PAUSE_SECONDS = 0.05  # when the file is locked for a moment


@dataclass(frozen=True, slots=True)
class CopiedDatabase:
    """What is in a copy."""

    identity: DatabaseIdentity
    rows: Mapping[str, int]


def look_at_copy(path: Path, kind: DatabaseKind) -> DatabaseIdentity:
    """What a file is that this program may have. Raises Refused, NewerStore, StoreFault."""
    with _reading(path) as connection, database.faults("read", of=kind.name):
        found = database_identity(connection)
    check_database(found, kind, path)
    return found


def copy_database(
    source: Path, target: Path, *, kind: DatabaseKind, watch: ProgressWatch, is_quick: bool = False
) -> CopiedDatabase:
    """Copy a database to a new file, in which it is whole and alone: without a log beside it, for its owner.

    `is_quick`: verified by `quick_check`, which does not hold indexes against their tables. What fails leaves no file.
    Raises Refused, NewerStore, StoreFault.
    """
    try:
        with database.faults("copied", OSError, of=kind.name):
            make_private_file(target)
            before = _copy(source, target, kind=kind, watch=watch)
            copied = _verified(target, before, kind=kind, watch=watch, is_quick=is_quick)
            force_to_disk(target)
    except BaseException:
        remove_database(target)
        raise
    return copied


def _copy(source: Path, target: Path, *, kind: DatabaseKind, watch: ProgressWatch) -> DatabaseIdentity:
    with _reading(source) as reader, _writing(target) as writer:
        # One moment of it, for as long as this transaction lasts: else each write of another process would begin the
        # copy anew.
        reader.execute("begin")
        before = database_identity(reader)
        check_database(before, kind, source)

        def step(_status: int, remaining: int, total: int) -> None:
            watch.check(f"The copy of {source}")
            if remaining:
                watch.tell(f"{source.name}: {(total - remaining) * 100 // total} % copied")

        reader.backup(writer, pages=PAGES, progress=step, sleep=PAUSE_SECONDS)
        writer.execute("pragma journal_mode = delete").fetchone()
        _forget(writer, kind)
    return before


def _forget(writer: sqlite3.Connection, kind: DatabaseKind) -> None:
    """Leave out what must not come alive again, also from pages that are not used any more."""
    tables = count_rows(writer) if kind.forgotten else {}
    if "session" not in tables:
        return
    sql = database.load_queries(PACKAGE)
    for name in kind.forgotten:
        writer.execute(sql[name])
    writer.execute("vacuum")


def _verified(
    path: Path, before: DatabaseIdentity, *, kind: DatabaseKind, watch: ProgressWatch, is_quick: bool
) -> CopiedDatabase:
    with _reading(path) as connection:
        found = database_identity(connection)
        told = copy_verdict(connection, name=kind.file, watch=watch, is_quick=is_quick)
        with watch.over(connection, f"{kind.file}: counting"):
            rows = count_rows(connection)
    is_same = (found.application_id, found.version) == (before.application_id, before.version)
    is_whole = kind.forgotten != () or found.pages == before.pages
    if told != "ok" or not is_same or not is_whole:
        wrong = told if told != "ok" else "a copy of it is another one"
        raise Refused(
            f"The {kind.name} is damaged ({wrong}), so that no copy of it is worth anything; restore a backup."
        )
    return CopiedDatabase(found, rows)


def copy_verdict(connection: sqlite3.Connection, *, name: str, watch: ProgressWatch, is_quick: bool) -> str:
    """`ok`, or the first thing that SQLite finds wrong with a file. Raises Refused when the time is up."""
    pragma = "quick_check(1)" if is_quick else "integrity_check(1)"
    with watch.over(connection, f"{name}: checking"):
        return str(connection.execute(f"pragma {pragma}").fetchone()[0]).partition("\n")[0]


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(database.open_reader(path)) as connection:
        yield connection


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a copy: a crash may take it all, since it counts only when it is whole."""
    uri = f"{path.as_uri()}?mode=rw"
    with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
        for pragma in ("journal_mode = off", "synchronous = off"):
            connection.execute(f"pragma {pragma}").fetchone()
        yield connection


# A copy of a database before this version of the program changes it: the way back to the version before.

log = logging.getLogger(__name__)

KEPT = "before"
NEWEST = 2  # copies of each that stay
SECONDS = 3600.0  # for a copy; a start waits for it


def copy_before_upgrade(
    places: DatabasePlaces, *, clock: Callable[[], float], beating: Callable[[], None] = lambda: None
) -> tuple[Path, ...]:
    """Copy each database that this version will change, all before the first of them is; the copies, few or none.

    Nobody else may use them. `clock` is monotonic, in seconds; `beating` is called while it goes on. What is none of
    ours, or a later version's, is left to whoever opens it. Raises Refused: then none is to be changed.
    """
    found = [_copied(places.of(kind), kind, clock=clock, beating=beating) for kind in KINDS]
    return tuple(copy for copy in found if copy is not None)


def _copied(path: Path, kind: DatabaseKind, *, clock: Callable[[], float], beating: Callable[[], None]) -> Path | None:
    found = _older(path, kind)
    if found is None:
        return None
    copy = path.with_name(f"{path.name}.{KEPT}-{kind.latest}")
    _copy_one(path, copy, found, kind=kind, watch=ProgressWatch(clock, SECONDS, lambda _: beating()))
    told = "Copied the %s to %s before it is brought from version %d to %d."
    log.info(told, kind.name, copy, found.version, kind.latest)
    _remove_old(path)
    return copy


def _older(path: Path, kind: DatabaseKind) -> DatabaseIdentity | None:
    if not path.exists() or path.stat().st_size == 0:
        return None
    try:
        found = look_at_copy(path, kind)
    except ReconcilerError:
        return None
    return found if found.version < kind.latest else None


def _copy_one(path: Path, copy: Path, found: DatabaseIdentity, *, kind: DatabaseKind, watch: ProgressWatch) -> None:
    partial = copy.with_name(f"{copy.name}.partial")
    what = f"The copy of the {kind.name} before it is brought to this version"
    try:
        check_room(path.parent, found.size * (2 if kind.forgotten else 1), purpose=what)
        copy_database(path, partial, kind=kind, watch=watch, is_quick=True)
        partial.rename(copy)
        force_to_disk(copy.parent)
    except (OSError, StoreFault) as problem:
        raise Refused(
            f"The {kind.name} could not be copied before it is brought to this version ({_why(problem)}), so it stays "
            f"as it is; mend that, or install the version before."
        ) from problem


def _why(problem: Exception) -> str:
    if isinstance(problem, OSError):
        return problem.strerror or "the disk failed"
    return str(problem.__cause__ or problem).rstrip(".")


def _remove_old(path: Path) -> None:
    """All but the newest; best effort, since they harm nobody."""
    numbered = re.compile(rf"{re.escape(path.name)}\.{KEPT}-([0-9]+)")
    with suppress(OSError):
        found = sorted(
            (int(match[1]), each) for each in path.parent.iterdir() if (match := numbered.fullmatch(each.name))
        )
        for _, copy in found[:-NEWEST]:
            copy.unlink()
            log.info("Removed %s, an older copy.", copy)
