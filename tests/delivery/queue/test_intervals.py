"""`sync: interval`: everything accepted is synchronised soon, whatever else happens to its file, or doubted aloud."""

import errno
from pathlib import Path

import pytest

from reconciler.delivery.queue import appender
from reconciler.delivery.queue.contract import QueueFault
from reconciler.model.routes import Sync
from tests.delivery.queue import places
from tests.delivery.queue.places import Wanted, WatchedSystem, fail, fill, payloads
from tests.delivery.queue.test_faults import DOUBTFUL
from tests.waiting import until

pytestmark = pytest.mark.anyio

WANTED = Wanted().with_storage(sync=Sync.INTERVAL, max_bytes=1 << 20)  # segments of 64 KiB
FIRST, SECOND, THIRD = (f"{number:016x}.seg" for number in (1, 2, 3))


class Calls:
    """Takes note of calls on segments, and fails those that are told to."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.failing: dict[str, int] = {}

    def __call__(self, call: str, path: Path) -> None:
        if path.suffix == ".seg" and call not in ("open", "close"):
            if call in self.failing:
                fail(self.failing[call])
            self.seen.append((call, path.name))

    def of(self, name: str) -> list[str]:
        return [call for call, one in self.seen if one == name]


@pytest.fixture
def calls() -> Calls:
    return Calls()


async def test_a_file_is_synchronised_soon_and_when_it_ends(tmp_path: Path, calls: Calls) -> None:
    async with places.opened(tmp_path, WANTED, system=WatchedSystem(calls)) as queue:
        await fill(queue, bytes(70_000), b"next")
        await until(lambda: calls.of(FIRST) == ["create", "write", "synchronise"])
        await until(lambda: calls.of(SECOND) == ["create", "write", "synchronise"])


async def test_a_file_whose_successor_cannot_be_made_is_synchronised_all_the_same(tmp_path: Path, calls: Calls) -> None:
    async with places.opened(tmp_path, WANTED, system=WatchedSystem(calls)) as queue:
        await fill(queue, bytes(70_000))
        calls.failing["create"] = errno.ENOSPC
        with pytest.raises(QueueFault):
            await fill(queue, b"refused")
        await until(lambda: calls.of(FIRST) == ["create", "write", "synchronise"])


@pytest.mark.parametrize("failing", ["write", "synchronise"])
async def test_what_was_accepted_before_a_failure_is_synchronised_or_doubted_aloud_and_another_file_is_begun(
    failing: str, tmp_path: Path, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    async with places.opened(tmp_path, WANTED, system=WatchedSystem(calls)) as queue:
        await fill(queue, b"accepted")
        calls.failing[failing] = errno.EIO
        if failing == "write":
            with pytest.raises(QueueFault):
                await fill(queue, b"refused")
        await until(lambda: queue.depth().refused)
        calls.failing.clear()
        await fill(queue, b"after")
        assert not queue.depth().refused
        await until(lambda: calls.seen[-1] in {("synchronise", SECOND), ("synchronise", THIRD)})
        assert await payloads(queue) == [b"accepted", b"after"]
    assert caplog.messages == [
        f"The disk does not take what is written to the queue in {queue.folder} (Input/output error); until it does, "
        "that is refused.",
        *([DOUBTFUL.format(queue.folder)] if failing == "synchronise" else []),
        f"The disk takes what is written to the queue in {queue.folder} again.",
    ]


async def test_a_stream_of_appends_does_not_put_the_sync_off(
    tmp_path: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appender, "INTERVAL_SECONDS", 0.05)
    async with places.opened(tmp_path, WANTED, system=WatchedSystem(calls)) as queue:
        while "synchronise" not in calls.of(FIRST):
            await fill(queue, b"more")


async def test_what_cannot_be_synchronised_at_the_end_is_told(
    tmp_path: Path, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    async with places.opened(tmp_path, WANTED, system=WatchedSystem(calls)) as queue:
        await fill(queue, b"accepted")
        calls.failing["synchronise"] = errno.EIO
    assert caplog.messages == [DOUBTFUL.format(queue.folder)]


async def test_without_sync_the_disk_is_never_waited_for(tmp_path: Path, calls: Calls) -> None:
    async with places.opened(tmp_path, Wanted().with_storage(sync=Sync.NONE), system=WatchedSystem(calls)) as queue:
        calls.failing["synchronise"] = errno.EIO
        await fill(queue, b"one", b"two")
        assert await payloads(queue) == [b"one", b"two"]
    assert calls.of(FIRST) == ["create", "write", "write"]
