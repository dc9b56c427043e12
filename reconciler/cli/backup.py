"""`reconciler backup`: a copy of what the service keeps, made beside a service that runs, or without one."""

import os
import time
from pathlib import Path

import click

from reconciler.cli import output, words
from reconciler.model import clock
from reconciler.ops import backup as ops_backup
from reconciler.ops import databases
from reconciler.ops.backup import Manifest
from reconciler.ops.databases import ProgressWatch
from reconciler.settings import loading

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
    rows = words.counted(sum(file.rows.values()), "row")
    return f"{folder / file.name}: {databases.size_text(file.bytes)}, version {file.version}, {rows}, verified"
