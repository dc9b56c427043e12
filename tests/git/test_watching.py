"""A watch on a repository."""

import asyncio
import contextlib
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import watchfiles

from reconciler.git import watching
from reconciler.git.watching import WatchEnded
from tests.repositories import Repository

pytestmark = pytest.mark.anyio
QUIET_SECONDS = 0.4  # several ticks


class Listener:
    """A watch that has stood and told its first event."""

    def __init__(self, path: Path) -> None:
        self.stop = asyncio.Event()
        self.events = watching.events(path, stop=self.stop)

    async def event(self, seconds: float = 2) -> None:
        async with asyncio.timeout(seconds):
            await anext(self.events)

    async def all_events(self) -> None:
        """Take events until there are no more."""
        async with asyncio.timeout(2):
            async for _ in self.events:
                pass

    async def quiet(self) -> None:
        """Let all events of what was done pass, then see that no more come."""
        task = asyncio.ensure_future(anext(self.events))
        done, _ = await asyncio.wait([task], timeout=QUIET_SECONDS)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert not done


@contextlib.asynccontextmanager
async def watched(path: Path) -> AsyncIterator[Listener]:
    listener = Listener(path)
    await listener.event()
    yield listener
    await listener.events.aclose()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository.init(tmp_path / "origin")
    repository.commit()
    return repository


async def test_tells_of_a_commit(repository: Repository) -> None:
    async with watched(repository.path) as listener:
        repository.commit()
        await listener.event()


async def test_tells_of_a_commit_whose_event_was_lost(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    def losing(*_: object, stop_event: watching.Watch, **__: object) -> Iterator[set[tuple[str, str]]]:
        """What watchfiles tells when every change falls between its last look and its emptying of the list."""
        while not stop_event.stopping.wait(watching.TICK_MILLISECONDS / 1000):
            yield set()

    monkeypatch.setattr(watchfiles, "watch", losing)
    async with watched(repository.path) as listener:
        repository.commit()
        await listener.event()


async def test_tells_of_the_first_commit(tmp_path: Path) -> None:
    repository = Repository.init(tmp_path / "empty")
    async with watched(repository.path) as listener:
        repository.commit()
        await listener.event()


async def test_tells_of_a_commit_on_a_branch_in_a_new_folder(repository: Repository) -> None:
    async with watched(repository.path) as listener:
        repository.branch("feature/deep/one")
        await listener.event()
    async with watched(repository.path) as listener:
        repository.git(
            "update-ref", "refs/heads/feature/deep/one", repository.git("commit-tree", "-m", "x", "HEAD^{tree}")
        )
        await listener.event()


async def test_tells_that_refs_were_packed(repository: Repository) -> None:
    async with watched(repository.path) as listener:
        repository.git("pack-refs", "--all")
        await listener.event()
    async with watched(repository.path) as listener:
        repository.commit()
        await listener.event()


async def test_tells_of_a_change_in_packed_refs_alone(repository: Repository) -> None:
    repository.branch("next")
    repository.git("pack-refs", "--all")
    async with watched(repository.path) as listener:
        repository.delete_branch("next")
        await listener.event()


async def test_tells_that_head_names_another_branch(repository: Repository) -> None:
    repository.branch("next")
    async with watched(repository.path) as listener:
        repository.git("symbolic-ref", "HEAD", "refs/heads/next")
        await listener.event()


async def test_tells_of_a_rewind(repository: Repository) -> None:
    first = repository.head()
    repository.commit()
    async with watched(repository.path) as listener:
        repository.rewind(first)
        await listener.event()


async def test_tells_of_a_push_to_a_bare_repository(repository: Repository, tmp_path: Path) -> None:
    bare = repository.bare(tmp_path / "bare.git")
    async with watched(bare.path) as listener:
        repository.commit()
        repository.push()
        await listener.event()


async def test_tells_of_a_commit_in_a_linked_worktree(repository: Repository, tmp_path: Path) -> None:
    linked = repository.worktree(tmp_path / "linked", "next")
    async with watched(linked.path) as listener:
        linked.commit()
        await listener.event()
    repository.branch("other")
    async with watched(linked.path) as listener:
        linked.git("symbolic-ref", "HEAD", "refs/heads/other")
        await listener.event()


async def test_is_silent_about_everything_else(repository: Repository) -> None:
    async with watched(repository.path) as listener:
        repository.write("a.yaml", "not committed")
        repository.git("add", "--all")
        repository.blob(b"x" * 1000)
        repository.git("config", "user.name", "somebody")
        await listener.quiet()


async def test_tells_of_many_changes_as_few_events(repository: Repository) -> None:
    async with watched(repository.path) as listener:
        commit = repository.head()
        updates = "".join(f"create refs/heads/b{number} {commit}\n" for number in range(200))
        repository.git("update-ref", "--stdin", data=updates.encode())
        await listener.event()
        await asyncio.sleep(QUIET_SECONDS)  # whatever else comes is one event
        with contextlib.suppress(TimeoutError):
            await listener.event(0.01)
    async with watched(repository.path) as listener:
        await listener.quiet()


async def test_ends_soon_after_it_is_stopped(repository: Repository) -> None:
    async with watched(repository.path) as listener:
        waiting = asyncio.ensure_future(anext(listener.events, "ended"))
        await asyncio.sleep(0)
        listener.stop.set()
        async with asyncio.timeout(1):
            assert await waiting == "ended"
    await no_thread_left(repository.path)


async def test_leaves_no_thread_when_it_is_abandoned(repository: Repository) -> None:
    async with watched(repository.path):
        pass
    await no_thread_left(repository.path)


async def test_ends_when_it_was_stopped_before(repository: Repository) -> None:
    stop = asyncio.Event()
    stop.set()
    assert [event async for event in watching.events(repository.path, stop=stop)] == []


@pytest.mark.parametrize("loss", ["removed", "moved", "replaced", "refs"])
async def test_says_that_the_repository_vanished(repository: Repository, tmp_path: Path, loss: str) -> None:
    async with watched(repository.path) as listener:
        match loss:
            case "removed":
                shutil.rmtree(repository.path)
            case "moved":
                repository.path.rename(tmp_path / "elsewhere")
            case "replaced":
                repository.path.rename(tmp_path / "elsewhere")
                Repository.init(repository.path)
            case _:
                shutil.rmtree(repository.path / ".git/refs")
        with pytest.raises(WatchEnded) as ended:
            await listener.all_events()
    assert ended.value.message.startswith(f"{repository.path} cannot be watched (")
    assert ended.value.message.endswith("); it is polled instead")
    await no_thread_left(repository.path)


@pytest.mark.parametrize("kind", ["nothing", "folder", "file", "gitfile to nowhere"])
async def test_says_that_there_is_no_repository(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    match kind:
        case "folder":
            place.mkdir()
        case "file":
            place.write_text("text")
        case "gitfile to nowhere":
            place.mkdir()
            (place / ".git").write_text("gitdir: /nonexistent\n")
        case _:
            pass
    with pytest.raises(WatchEnded, match="cannot be watched"):
        await Listener(place).event()


async def no_thread_left(path: Path) -> None:
    async with asyncio.timeout(2):
        while any(thread.name == f"watch {path}" for thread in threading.enumerate()):  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(0.01)
