"""Whether each repository can be reached and has what is followed: one look, by the service's own code and limits.

Nothing is fetched, and mirrors of the service are not touched: the look has a folder of its own, which goes with it.
It is where a program may be run, since git asks for a password by one: `/tmp` of a container seldom is.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from reconciler.git.refs import RefHead
from reconciler.git.remotes.following import Remotes
from reconciler.git.remotes.shared import RemotePlace
from reconciler.git.remotes.sources import Source
from reconciler.model.errors import ReconcilerError
from reconciler.upkeep.findings import DoctorFinding, error, ok

NAME = "repositories"
SECONDS = 30.0  # for one, however long `timeout` lets a git go on
SHOWN = 12  # characters of a commit


class NamedRepository(NamedTuple):
    """A repository of the settings; of a suspended one nothing is asked."""

    name: str
    source: Source
    is_suspended: bool


class RepositoryFacts(NamedTuple):
    """One of them: where it is, or what is wrong with it."""

    named: NamedRepository
    head: RefHead | None
    fault: str


async def gather_repositories(repositories: Sequence[NamedRepository], *, state: Path) -> list[RepositoryFacts]:
    """Look at all of them at once. `state` is the state directory, where no repository may lead."""
    above = state if _runs_no_programs(tempfile.gettempdir()) and _is_ours(state) else None
    with tempfile.TemporaryDirectory(prefix=".reconciler-doctor-", dir=above, ignore_cleanup_errors=True) as folder:

        def place(_: Source) -> RemotePlace:
            number = len(list(Path(folder).iterdir()))
            home = Path(folder, str(number))
            home.mkdir()
            return RemotePlace(home / "mirror.git", home / "git", state)

        remotes = Remotes(place, clock=time.monotonic)
        try:
            return list(await asyncio.gather(*(_one(each, remotes) for each in repositories)))
        finally:
            await remotes.close()


def judge_repositories(facts: Sequence[RepositoryFacts]) -> list[DoctorFinding]:
    """What is wrong with them."""
    return [_of_one(each) for each in facts] or [ok(NAME, "the settings name none, so nothing is watched")]


def _of_one(facts: RepositoryFacts) -> DoctorFinding:
    name = facts.named.name
    if facts.named.is_suspended:
        return ok(NAME, f"{name} is suspended in the settings, and nobody looked")
    if facts.head is None:
        return error(NAME, f"{name}: {facts.fault.rstrip('.')}", "")
    return ok(NAME, f"{name}: {facts.head.ref or 'HEAD'} is at {facts.head.commit[:SHOWN]}")


def _runs_no_programs(folder: str) -> bool:
    return bool(os.statvfs(folder).f_flag & os.ST_NOEXEC)


def _is_ours(folder: Path) -> bool:
    return folder.is_dir() and folder.stat().st_uid == os.geteuid()


async def _one(named: NamedRepository, remotes: Remotes) -> RepositoryFacts:
    if named.is_suspended:
        return RepositoryFacts(named, None, "")
    try:
        async with asyncio.timeout(SECONDS):
            return RepositoryFacts(named, await remotes.follow(named.source).look(insists=True), "")
    except ReconcilerError as fault:
        return RepositoryFacts(named, None, fault.message)
    except TimeoutError:
        return RepositoryFacts(
            named, None, f"no answer within {SECONDS:g} seconds; look at the network, or at the server"
        )
