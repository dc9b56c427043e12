"""The repositories of the settings, as they are followed: what is watched, and where its files are under `stateDir`.

Belongs here: settings made plain. Does not: following anything (`reconciling`), or what a mirror is (`remotes`).
"""

import asyncio
from collections.abc import Callable

from reconciler.daemon import leftovers
from reconciler.git.remotes import mirrors
from reconciler.git.remotes.credentials import Credentials
from reconciler.git.remotes.shared import RemotePlace
from reconciler.git.remotes.sources import Source
from reconciler.reconcile.watched import WatchedRepository
from reconciler.settings.models import Settings
from reconciler.settings.repositories import Repository


def remote_places(settings: Settings) -> Callable[[Source], RemotePlace]:
    """Each remote gets a mirror named after it: another URL, and the same with other credentials, is another one."""
    mirrors, homes = settings.state_dir / leftovers.MIRRORS, settings.state_dir / leftovers.HOMES

    def place(source: Source) -> RemotePlace:
        name = leftovers.remote_place(source.url, source.credentials)
        return RemotePlace(mirrors / f"{name}.git", homes / name, settings.state_dir)

    return place


async def remove_leftovers(settings: Settings) -> None:
    """Of remotes that no repository in the settings has. Before any is followed, and while we hold the lock."""
    kept = [leftovers.remote_place(one.url, one.credentials) for one in watched_repositories(settings)]
    mirrors.remove_retired(await asyncio.to_thread(leftovers.retire_leftovers, settings.state_dir, kept=kept))


def watched_repositories(settings: Settings) -> list[WatchedRepository]:
    """The repositories to watch."""
    return [_one_watched(repository) for repository in settings.repositories]


def _one_watched(repository: Repository) -> WatchedRepository:
    return WatchedRepository(
        name=repository.name,
        url=repository.url,
        branch=repository.branch,
        path=repository.path,
        project=repository.project,
        interval=repository.interval,
        full_interval=repository.full_interval,
        timeout=repository.timeout,
        prune=repository.prune.enabled,
        prune_min_count=repository.prune.min_count,
        prune_max_percent=repository.prune.max_percent,
        atomic=repository.atomic,
        suspended=repository.suspend,
        allowed_kinds=repository.allow.kinds,
        allowed_names=repository.allow.names,
        accept_invalid=repository.accept_invalid,
        tag=repository.tag,
        commit=repository.commit,
        ref=repository.ref,
        include=repository.include,
        exclude=repository.exclude,
        credentials=Credentials(**dict(repository.credentials)),
        signers_file=repository.verify.signers_file,
        hook_secret_file=repository.hook.secret_file,
    )
