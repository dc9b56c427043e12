"""A watch on repositories."""

import asyncio
import contextlib
import itertools
import os
import shutil
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import watchfiles

from reconciler.git.remotes import watching
from reconciler.git.remotes.watching import WatchEnded, Watcher
from tests.repositories import Repository

pytestmark = pytest.mark.anyio
QUIET_SECONDS = 0.4  # several ticks


class Listener:
    """A watch that has stood and told its first event."""

    def __init__(self, path: Path, watcher: Watcher | None = None) -> None:
        self.stop = asyncio.Event()
        self.events = (watcher or Watcher()).events(path, stop=self.stop)

    async def event(self, seconds: float = 10) -> None:
        async with asyncio.timeout(seconds):
            await anext(self.events)

    async def all_events(self) -> None:
        """Take events until there are no more."""
        async with asyncio.timeout(10):
            async for _ in self.events:
                pass

    async def comes(self) -> bool:
        """Return True if another event comes within several ticks; none can come later."""
        task = asyncio.ensure_future(anext(self.events))
        done, _ = await asyncio.wait([task], timeout=QUIET_SECONDS)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return bool(done)

    async def quiet(self) -> None:
        """Let all events of what was done pass, then see that no more come."""
        assert not await self.comes()


@contextlib.asynccontextmanager
async def watched(path: Path, watcher: Watcher | None = None) -> AsyncIterator[Listener]:
    listener = Listener(path, watcher)
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
    def losing(*_: object, stop_event: Watcher, **__: object) -> Iterator[set[tuple[str, str]]]:
        """Yield what watchfiles yields if it loses every change while it empties its list."""
        while not stop_event.is_set():
            time.sleep(watching.TICK_MILLISECONDS / 1000)
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
        more = 0
        while await listener.comes():
            more += 1
        assert more <= 50  # of 200; a slow machine is told in more pieces


async def test_ends_soon_after_it_is_stopped(repository: Repository) -> None:
    async with watched(repository.path) as listener:
        waiting = asyncio.ensure_future(anext(listener.events, "ended"))
        await asyncio.sleep(0)
        listener.stop.set()
        async with asyncio.timeout(10):
            assert await waiting == "ended"
    await no_thread_left()


async def test_leaves_no_thread_when_it_is_abandoned(repository: Repository) -> None:
    async with watched(repository.path):
        pass
    await no_thread_left()


async def test_ends_when_it_was_stopped_before(repository: Repository) -> None:
    stop = asyncio.Event()
    stop.set()
    assert [event async for event in Watcher().events(repository.path, stop=stop)] == []


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
    await no_thread_left()


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


@pytest.mark.parametrize("name", [".git", "HEAD", "commondir"])
async def test_waits_for_no_pipe(repository: Repository, name: str) -> None:
    """The one thread would hang, and with it the end of the program."""
    git = repository.path / ".git"
    if name == ".git":
        git.rename(git.with_name("away"))
    place = git if name == ".git" else git / name
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    with pytest.raises(WatchEnded, match=r"cannot be watched \(its .* is not a file"):
        await Listener(repository.path).event()
    await no_thread_left()


@pytest.mark.parametrize("name", ["refs/heads/elsewhere", "refs/elsewhere"])
async def test_watches_nothing_that_a_link_among_the_refs_leads_to(
    repository: Repository, tmp_path: Path, name: str
) -> None:
    watcher = Watcher()
    other = Repository.init(tmp_path / "other")
    (repository.path / ".git" / name).symlink_to("/")
    async with watched(other.path, watcher) as listener:
        with pytest.raises(WatchEnded, match="there is a link among its refs"):
            await Listener(repository.path, watcher).event()
        other.commit()
        await listener.event()


async def test_many_repositories_have_one_thread_and_each_hears_of_its_own(
    repository: Repository, tmp_path: Path
) -> None:
    await no_thread_left()  # of another test
    watcher = Watcher()
    others = [Repository.init(tmp_path / f"other{number}") for number in range(3)]
    async with contextlib.AsyncExitStack() as stack:
        listeners = [await stack.enter_async_context(watched(one.path, watcher)) for one in (repository, *others)]
        assert [thread.name for thread in threading.enumerate()].count(watching.THREAD_NAME) == 1
        others[-1].commit()
        await listeners[-1].event()
        await asyncio.gather(*(listener.quiet() for listener in listeners[:-1]))
    await no_thread_left()


