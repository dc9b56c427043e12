"""The repositories of the settings, and the folders of their mirrors under `stateDir`.

A mirror that no repository in the settings uses any more is removed at the start: all of it can be fetched again.
`git.remotes` removes mirrors while the service runs.
"""

import asyncio
import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from reconciler.git.remotes import mirrors
from reconciler.git.remotes.credentials import Credentials
from reconciler.git.remotes.remote import RemotePlace
from reconciler.git.remotes.sources import Source, source_of
from reconciler.settings.models import Settings

MIRRORS = "mirrors"
HOMES = "git"
# Only our own names match: `<name>-<12 hex>.git`, `.git.proposals-<number>` beside it, and `.….new` or `.….old` of
# either while it is made again.
MIRROR = re.compile(r"\.?[^/]+-[0-9a-f]{12}\.git(\.proposals-[0-9]+)?(\.new|\.old)?")
HOME = re.compile(r"[^/]+-[0-9a-f]{12}")
UNREADABLE = re.compile(r"[^A-Za-z0-9]+")
NAME_CHARACTERS = 40  # of a remote's own name, in that of its folders


def remote_place(url: str, credentials: Credentials) -> str:
    """Return the name of a remote's folders: the last part of its URL, and a digest of everything that identifies
    it.
    """
    last = url.rstrip("/").rpartition("/")[2].removesuffix(".git")
    name = UNREADABLE.sub("-", last).strip("-")[:NAME_CHARACTERS] or "repository"
    given = {field: str(value) for field, value in dataclasses.asdict(credentials).items() if value}
    told = json.dumps([url, given], sort_keys=True)
    return f"{name}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"


def retire_leftovers(state_directory: Path, *, kept: Iterable[str]) -> list[Path]:
    """Rename mirrors that belong to no place in `kept`, those of proposals, and every home. Return the renamed folders,
    which are unused.

    A home is for one process: its files are written when git runs, and a killed process leaves them behind. Proposals
    are fetched again when a plan needs them. Renames are quick, and after them a repository that is added again cannot
    meet its own removal. Call it before any repository is followed.
    """
    places = frozenset(kept)
    aside: list[Path] = []
    unused: list[Path] = []
    for path in [*_entries(state_directory / MIRRORS), *_entries(state_directory / HOMES)]:
        ours = MIRROR if path.parent.name == MIRRORS else HOME
        is_kept = path.parent.name == MIRRORS and _place_of(path.name) in places
        if mirrors.GONE.fullmatch(path.name):
            aside.append(path)  # the previous process ended before it removed this
        elif ours.fullmatch(path.name) and not is_kept:
            unused.append(path)
    return [*aside, *mirrors.retire_folder(unused)]


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _place_of(name: str) -> str:
    return re.sub(r"\.git(\.new|\.old)?$", "", name.removeprefix("."))


def remote_places(settings: Settings) -> Callable[[Source], RemotePlace]:
    """Return a function that gives the folders of a remote. Another URL, or other credentials, make another remote."""
    mirrors, homes = settings.state_dir / MIRRORS, settings.state_dir / HOMES

    def place(source: Source) -> RemotePlace:
        name = remote_place(source.url, source.credentials)
        return RemotePlace(mirrors / f"{name}.git", homes / name, settings.state_dir)

    return place


async def remove_leftovers(settings: Settings) -> None:
    """Remove the folders of remotes that no repository in the settings has. Call it under the lock, before any remote
    is followed.
    """
    kept = [remote_place(one.url, source_of(one).credentials) for one in settings.repositories]
    mirrors.remove_retired(await asyncio.to_thread(retire_leftovers, settings.state_dir, kept=kept))
