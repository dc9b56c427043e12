"""`reconciler backup` and `reconciler restore`."""

import os
import pwd
import time
from pathlib import Path

import click

from reconciler.cli import output
from reconciler.model import clock
from reconciler.model.errors import Refused
from reconciler.ops import backup as ops_backup
from reconciler.ops import databases, doctor
from reconciler.ops.backup import Manifest, RestoredBackup
from reconciler.ops.databases import ProgressWatch
from reconciler.server import process as server_process
from reconciler.settings import loading
from reconciler.store.files import STORE

# `reconciler backup`: a copy of what the service keeps, made beside a service that runs, or without one.

SECONDS = 3600.0
NOT_IN_IT = (
    "Not in it: queues (they hold log records), mirrors (they are fetched again), sessions (people sign in again), the "
    "settings and the files of secrets."
)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--config", type=click.Path(path_type=Path), help="The service's settings file.")
@click.option("--state-dir", "state_dir", help="The service's `stateDir`; overrides the settings.")
def backup(folder: Path, config: Path | None, state_dir: str | None) -> None:
    """Copy the store of the service on this machine to a new FOLDER, verified, while the service runs or not."""
    # Neither how people sign in nor who may connect is needed, and what that takes (a provider's secret, a word that
    # there need be no TLS) is in the environment of the service alone.
    overrides = {"stateDir": state_dir, "auth.type": "local", "insecure": True}
    settings = loading.load(config=config, environment=os.environ, overrides=overrides).settings
    watch = ProgressWatch(time.monotonic, SECONDS, output.note)
    places = databases.database_places(settings)
    manifest = ops_backup.back_up(places, folder.absolute(), now=clock.now(), watch=watch)
    for line in backup_lines(folder, manifest):
        output.line(line)
    output.note(NOT_IN_IT)
    output.note(f"It is of the service whose store is {places.store}.")


def backup_lines(folder: Path, manifest: Manifest) -> list[str]:
    """What was made: each file with its size and what is in it."""
    found = [_line(folder, file) for file in manifest.files]
    return [*found, f"{folder / ops_backup.NAME}: what is in them, with their SHA-256"]


def _line(folder: Path, file: ops_backup.File) -> str:
    rows = output.counted(sum(file.rows.values()), "row")
    return f"{folder / file.name}: {databases.size_text(file.bytes)}, version {file.version}, {rows}, verified"


# `reconciler restore`: a backup in the place of what the service on this machine has.

NEXT = (
    "Start the service: it brings an older store to its version, and reads what was committed since. Everybody signs "
    "in again. People, roles and keys are those of the backup: remove again what was removed since. What came through "
    "the API since is lost. Queues are as they were."
)


@click.command()
@click.argument("backup", type=click.Path(path_type=Path))
@click.option("--config", type=click.Path(path_type=Path), help="The service's settings file.")
@click.option("--state-dir", "state_dir", help="The service's `stateDir`; overrides the settings.")
def restore(backup: Path, config: Path | None, state_dir: str | None) -> None:
    """Put a BACKUP in the place of what the service has, which must be stopped. What was there is kept.

    BACKUP is a folder that `reconciler backup` made, or a copy of the store alone.
    """
    # Neither how people sign in nor who may connect is needed, and what that takes (a provider's secret, a word that
    # there need be no TLS) is in the environment of the service alone.
    overrides = {"stateDir": state_dir, "auth.type": "local", "insecure": True}
    settings = loading.load(config=config, environment=os.environ, overrides=overrides).settings
    given = ops_backup.read_backup(backup.absolute())
    if (process := doctor.directory_holder(settings.state_dir)) is not None:
        raise Refused(
            f"the service runs (process {process}) and uses {settings.state_dir}; stop it first, with `systemctl stop "
            "reconciler` for instance"
        )
    watch = ProgressWatch(time.monotonic, SECONDS, output.note)
    places = databases.database_places(settings)
    with server_process.hold_state_directory(settings.state_dir), server_process.hold_store(places.store):
        databases.give_to_owner(settings.state_dir / doctor.LOCK, like=settings.state_dir)
        databases.give_to_owner(
            places.store.with_name(f"{places.store.name}{doctor.STORE_LOCK}"), like=places.store.parent
        )
        done = ops_backup.restore(given, places, by=_somebody(), now=clock.now(), watch=watch)
    for line in restore_lines(places.store, done):
        output.line(line)
    output.note(NEXT)


def _somebody() -> str:
    """Who runs the command, as the audit names them: no user of the service, but one of this machine."""
    try:
        return f"machine:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"machine:{os.getuid()}"


def restore_lines(store: Path, done: RestoredBackup) -> list[str]:
    """What is there now, and what was there."""
    made = f"the backup of {done.made_at}" if done.made_at else "the copy"
    kept = [f"{path}: what was there; remove it when all is well" for path in done.kept]
    older = [] if done.version == STORE.latest else ["its audit does not tell of this, since the store is an older one"]
    return [f"{store}: {made}, version {done.version}, verified", *older, *kept]
