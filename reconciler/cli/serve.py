"""`reconciler serve`: the service, with the warnings at its start."""

import logging
import os
from pathlib import Path

import click

from reconciler.model import directory
from reconciler.model.errors import Refused
from reconciler.ops import logging as ops_logging
from reconciler.server import daemon
from reconciler.server.parts import Running, StartPlan
from reconciler.settings import loading
from reconciler.settings.models import Settings

log = logging.getLogger(__name__)

CLIENTS_KEY = (
    f"SERVICE_API_KEY: begins with {directory.KEY_MARK}, as a client's key that a service made; here it would be an "
    "organization admin's: unset it in the shell or the unit that starts the service, or set one of your own"
)
KEY_IS_SET = (
    "SERVICE_API_KEY is set: whoever has it may do everything. Make a key for each use with `reconciler key create`, "
    "and unset it."
)
NO_REPOSITORY = (
    "No repository is set, so nothing is watched; add one to `repositories` in %s, or set SERVICE_REPOSITORY."
)


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="The settings file.")
@click.option("--listen", help="Where to listen, host:port; overrides the settings.")
@click.option("--state-dir", "state_dir", help="The folder for mirrors and the store; overrides the settings.")
@click.option(
    "--confirm-auth-change",
    is_flag=True,
    help="If auth.type changed since the last start, remove all people, roles, invitations, sessions and keys.",
)
@click.option(
    "--new-store",
    is_flag=True,
    help="Create an empty store if the store of a used state directory is missing.",
)
def serve(
    config: Path | None, listen: str | None, state_dir: str | None, *, confirm_auth_change: bool, new_store: bool
) -> None:
    """Follow the repositories in the settings and serve the API, until SIGTERM. SIGHUP reloads the settings."""
    overrides = {"listen": listen, "stateDir": state_dir}
    loaded = loading.load(config=config, environment=os.environ, overrides=overrides)
    settings = loaded.settings
    if settings.api_key is not None and settings.api_key.get_secret_value().startswith(directory.KEY_MARK):
        raise Refused(CLIENTS_KEY)
    ops_logging.set_up(level=settings.log.level, style=settings.log.format)
    for warning in loaded.warnings:
        log.warning("%s", warning)

    def reload() -> Settings:
        again = loading.load(config=config, environment=os.environ, overrides=overrides)
        for warning in again.warnings:
            log.warning("%s", warning)
        return again.settings

    async def when_up(running: Running) -> None:
        """Log these warnings after the start, so that the error of a failed start is not lost among them."""
        if settings.api_key is not None:
            log.warning("%s", KEY_IS_SET)
        if settings.auth.type == "none":
            log.warning("auth.type is none: whoever can reach %s may do everything.", running.address)
        if not settings.repositories:
            where = "a file of --config" if loaded.config is None else loaded.config
            log.warning(NO_REPOSITORY, where)

    daemon.start(
        StartPlan(
            settings=settings,
            reload=reload,
            when_up=when_up,
            confirm_auth_change=confirm_auth_change,
            new_store=new_store,
        )
    )
