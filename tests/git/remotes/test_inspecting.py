"""A look at a repository's files before git has it."""

import asyncio
import contextlib
import threading
from pathlib import Path

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import RefHead
from reconciler.git.remotes import remote
from reconciler.git.remotes.following import Following, Remotes
from reconciler.git.remotes.local_repositories import check_repository
from reconciler.git.remotes.sources import Source
from tests.git.remotes.followings import source
from tests.repositories import Repository

pytestmark = pytest.mark.anyio
LONG = 10.0  # seconds


async def told(following: Following, url: Path) -> tuple[RepositoryState, str, bool]:
    with pytest.raises(GitFault) as found:
        await following.poll()
    return found.value.state, found.value.message.replace(str(url), "URL"), found.value.lasting


async def test_tells_what_is_wrong_with_it_and_when_that_is_mended(
    remotes: Remotes, origin: Repository, tmp_path: Path
) -> None:
    following, url = remotes.follow(source(origin)), origin.path
    (tmp_path / "state").mkdir()
    alternates = origin.path / ".git/objects/info/alternates"
    alternates.write_text(f"{tmp_path}/state\n")
    why = "its objects are in `stateDir`; let its owner mend that, or correct `url`"
    assert await told(following, url) == (RepositoryState.UNREACHABLE, f"URL is not read, since {why}", True)
    alternates.unlink()
    assert (await following.poll()).commit == origin.head()
    (origin.path / ".git/HEAD").write_text("nonsense")
    none = "URL is not a Git repository; make one there, or correct `url`"
    assert await told(following, url) == (RepositoryState.UNREACHABLE, none, True)
    origin.path.rename(tmp_path / "away")
    gone = "URL does not exist; put it there, or correct `url`"
    assert await told(following, url) == (RepositoryState.UNREACHABLE, gone, False)


async def test_a_disk_that_hangs_holds_few_threads_until_it_answers(
    remotes: Remotes, origin: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    following = remotes.follow(Source(url=str(origin.path), timeout=2))
    await following.poll()  # so that the mirror is there
    answers, before = threading.Event(), threading.active_count()

    def hanging(url: str, folder: Path, *, state: Path) -> None:
        answers.wait(LONG)
        check_repository(url, folder, state=state)

    monkeypatch.setattr(remote, "check_repository", hanging)
    slow = "URL did not answer within 2 seconds; look whether its disk hangs, or raise `timeout`"
    for _ in range(3):
        assert await told(following, origin.path) == (RepositoryState.UNREACHABLE, slow, False)
    assert threading.active_count() <= before + 2
    answers.set()
    async with asyncio.timeout(LONG):
        while (head := await polled(following)) is None:  # noqa: ASYNC110 - a thread makes it so
            await asyncio.sleep(0.01)
    assert head.commit == origin.head()


async def polled(following: Following) -> RefHead | None:
    """Return the head, or None as long as the disk counts as one that hangs."""
    with contextlib.suppress(GitFault):
        return await following.poll()
    return None
