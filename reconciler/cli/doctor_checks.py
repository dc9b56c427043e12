"""Which checks `reconciler doctor` makes of a service with these settings, in the order in which they are shown.

Belongs here: what of the settings each check gets. Does not: what it looks at (`reconciler.upkeep.checks`).
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from reconciler import clock
from reconciler.daemon import certificates as listeners
from reconciler.daemon import following
from reconciler.settings.loading import Loaded, SettingsError
from reconciler.settings.models import Settings
from reconciler.upkeep import databases, findings, holders
from reconciler.upkeep.checks import (
    audits,
    certificates,
    clocks,
    disks,
    kept,
    limits,
    listening,
    programs,
    repositories,
    secret_files,
    state,
    stores,
)
from reconciler.upkeep.databases import KINDS, Kind, Places
from reconciler.upkeep.doctor import Check, threaded
from reconciler.upkeep.findings import Finding

SETTINGS = "settings"
PROVIDER = "provider"
PROGRAM = Path(__file__).parent  # installed before anything else was written
CLIENT_SECRET = "SERVICE_OIDC_OAUTH2_CLIENT_SECRET"  # noqa: S105 - the name of a variable
ALL_REPOSITORIES_SECONDS = 300.0
ENDING_SECONDS = 15.0  # for what has a limit of its own to say that it is over
HAS_IT = "where the service has it in its own environment, all is well; the other checks need none"


def of_settings(loaded: Loaded) -> list[Finding]:
    """What is odd about the settings."""
    warned = [findings.warning(SETTINGS, told.rstrip("."), "") for told in loaded.warnings]
    where = "without a file, by defaults and the environment" if loaded.config is None else f"{loaded.config}"
    return warned or [findings.ok(SETTINGS, f"{where}: no mistake")]


def without_settings(problem: SettingsError) -> list[Finding]:
    """What is found where the settings are wrong: their mistakes, and what needs no settings."""
    mistakes = [findings.error(SETTINGS, line, "") for line in problem.lines]
    told = "nothing else was looked at, since the settings say what there is"
    return [*mistakes, *_programs(()), findings.warning(SETTINGS, told, "mend them, and look again")]


def with_a_secret(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with a client's secret, whichever: the service's own is in its environment, seldom in a shell's,
    and no check sends it.
    """
    return {**environment, CLIENT_SECRET: "unknown"}


def without_the_secret(problem: SettingsError) -> list[Finding]:
    """What is found where nothing else is wrong with the settings."""
    return [findings.warning(SETTINGS, line, HAS_IT) for line in problem.lines]


def checks(loaded: Loaded, *, environment: Mapping[str, str], now: datetime, is_full: bool) -> list[Check]:
    """All of them."""
    settings = loaded.settings
    places = databases.places(settings)
    process = holders.holder(settings.state_dir)
    return [
        Check(listening.NAME, threaded(partial(_listening, settings, process))),
        Check(state.NAME, threaded(lambda: state.judge(state.gather(settings.state_dir)))),
        Check(secret_files.NAME, threaded(partial(_files, loaded, environment))),
        Check(programs.NAME, threaded(partial(_programs, programs.needed(settings)))),
        Check(repositories.NAME, partial(_repositories, settings), ALL_REPOSITORIES_SECONDS),
        *(_database(kind, places, is_full=is_full) for kind in KINDS),
        _audit(places, is_full=is_full),
        Check(disks.NAME, threaded(partial(_disks, settings, places))),
        Check(clocks.NAME, threaded(lambda: clocks.judge(clocks.gather(now, [settings.state_dir, PROGRAM])))),
        Check(certificates.NAME, threaded(partial(_certificates, settings, now))),
        Check(PROVIDER, partial(_provider, settings)),
        Check(limits.NAME, threaded(lambda: limits.judge(limits.gather(process)))),
        Check(kept.NAME, threaded(lambda: kept.judge(kept.gather([places.of(kind) for kind in KINDS])))),
    ]


def _listening(settings: Settings, process: int | None) -> list[Finding]:
    asked = [("listen", settings.listen)]
    if settings.delivery.otlp_listen is not None:
        asked.append(("delivery.otlpListen", settings.delivery.otlp_listen))
    facts = [listening.gather(setting, address, process=process) for setting, address in asked]
    return [finding for each in facts for finding in listening.judge(each)]


def _files(loaded: Loaded, environment: Mapping[str, str]) -> list[Finding]:
    facts = [secret_files.gather(each) for each in secret_files.named(loaded.settings)]
    secret = loaded.settings.auth.oidc.oauth2_client_secret.get_secret_value()
    in_file = bool(secret) and not environment.get(CLIENT_SECRET)
    found = [*secret_files.judge(facts), *secret_files.folder(loaded.settings.secrets.directory)]
    return [*found, *secret_files.config(loaded.config, has_secret=in_file)]


def _programs(needed: tuple[str, ...]) -> list[Finding]:
    return programs.judge(programs.gather(needed))


async def _repositories(settings: Settings) -> Sequence[Finding]:
    asked = [repositories.Named(one.name, one.source, one.suspended) for one in following.watched(settings)]
    return repositories.judge(await repositories.gather(asked, state=settings.state_dir))


def _database(kind: Kind, places: Places, *, is_full: bool) -> Check:
    seconds = (stores.FULL_SECONDS if is_full else stores.QUICK_SECONDS) + ENDING_SECONDS
    look = threaded(lambda: stores.judge(stores.gather(places.of(kind), kind, is_full=is_full)))
    return Check(kind.file, look, seconds)


def _audit(places: Places, *, is_full: bool) -> Check:
    seconds = (audits.FULL_SECONDS if is_full else audits.QUICK_SECONDS) + ENDING_SECONDS
    return Check(audits.NAME, threaded(lambda: audits.judge(audits.gather(places.store, is_full=is_full))), seconds)


def _disks(settings: Settings, places: Places) -> list[Finding]:
    store = places.store.stat().st_size if places.store.exists() else 0
    sizes = {settings.state_dir: 0, places.store.parent: store}  # often the same folder
    reserve = settings.delivery.free_bytes
    return [
        finding
        for folder, size in sizes.items()
        for finding in disks.judge(disks.gather(folder), reserve=reserve, store_bytes=size)
    ]


def _certificates(settings: Settings, now: datetime) -> list[Finding]:
    trusted = [certificates.trusted(setting, path) for setting, path in _authorities(settings)]
    found = certificates.judge_trusted(trusted, now=now)
    configured = listeners.configured(settings)
    if configured is None:
        return found
    shown = certificates.shown(configured.chain, partial(listeners.read, configured))
    return [*certificates.judge_shown(shown, now=now), *found]


def _authorities(settings: Settings) -> Iterator[tuple[str, Path]]:
    if settings.outbound.ca_file is not None:
        yield "outbound.caFile", settings.outbound.ca_file
    for number, repository in enumerate(settings.repositories):
        if repository.credentials.ca_file is not None:
            yield f"repositories[{number}].credentials.caFile", repository.credentials.ca_file


async def _provider(settings: Settings) -> Sequence[Finding]:
    """Where people sign in through one."""
    if settings.auth.type != "oidc":
        return []
    from reconciler.daemon import signing_in  # noqa: PLC0415 - some megabytes that most services never need

    provider = signing_in.provider(settings, clock=clock.now, monotonic=time.monotonic)
    try:
        await provider.check()
    finally:
        await provider.close()
    return [findings.ok(PROVIDER, f"{settings.auth.oidc.issuer} can be used")]
