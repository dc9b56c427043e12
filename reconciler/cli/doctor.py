"""`reconciler doctor`: checks the service on this machine. The checks are in `ops.checks`."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from reconciler.cli import exits, output
from reconciler.cli.options import config_option, state_option
from reconciler.model.values import Value
from reconciler.ops import databases
from reconciler.ops import doctor as ops_doctor
from reconciler.ops.checks import files, postgresql, services
from reconciler.ops.checks.files import NamedFile
from reconciler.ops.doctor import SECONDS, DoctorCheck, DoctorFinding, FindingStatus, threaded
from reconciler.settings import loading
from reconciler.settings.loading import Loaded, SettingsError
from reconciler.settings.models import Settings
from reconciler.store.files import KINDS

SETTINGS = "settings"
PROVIDER = "provider"
CLIENT_SECRET = "SERVICE_OIDC_OAUTH2_CLIENT_SECRET"  # noqa: S105 - the name of a variable
ALL_REPOSITORIES_SECONDS = 300.0
ENDING_SECONDS = 15.0  # in which a check that reached its own limit can report that
HAS_IT = "that is no error if the service has it in its own environment; the other checks do not need it"


def doctor_checks(loaded: Loaded, *, environment: Mapping[str, str], is_full: bool) -> list[DoctorCheck]:
    """Return all checks of a service with these settings, in the order of the output."""
    settings = loaded.settings
    service = ops_doctor.directory_holder(settings.state_dir)
    deep = (files.FULL_SECONDS if is_full else files.QUICK_SECONDS) + ENDING_SECONDS

    def check(
        name: str, look: Callable[..., Sequence[DoctorFinding]], *given: Any, seconds: float = SECONDS, **named: Any
    ) -> DoctorCheck:
        return DoctorCheck(name, threaded(partial(look, *given, **named)), seconds)

    return [
        check(services.NAME, services.check_service, service),
        check(files.STATE_NAME, files.check_state, settings.state_dir),
        check(files.NAME, _files, loaded, environment),
        check(services.PROGRAM_NAME, services.check_git),
        check(services.SANDBOX_NAME, services.check_sandbox, settings.state_dir, is_running=service is not None),
        DoctorCheck(
            services.REPOSITORY_NAME,
            partial(services.check_repositories, settings.repositories, state=settings.state_dir),
            ALL_REPOSITORIES_SECONDS,
        ),
        *(check(name, look, is_full=is_full, seconds=deep) for name, look in _databases(settings)),
        check(files.DISK_NAME, _disks, settings),
        DoctorCheck(PROVIDER, partial(_provider, settings)),
        check(files.QUEUE_NAME, _queues, settings),
    ]


def _databases(settings: Settings) -> list[tuple[str, Callable[..., Sequence[DoctorFinding]]]]:
    if settings.store.is_postgresql:
        look = partial(postgresql.check_postgresql, settings.store.url, settings.store.worker_url)
        return [(postgresql.NAME, look)]
    places = databases.database_places(settings)
    return [(kind.file, partial(files.check_database, places.of(kind), kind)) for kind in KINDS]


def _files(loaded: Loaded, environment: Mapping[str, str]) -> list[DoctorFinding]:
    secret = loaded.settings.auth.oidc.oauth2_client_secret.get_secret_value()
    in_file = bool(secret) and not environment.get(CLIENT_SECRET)
    named = files.named_files(loaded.settings)
    if in_file and loaded.config is not None:
        named.append(NamedFile("auth.oidc.oauth2ClientSecret", loaded.config, is_secret=True))
    return [*files.check_named_files(named), *files.check_secrets_folder(loaded.settings.secrets.directory)]


def _disks(settings: Settings) -> list[DoctorFinding]:
    folders, reserve = databases.kept_in(settings), settings.delivery.free_bytes
    return [finding for folder in folders for finding in files.check_disk(folder, reserve=reserve)]


def _queues(settings: Settings) -> list[DoctorFinding]:
    damaged = files.check_quarantine(settings.state_dir)
    if settings.store.is_postgresql:
        return damaged
    return [*damaged, *files.check_lost_batches(databases.database_places(settings).operations)]


async def _provider(settings: Settings) -> Sequence[DoctorFinding]:
    """Check the provider, if people sign in through one."""
    if settings.auth.type != "oidc":
        return []
    from reconciler.server import sign_in  # noqa: PLC0415 - some megabytes that most services never need

    provider = sign_in.build_provider(settings)
    try:
        await provider.check()
    finally:
        await provider.close()
    return [ops_doctor.ok(PROVIDER, f"{settings.auth.oidc.issuer} can be used")]


CODES = {FindingStatus.OK: exits.OK, FindingStatus.WARNING: exits.WARNINGS, FindingStatus.ERROR: exits.ERROR}
WIDTH = max(map(len, FindingStatus))


@click.command()
@config_option
@state_option
@click.option("--full", is_flag=True, help="Check the whole store, for up to an hour.")
@click.option("-o", "--output", "form", type=click.Choice(("text", "json")), default="text", help="How to show it.")
def doctor(config: Path | None, state_dir: str | None, *, full: bool, form: str) -> int:
    """Check the service on this machine, whether it runs or not. Nothing is changed.

    The exit code is that of the worst finding.
    """
    found = _found(config, state_dir, is_full=full)
    if form == "json":
        findings: list[Value] = [
            {"check": one.check, "status": str(one.status), "message": one.sentence} for one in found
        ]
        output.write(output.as_json({"findings": findings}))
    else:
        for one in found:
            output.line(f"{one.status:{WIDTH}}  {one.check}: {one.sentence}")
    return CODES[ops_doctor.worst(found)]


def _found(config: Path | None, state_dir: str | None, *, is_full: bool) -> Sequence[DoctorFinding]:
    overrides: dict[str, Value] = {"stateDir": state_dir}
    environment: Mapping[str, str] = os.environ
    try:
        loaded = loading.load(config=config, environment=environment, overrides=overrides)
        told = [ops_doctor.warning(SETTINGS, warning.rstrip("."), "") for warning in loaded.warnings]
        if not told:
            where = f"{loaded.config}" if loaded.config else "without a file, by defaults and the environment"
            told = [ops_doctor.ok(SETTINGS, f"{where}: no mistake")]
    except SettingsError as problem:
        # A shell seldom has the client's secret, which is in the environment of the service. No check sends it, so any
        # value will do.
        environment = {**environment, CLIENT_SECRET: "unknown"}
        try:
            loaded = loading.load(config=config, environment=environment, overrides=overrides)
        except SettingsError:
            mistakes = [ops_doctor.error(SETTINGS, line, "") for line in problem.lines]
            rest = "nothing else was checked, because all other checks need the settings"
            return [
                *mistakes,
                *services.check_git(),
                ops_doctor.warning(SETTINGS, rest, "correct them, and run the doctor again"),
            ]
        told = [ops_doctor.warning(SETTINGS, line, HAS_IT) for line in problem.lines]
    checks = doctor_checks(loaded, environment=environment, is_full=is_full)
    return [*told, *asyncio.run(ops_doctor.run_checks(checks))]
