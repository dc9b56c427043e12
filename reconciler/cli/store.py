"""`reconciler store`: moves an estate from one store to another, of SQLite or PostgreSQL."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import click

from reconciler.cli import output
from reconciler.cli.options import OrderedGroup
from reconciler.model.errors import Refused
from reconciler.ops import databases, doctor
from reconciler.ops.databases import ProgressWatch
from reconciler.server import process
from reconciler.settings.scalars import POSTGRESQL, SQLITE
from reconciler.store import engines, estates
from reconciler.store.estates import StoredEstate
from reconciler.store.files import KINDS, OPERATIONS, STORE, DatabasePlaces

SECONDS = 3600.0
STORE_SUFFIX = Path(STORE.file).suffix
LEFT_OUT = "Not in it: sessions (people sign in again)."
NEXT = "Queues, mirrors, settings and files of secrets stay where they are. Set `store.url`, and start the service."


@click.group(cls=OrderedGroup)
def store() -> None:
    """Move the store to another database."""


@store.command()
@click.argument("source")
@click.argument("target")
def copy(source: str, target: str) -> None:
    """Copy the store SOURCE into TARGET, which is empty, and verify it. Stop the service first; SOURCE stays as it is.

    Each is a URL as of `store.url`, or the path of a state directory or of a store in it.
    """
    watch = ProgressWatch(time.monotonic, SECONDS, output.note)
    with _end(source) as given, _end(target, is_target=True) as made:
        copied = estates.copy(given, made, watch=watch)
    for table in copied.tables:
        output.line(f"{table.name}: {output.counted(table.rows, 'row')}, sha256 {table.sha256}")
    events = copied.chain.events + copied.chain.unchecked
    output.line(f"audit: {output.counted(events, 'event')}, verified; head: {copied.chain.head}")
    if copied.damaged:
        number = output.counted(len(copied.damaged), "stored version")
        output.line(f"damaged, as in the source: {number}; see docs/recovery.md")
    output.note(LEFT_OUT)
    output.note(NEXT)


@contextlib.contextmanager
def _end(text: str, *, is_target: bool = False) -> Iterator[StoredEstate]:
    """Yield the store at a place, which no service on this machine uses meanwhile. Raises Refused."""
    if text.startswith(POSTGRESQL):
        _check_no_password(text)
        yield engines.stored_estate(text)
        return
    places = _places(text)
    with process.hold_store(places.store):
        lock = places.store.with_name(f"{places.store.name}{doctor.STORE_LOCK}")
        databases.give_to_owner(lock, like=places.store.parent)
        yield engines.stored_estate(places)
        for kind in KINDS if is_target else ():
            databases.give_to_owner(places.of(kind), like=places.store.parent)


def _check_no_password(url: str) -> None:
    parts = urlsplit(url)
    if parts.password is not None or "password" in parse_qs(parts.query):
        raise Refused(
            "a password in an argument shows in the list of processes; leave it out, and give it in PGPASSWORD, or in "
            "a file that `passfile=` names in the URL"
        )


def _places(text: str) -> DatabasePlaces:
    path = Path(text.removeprefix(SQLITE)).absolute()
    if path.is_dir():
        path /= STORE.file
    elif not text.startswith(SQLITE) and not path.exists() and path.suffix != STORE_SUFFIX:
        raise Refused(f"{path} is neither a folder nor a store; make the folder first")
    if not path.parent.is_dir():
        raise Refused(f"{path.parent} is no folder; make it first")
    return DatabasePlaces(path, path.with_name(OPERATIONS.file))
