"""Followed refs for tests of remotes, and calls on them.

following = remotes.follow(source(origin, branch("main")))
files(following, await brought(following))
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import HEAD, Followed, RefHead, RefKind
from reconciler.git.remotes.following import Following
from reconciler.git.remotes.remote import RemotePlace
from reconciler.git.remotes.sources import Source
from reconciler.git.snapshots import Snapshot
from tests.git.remotes.shims import Shim
from tests.repositories import Repository


def place(folder: Path, source: Source) -> RemotePlace:
    """Return the folders of a remote in these tests."""
    name = f"{Path(source.url).name}{'-' + source.credentials.username if source.credentials.username else ''}"
    return RemotePlace(folder / f"mirrors/{name}.git", folder / "git" / name, folder)


def branch(name: str) -> Followed:
    return Followed(RefKind.BRANCH, name)


def tag(name: str) -> Followed:
    return Followed(RefKind.TAG, name)


def commit(name: str) -> Followed:
    return Followed(RefKind.COMMIT, name)


def source(repository: Repository, follows: Followed = HEAD, *, max_objects: int = 1000) -> Source:
    return Source(url=str(repository.path), follows=follows, timeout=30, max_objects=max_objects)


async def brought(following: Following) -> RefHead:
    return await following.fetch(await following.poll())


async def fault(following: Following, url: Path) -> tuple[RepositoryState, str]:
    """The fault that a look and a fetch end in."""
    with pytest.raises(GitFault) as found:
        await brought(following)
    return found.value.state, found.value.message.replace(str(url), "URL")


def files(following: Following, head: RefHead) -> list[str]:
    with Snapshot.open(following.path, head.commit) as snapshot:
        return [file.path for file in snapshot.files("")]


def private_refs(following: Following) -> dict[str, str]:
    lines = Repository(following.path).git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(line.split(" ") for line in lines)


async def started(shim: Shim, *, looks: int) -> None:
    """Return when so many looks have begun."""
    await until(lambda: shim.count("ls-remote") == looks)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - another process makes it so
            await asyncio.sleep(0.01)