async def test_more_repositories_than_are_looked_at_in_one_tick(tmp_path: Path, repository: Repository) -> None:
    """A packed ref is a thing that the kernel does not tell of."""
    watcher = Watcher()
    repository.branch("next")
    repository.git("pack-refs", "--all")
    paths = []
    for number in range(2 * watching.REPOSITORIES_A_TICK):
        paths.append(tmp_path / f"copy{number}")
        shutil.copytree(repository.path / ".git", paths[-1])
    async with contextlib.AsyncExitStack() as stack:
        listeners = [Listener(path, watcher) for path in paths]
        for listener in listeners:
            await stack.enter_async_context(contextlib.aclosing(listener.events))
        await asyncio.gather(*(listener.event(seconds=5) for listener in listeners))
        Repository(paths[-1]).delete_branch("next")
        await listeners[-1].event()


async def test_two_paths_of_one_repository_are_both_told(repository: Repository, tmp_path: Path) -> None:
    watcher = Watcher()
    (tmp_path / "link").symlink_to(repository.path)
    async with watched(repository.path, watcher) as first, watched(tmp_path / "link", watcher) as second:
        repository.branch("feature/deep/one")
        await asyncio.gather(first.event(), second.event())
    linked = repository.worktree(tmp_path / "linked", "next")
    async with watched(repository.path, watcher) as first, watched(linked.path, watcher) as second:
        repository.branch("feature/deep/two")
        await asyncio.gather(first.event(), second.event())


async def test_misses_nothing_while_others_come_and_go(repository: Repository, tmp_path: Path) -> None:
    """Each that comes makes a new watch of the kernel's; what changes meanwhile is told by the old or the new one."""
    watcher = Watcher()
    other = Repository.init(tmp_path / "other")
    repository.branch("feature/deep/one")  # of which no file outside `refs` tells

    async def come_and_go() -> None:
        for _ in range(10):
            async with watched(other.path, watcher):
                pass

    async with watched(repository.path, watcher) as listener:
        others = asyncio.create_task(come_and_go())
        numbers = itertools.count()
        while not others.done():
            await asyncio.to_thread(repository.branch, f"feature/deep/n{next(numbers)}")
            await listener.event()
        await others
    await no_thread_left()


async def test_one_that_vanishes_or_is_none_leaves_the_others_alone(repository: Repository, tmp_path: Path) -> None:
    watcher = Watcher()
    other = Repository.init(tmp_path / "other")
    async with watched(repository.path, watcher) as listener, watched(other.path, watcher) as lost:
        shutil.rmtree(other.path)
        with pytest.raises(WatchEnded):
            await lost.all_events()
        with pytest.raises(WatchEnded):
            await Listener(tmp_path / "nothing", watcher).event()
        repository.commit()
        await listener.event()


async def test_when_the_system_refuses_the_others_go_on(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = Watcher()
    other = Repository.init(tmp_path / "other")

    def refusing(*_: object, **__: object) -> Iterator[set[tuple[str, str]]]:
        raise OSError(28, "No space left on device")

    async with watched(repository.path, watcher) as listener:
        with monkeypatch.context() as patched:
            patched.setattr(watchfiles, "watch", refusing)
            with pytest.raises(WatchEnded, match="No space left on device"):
                await Listener(other.path, watcher).event()
        repository.commit()
        await listener.event()
        async with watched(other.path, watcher) as another:
            other.commit()
            await another.event()


async def test_a_fault_of_the_program_ends_every_watch_and_not_the_next_ones(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    watcher = Watcher()
    other = Repository.init(tmp_path / "other")

    def faulty(*_: object, **__: object) -> Iterator[set[tuple[str, str]]]:
        yield set()
        raise KeyError("nobody foresaw it")

    with monkeypatch.context() as patched:
        patched.setattr(watchfiles, "watch", faulty)
        listeners = [Listener(place.path, watcher) for place in (repository, other)]
        ends = await asyncio.gather(*(listener.all_events() for listener in listeners), return_exceptions=True)
    assert [(type(end), "nobody foresaw it" in str(end)) for end in ends] == 2 * [(WatchEnded, True)]
    assert {record.levelname for record in caplog.records} == {"ERROR"}
    async with watched(repository.path, watcher) as listener:
        repository.commit()
        await listener.event()
    await no_thread_left()


async def no_thread_left() -> None:
    async with asyncio.timeout(10):
        while any(thread.name == watching.THREAD_NAME for thread in threading.enumerate()):  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(0.01)
