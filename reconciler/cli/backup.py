"""`reconciler backup` and `reconciler restore`, for the service on this machine."""

import os
import time
from pathlib import Path

import click

from reconciler.cli import options, output
from reconciler.cli.options import config_option, state_option
from reconciler.model import clock
from reconciler.model.errors import Refused
from reconciler.ops import backup as ops_backup
from reconciler.ops import databases, doctor
from reconciler.ops.checks import files
from reconciler.ops.databases import ProgressWatch
from reconciler.server import process as server_process
from reconciler.store.files import STORE

SECONDS = 3600.0
NOT_IN_IT = (
    "Not in it: queues (they hold log records), mirrors (they are fetched again), sessions (people sign in again), the "
    "settings and the files of secrets."
)
# Without sessions, as in a backup: one that ended since must not become valid again.
DUMP = "use `pg_dump --format=custom --exclude-table-data=session --file=FILE DATABASE`, while the service runs or not"
LOAD = (
    "stop all replicas, and use `pg_restore --clean --if-exists --single-transaction --dbname=DATABASE FILE` with what "
    "`pg_dump` wrote"
)
NEXT = (
    "Start the service: it brings an older store to its version, and reads what was committed since. Everybody signs "
    "in again. People, roles and keys are those of the backup: remove again what was removed since. What came through "
    "the API since is lost. Queues are as they were."
)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@config_option
@state_option
def backup(folder: Path, config: Path | None, state_dir: str | None) -> None:
    """Copy the store of the service on this machine to a new FOLDER, verified. The service may run or not."""
    settings = options.local_settings(config, state_dir)
    databases.check_sqlite(settings, DUMP)
    watch = ProgressWatch(time.monotonic, SECONDS, output.note)
    places = databases.database_places(settings)
    manifest = ops_backup.back_up(places, folder.absolute(), now=clock.now(), watch=watch)
    for file in manifest.files:
        rows = output.counted(sum(file.rows.values()), "row")
        size = databases.size_text(file.bytes)
        output.line(f"{folder / file.name}: {size}, version {file.version}, {rows}, verified")
    output.line(f"{folder / ops_backup.NAME}: what is in them, with their SHA-256")
    output.note(NOT_IN_IT)
    output.note(f"It is of the service whose store is {places.store}.")


@click.command()
@click.argument("backup", type=click.Path(path_type=Path))
@config_option
@state_option
def restore(backup: Path, config: Path | None, state_dir: str | None) -> None:
    """Replace the store of the service on this machine by a BACKUP. Stop the service first. The old store is kept.

    BACKUP is a folder that `reconciler backup` made, or a copy of only the store.
    """
    settings = options.local_settings(config, state_dir)
    databases.check_sqlite(settings, LOAD)
    given = ops_backup.read_backup(backup.absolute())
    if (process := doctor.directory_holder(settings.state_dir)) is not None:
        raise Refused(
            f"the service runs (process {process}) and uses {settings.state_dir}; stop it first, with `systemctl stop "
            "reconciler` for instance"
        )
    somebody = f"machine:{files.user(os.getuid())}"  # in the audit: a user of this machine, not of the service
    watch = ProgressWatch(time.monotonic, SECONDS, output.note)
    places = databases.database_places(settings)
    with server_process.hold_state_directory(settings.state_dir), server_process.hold_store(places.store):
        databases.give_to_owner(settings.state_dir / doctor.LOCK, like=settings.state_dir)
        databases.give_to_owner(
            places.store.with_name(f"{places.store.name}{doctor.STORE_LOCK}"), like=places.store.parent
        )
        done = ops_backup.restore(given, places, by=somebody, now=clock.now(), watch=watch)
    made = f"the backup of {done.made_at}" if done.made_at else "the copy"
    output.line(f"{places.store}: {made}, version {done.version}, verified")
    if done.version != STORE.latest:
        output.line("its audit does not tell of this, since the store is an older one")
    for path in done.kept:
        output.line(f"{path}: what was there; remove it when all is well")
    output.note(NEXT)
