"""`reconciler serve`."""

import logging
import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import click

from api import app
from reconciler.model import directory
from reconciler.model.errors import Refused
from reconciler.ops import logging as ops_logging
from reconciler.server import daemon
from reconciler.server.daemon import Running
from reconciler.settings import loading
from reconciler.settings.loading import Loaded
from reconciler.settings.models import Settings

log = logging.getLogger(__name__)

CLIENTS_KEY = (
    f"SERVICE_API_KEY: begins with {directory.KEY_MARK}, as a client's key that a service made; here it would be an "
    "organization admin's: unset it in the shell or the unit that starts the service, or set one of your own"
)


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="The settings file.")
@click.option("--listen", help="Where to listen, host:port; overrides the settings.")
@click.option("--state-dir", "state_dir", help="The folder for mirrors and the store; overrides the settings.")
@click.option(
    "--confirm-auth-change",
    is_flag=True,
    help="Where auth.type is another one than the last time, remove all people, roles, invitations, sessions and keys.",
)
@click.option(
    "--new-store",
    is_flag=True,
    help="Begin with an empty store where the one that a used state directory had is missing.",
)
def serve(
    config: Path | None, listen: str | None, state_dir: str | None, *, confirm_auth_change: bool, new_store: bool
) -> None:
    """Watch the repositories of the settings and serve the API, until SIGTERM. SIGHUP reads the settings again."""
    overrides = {"listen": listen, "stateDir": state_dir}
    loaded = load(config, overrides)
    settings = loaded.settings
    if settings.api_key is not None and settings.api_key.get_secret_value().startswith(directory.KEY_MARK):
        raise Refused(CLIENTS_KEY)
    ops_logging.set_up(level=settings.log.level, style=settings.log.format)
    warn(loaded)

    async def when_up(running: Running) -> None:
        """Not before: a start that fails has one thing to say, and it is not this."""
        for warning in open_doors(settings, running.address):
            log.warning("%s", warning)
        if not settings.repositories:
            log.warning("%s", nothing_to_watch(loaded.config))

    again = partial(reload, config, overrides)
    daemon.start(
        daemon.StartPlan(
            settings=settings,
            reload=again,
            application=app.build,
            log_application=app.build_for_logs,
            when_up=when_up,
            confirm_auth_change=confirm_auth_change,
            new_store=new_store,
        )
    )


def load(config: Path | None, overrides: Mapping[str, object]) -> Loaded:
    """The settings from options, environment and file. Raises SettingsError with every mistake."""
    return loading.load(config=config, environment=os.environ, overrides=overrides)


def reload(config: Path | None, overrides: Mapping[str, object]) -> Settings:
    """The settings once more, with what is odd about them. Raises SettingsError."""
    loaded = load(config, overrides)
    warn(loaded)
    return loaded.settings


def warn(loaded: Loaded) -> None:
    """Say what is odd about the settings."""
    for warning in loaded.warnings:
        log.warning("%s", warning)


def open_doors(settings: Settings, address: str) -> Iterator[str]:
    """What lets somebody in who may do everything, and is to be so for a while only."""
    if settings.api_key is not None:
        yield (
            "SERVICE_API_KEY is set: whoever has it may do everything. Make a key for each use with `reconciler key "
            "create`, and unset it."
        )
    if settings.auth.type == "none":
        yield f"auth.type is none: whoever can reach {address} may do everything."


def nothing_to_watch(config: Path | None) -> str:
    """What to do when no repository is set."""
    where = "a file of --config" if config is None else str(config)
    return (
        f"No repository is set, so nothing is watched; add one to `repositories` in {where}, or set SERVICE_REPOSITORY."
    )
