"""Which checks `reconciler doctor` makes of a service with these settings, in the order in which they are shown.

Belongs here: what of the settings each check gets. Does not: what it looks at (`reconciler.upkeep.checks`).
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from reconciler.daemon import certificates as listeners
from reconciler.daemon import following
from reconciler.model import clock
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
from reconciler.upkeep.databases import KINDS, DatabaseKind, DatabasePlaces
from reconciler.upkeep.doctor import DoctorCheck, threaded
from reconciler.upkeep.findings import DoctorFinding

SETTINGS = "settings"
PROVIDER = "provider"
PROGRAM = Path(__file__).parent  # installed before anything else was written
CLIENT_SECRET = "SERVICE_OIDC_OAUTH2_CLIENT_SECRET"  # noqa: S105 - the name of a variable
ALL_REPOSITORIES_SECONDS = 300.0
ENDING_SECONDS = 15.0  # for what has a limit of its own to say that it is over
HAS_IT = "where the service has it in its own environment, all is well; the other checks need none"


def of_settings(loaded: Loaded) -> list[DoctorFinding]:
    """What is odd about the settings."""
    warned = [findings.warning(SETTINGS, told.rstrip("."), "") for told in loaded.warnings]
    where = "without a file, by defaults and the environment" if loaded.config is None else f"{loaded.config}"
    return warned or [findings.ok(SETTINGS, f"{where}: no mistake")]


def without_settings(problem: SettingsError) -> list[DoctorFinding]:
    """What is found where the settings are wrong: their mistakes, and what needs no settings."""
    mistakes = [findings.error(SETTINGS, line, "") for line in problem.lines]
    told = "nothing else was looked at, since the settings say what there is"
    return [*mistakes, *_programs(()), findings.warning(SETTINGS, told, "mend them, and look again")]


def with_a_secret(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with a client's secret, whichever: the service's own is in its environment, seldom in a shell's,
    and no check sends it.
    """
    return {**environment, CLIENT_SECRET: "unknown"}


def without_the_secret(problem: SettingsError) -> list[DoctorFinding]:
    """What is found where nothing else is wrong with the settings."""
    return [findings.warning(SETTINGS, line, HAS_IT) for line in problem.lines]


def doctor_checks(loaded: Loaded, *, environment: Mapping[str, str], now: datetime, is_full: bool) -> list[DoctorCheck]:
    """All of them."""
    settings = loaded.settings
    places = databases.database_places(settings)
    process = holders.directory_holder(settings.state_dir)
    return [
        DoctorCheck(listening.NAME, threaded(partial(_listening, settings, process))),
        DoctorCheck(state.NAME, threaded(lambda: state.judge_state(state.gather_state(settings.state_dir)))),
        DoctorCheck(secret_files.NAME, threaded(partial(_files, loaded, environment))),
        DoctorCheck(programs.NAME, threaded(partial(_programs, programs.needed_programs(settings)))),
        DoctorCheck(repositories.NAME, partial(_repositories, settings), ALL_REPOSITORIES_SECONDS),
        *(_database(kind, places, is_full=is_full) for kind in KINDS),
        _audit(places, is_full=is_full),
        DoctorCheck(disks.NAME, threaded(partial(_disks, settings, places))),
        DoctorCheck(
            clocks.NAME, threaded(lambda: clocks.judge_clocks(clocks.gather_clocks(now, [settings.state_dir, PROGRAM])))
        ),
        DoctorCheck(certificates.NAME, threaded(partial(_certificates, settings, now))),
        DoctorCheck(PROVIDER, partial(_provider, settings)),
        DoctorCheck(limits.NAME, threaded(lambda: limits.judge_limits(limits.gather_limits(process)))),
        DoctorCheck(
            kept.NAME,
            threaded(lambda: kept.judge_kept_copies(kept.gather_kept_copies([places.of(kind) for kind in KINDS]))),
        ),
    ]


