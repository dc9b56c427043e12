"""`reconciler doctor`: what is wrong with the service on this machine, and what to do about it.

Belongs here: asking, showing, the exit code. Does not: which checks there are (`doctor_checks`), what they look at
(`reconciler.upkeep.checks`).
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from reconciler.cli import doctor_checks, exits, output, tables
from reconciler.cli.sessions import Session
from reconciler.model import clock
from reconciler.model.values import Value
from reconciler.ops import doctor as examination
from reconciler.ops.doctor import DoctorFinding, FindingStatus
from reconciler.settings import loading
from reconciler.settings.loading import SettingsError

CODES = {FindingStatus.OK: exits.OK, FindingStatus.WARNING: exits.WARNINGS, FindingStatus.ERROR: exits.ERROR}
WIDTH = max(map(len, FindingStatus))


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="The service's settings file.")
@click.option("--state-dir", "state_dir", help="The service's `stateDir`; overrides the settings.")
@click.option("--full", is_flag=True, help="Look through the store whole, however long that takes.")
@click.option("-o", "--output", "form", type=click.Choice(("text", "json")), default="text", help="How to show it.")
@click.pass_context
def doctor(context: click.Context, config: Path | None, state_dir: str | None, *, full: bool, form: str) -> int:
    """Look for what is wrong with the service on this machine, whether it runs or not.

    It changes nothing. The exit code is that of the worst finding.
    """
    found = _found(config, state_dir, is_full=full)
    if form == "json":
        output.write(output.as_json({"findings": [_value(one) for one in found]}))
    else:
        colour = isinstance(context.obj, Session) and context.obj.coloured
        output.write("".join(f"{_line(one, colour=colour)}\n" for one in found))
    return CODES[examination.worst(found)]


def _found(config: Path | None, state_dir: str | None, *, is_full: bool) -> Sequence[DoctorFinding]:
    overrides: dict[str, object] = {"stateDir": state_dir}
    environment: Mapping[str, str] = os.environ
    try:
        loaded = loading.load(config=config, environment=environment, overrides=overrides)
        told = doctor_checks.of_settings(loaded)
    except SettingsError as problem:
        environment = doctor_checks.with_a_secret(environment)
        try:
            loaded = loading.load(config=config, environment=environment, overrides=overrides)
        except SettingsError:
            return doctor_checks.without_settings(problem)
        told = doctor_checks.without_the_secret(problem)
    checks = doctor_checks.doctor_checks(loaded, environment=environment, now=clock.now(), is_full=is_full)
    return [*told, *asyncio.run(examination.run_checks(checks))]


def _line(finding: DoctorFinding, *, colour: bool) -> str:
    status = tables.word(finding.status) if colour else str(finding.status)
    return f"{status}{' ' * (WIDTH - len(finding.status))}  {finding.check}: {finding.sentence}"


def _value(finding: DoctorFinding) -> Value:
    return {"check": finding.check, "status": str(finding.status), "message": finding.sentence}
