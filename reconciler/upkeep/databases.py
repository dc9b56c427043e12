"""The two databases of a service: which they are, what a file says that it is, and whether this program may have it.

Belongs here: the header, the tables, the verdict. Does not: copying (`copies`), what is in the tables.
"""

import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler.model.errors import Refused
from reconciler.settings.models import Settings
from reconciler.store import database, operations
from reconciler.store.contract import NewerStore

PACKAGE = "reconciler.upkeep"


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