def _listening(settings: Settings, process: int | None) -> list[DoctorFinding]:
    asked = [("listen", settings.listen)]
    if settings.delivery.otlp_listen is not None:
        asked.append(("delivery.otlpListen", settings.delivery.otlp_listen))
    facts = [listening.gather_listening(setting, address, process=process) for setting, address in asked]
    return [finding for each in facts for finding in listening.judge_listening(each)]


def _files(loaded: Loaded, environment: Mapping[str, str]) -> list[DoctorFinding]:
    facts = [secret_files.gather_secret_files(each) for each in secret_files.named_files(loaded.settings)]
    secret = loaded.settings.auth.oidc.oauth2_client_secret.get_secret_value()
    in_file = bool(secret) and not environment.get(CLIENT_SECRET)
    found = [*secret_files.judge_secret_files(facts), *secret_files.secrets_folder(loaded.settings.secrets.directory)]
    return [*found, *secret_files.settings_file(loaded.config, has_secret=in_file)]


def _programs(needed: tuple[str, ...]) -> list[DoctorFinding]:
    return programs.judge_programs(programs.gather_programs(needed))


async def _repositories(settings: Settings) -> Sequence[DoctorFinding]:
    asked = [
        repositories.NamedRepository(one.name, one.source, one.suspended)
        for one in following.watched_repositories(settings)
    ]
    return repositories.judge_repositories(await repositories.gather_repositories(asked, state=settings.state_dir))


def _database(kind: DatabaseKind, places: DatabasePlaces, *, is_full: bool) -> DoctorCheck:
    seconds = (stores.FULL_SECONDS if is_full else stores.QUICK_SECONDS) + ENDING_SECONDS
    look = threaded(lambda: stores.judge_stores(stores.gather_stores(places.of(kind), kind, is_full=is_full)))
    return DoctorCheck(kind.file, look, seconds)


def _audit(places: DatabasePlaces, *, is_full: bool) -> DoctorCheck:
    seconds = (audits.FULL_SECONDS if is_full else audits.QUICK_SECONDS) + ENDING_SECONDS
    return DoctorCheck(
        audits.NAME, threaded(lambda: audits.judge_audits(audits.gather_audits(places.store, is_full=is_full))), seconds
    )


def _disks(settings: Settings, places: DatabasePlaces) -> list[DoctorFinding]:
    store = places.store.stat().st_size if places.store.exists() else 0
    sizes = {settings.state_dir: 0, places.store.parent: store}  # often the same folder
    reserve = settings.delivery.free_bytes
    return [
        finding
        for folder, size in sizes.items()
        for finding in disks.judge_disks(disks.gather_disks(folder), reserve=reserve, store_bytes=size)
    ]


def _certificates(settings: Settings, now: datetime) -> list[DoctorFinding]:
    trusted = [certificates.trusted_files(setting, path) for setting, path in _authorities(settings)]
    found = certificates.judge_trusted(trusted, now=now)
    configured = listeners.configured_certificate(settings)
    if configured is None:
        return found
    shown = certificates.shown_certificate(configured.chain, partial(listeners.read_certificate, configured))
    return [*certificates.judge_shown(shown, now=now), *found]


def _authorities(settings: Settings) -> Iterator[tuple[str, Path]]:
    if settings.outbound.ca_file is not None:
        yield "outbound.caFile", settings.outbound.ca_file
    for number, repository in enumerate(settings.repositories):
        if repository.credentials.ca_file is not None:
            yield f"repositories[{number}].credentials.caFile", repository.credentials.ca_file


async def _provider(settings: Settings) -> Sequence[DoctorFinding]:
    """Where people sign in through one."""
    if settings.auth.type != "oidc":
        return []
    from reconciler.daemon import signing_in  # noqa: PLC0415 - some megabytes that most services never need

    provider = signing_in.build_provider(settings, clock=clock.now, monotonic=time.monotonic)
    try:
        await provider.check()
    finally:
        await provider.close()
    return [findings.ok(PROVIDER, f"{settings.auth.oidc.issuer} can be used")]
