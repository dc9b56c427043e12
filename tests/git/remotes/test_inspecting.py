"""A look at a repository's files before git has it."""

import asyncio
import threading
from pathlib import Path

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.remotes import local_repositories
from reconciler.git.remotes.local_repositories import Inspector
from tests.repositories import Repository
from tests.waiting import until

pytestmark = pytest.mark.anyio
LONG = 10.0  # seconds


async def told(inspector: Inspector, *, seconds: float = LONG) -> tuple[RepositoryState, str, bool]:
    with pytest.raises(GitFault) as found:
        await inspector.inspect(["HEAD"], seconds=seconds)
    return found.value.state, found.value.message, found.value.lasting


async def test_tells_what_is_wrong_with_it_and_when_that_is_mended(origin: Repository, tmp_path: Path) -> None:
    inspector = Inspector("URL", origin.path, state=tmp_path / "state")
    (tmp_path / "state").mkdir()
    packed = origin.path / ".git/packed-refs"
    packed.symlink_to(tmp_path / "state")
    why = "its packed-refs leads into `stateDir`; let its owner mend that, or correct `url`"
    assert await told(inspector) == (RepositoryState.UNREACHABLE, f"URL is not read, since {why}", True)
    packed.unlink()
    await inspector.inspect(["HEAD"], seconds=LONG)
    (origin.path / ".git/HEAD").write_text("nonsense")
    none = "URL is not a Git repository; make one there, or correct `url`"
    assert await told(inspector) == (RepositoryState.UNREACHABLE, none, True)
    origin.path.rename(tmp_path / "away")
    gone = "URL does not exist; put it there, or correct `url`"
    assert await told(inspector) == (RepositoryState.UNREACHABLE, gone, False)


async def test_a_disk_that_hangs_holds_few_threads_until_it_answers(
    origin: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, judged, before = threading.Event(), local_repositories.check_repository, threading.active_count()

    def hanging(url: str, folder: Path, refs: tuple[str, ...], *, state: Path | None) -> None:
        answers.wait(LONG)
        judged(url, folder, refs, state=state)

    monkeypatch.setattr(local_repositories, "check_repository", hanging)
    inspector = Inspector("URL", origin.path, state=tmp_path / "state")
    slow = "URL did not answer within 0.01 seconds; look whether its disk hangs, or raise `timeout`"
    ends = await asyncio.gather(*(told(inspector, seconds=0.01) for _ in range(5)))
    assert ends == [(RepositoryState.UNREACHABLE, slow, False)] * 5
    assert threading.active_count() <= before + 2
    answers.set()
    await until(lambda: threading.active_count() == before)
    await inspector.inspect(["HEAD"], seconds=LONG)
