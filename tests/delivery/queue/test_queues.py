"""Which queue is in which folder: opening, finding, removing, limits."""

import json
import shutil
import stat
from pathlib import Path

import pytest

from reconciler.delivery.queue import folders
from reconciler.delivery.queue.contract import QueueFault, Shortage
from reconciler.model import errors
from reconciler.model.routes import Storage, Sync
from tests.delivery.queue import places
from tests.delivery.queue.places import FINAL_FAILURE, Wanted, claimed, fill

pytestmark = pytest.mark.anyio


def below(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_a_destination_finds_its_queue_again_whatever_its_name_is(tmp_path: Path) -> None:
    names = ["siem", "../../etc/passwd", "Gerät:1", "a/b", ".", "x" * 5000]
    queues = places.make(tmp_path / "queues")
    await queues.start()
    for name in names:
        await fill(await places.open_queue(queues, Wanted(name=name)), name.encode())
    await queues.close()
    queues = places.make(tmp_path / "queues")
    await queues.start()
    for name in names:
        queue = await places.open_queue(queues, Wanted(name=name))
        assert await places.payloads(queue) == [name.encode()]
        assert queue.folder.parent == tmp_path / "queues" / "here"
    assert sorted((one.project, one.name, one.directory) for one in (await queues.found())[0]) == sorted(
        ("shop", name, "here") for name in names
    )
    await queues.close()
    assert below(tmp_path) == ["queues"]


async def test_what_is_made_is_for_its_owner_alone(tmp_path: Path) -> None:
    async with places.opened(tmp_path / "queues") as queue:
        await fill(queue, b"text", b"more")
        batch, _ = await claimed(queue)
        await queue.bury(batch, [b"text"], FINAL_FAILURE, records=1)
    modes = {
        str(path.relative_to(queue.folder)): stat.S_IMODE(path.stat().st_mode)
        for path in [tmp_path / "queues", *(tmp_path / "queues").rglob("*")]
        if path.is_relative_to(queue.folder)
    }
    assert modes == {
        ".": 0o700,
        "queue.json": 0o600,
        "0000000000000001.seg": 0o600,
        "0000000000000001.ack": 0o600,
        "dead": 0o700,
        "dead/0000000000000001.seg": 0o600,
    }
    above = [tmp_path / "queues", tmp_path / "queues/here"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in above] == [0o700, 0o700]


async def test_another_directory_is_another_queue(tmp_path: Path) -> None:
    queues = places.make(tmp_path)
    await queues.start()
    one = await places.open_queue(queues, Wanted())
    other = await places.open_queue(queues, Wanted(storage=Storage(directory="there")))
    await fill(one, b"x")
    assert (one.depth().batches, other.depth().batches) == (1, 0)
    assert [found.directory for found in (await queues.found())[0]] == ["here", "there"]
    with pytest.raises(QueueFault, match="is still being closed"):
        await places.open_queue(queues, Wanted())
    for directory in ("..", ".", "a/b", "", "/etc", "-x"):
        with pytest.raises(QueueFault, match="choose a plain name"):
            await places.open_queue(queues, Wanted(storage=Storage(directory=directory)))
    await queues.close()


async def test_a_queue_that_nobody_has_any_more_is_found_and_opened_without_limits(tmp_path: Path) -> None:
    async with places.opened(tmp_path) as queue:
        await fill(queue, b"left")
    queues = places.make(tmp_path)
    await queues.start()
    [found], _ = await queues.found()
    assert (found.project, found.name) == ("shop", "siem")
    queue = await queues.open_found(found, dead_bytes=places.PLENTY)
    assert (queue.room(size=1 << 20), await places.payloads(queue)) == (None, [b"left"])
    await queues.close()


async def test_an_empty_queue_is_removed_with_its_folder_and_another_one_is_not(tmp_path: Path) -> None:
    queues = places.make(tmp_path)
    await queues.start()
    full, empty = [await places.open_queue(queues, Wanted(name=name)) for name in ("full", "empty")]
    await fill(full, b"x")
    await fill(empty, b"x")
    empty.delivered(await claimed(empty))
    for queue in (full, empty):
        await queues.remove(queue)
    assert (full.folder.exists(), empty.folder.exists()) == (True, False)
    assert [one.name for one in (await queues.found())[0]] == ["full"]
    again = await places.open_queue(queues, Wanted(name="full"))
    assert await places.payloads(again) == [b"x"]
    await queues.close()


async def test_removing_keeps_damaged_files(tmp_path: Path) -> None:
    async with places.opened(tmp_path) as queue:
        await fill(queue, b"x" * 1000)
        [path] = queue.folder.glob("*.seg")
    path.write_bytes(path.read_bytes()[:500] + b"?" + path.read_bytes()[501:])
    queues = places.make(tmp_path)
    await queues.start()
    queue = await places.open_queue(queues)
    assert await places.payloads(queue) == [None]
    await queues.remove(queue)
    assert await queues.found() == ([], [])
    assert sorted(path.name for path in queue.folder.rglob("*")) == [path.name, "quarantine", "queue.gone.json"]
    fresh = await places.open_queue(queues)
    assert fresh.folder != queue.folder
    await queues.close()


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff" * 100, b'{"version": 2}', None])
async def test_a_folder_of_nobody_is_left_as_it_is(
    content: bytes | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with places.opened(tmp_path) as queue:
        await fill(queue, b"x")
    described = queue.folder / "queue.json"
    described.unlink()
    if content is not None:
        described.write_bytes(content)
    async with places.opened(tmp_path) as other:
        assert other.folder != queue.folder
        assert other.depth().batches == 0
    assert len([*queue.folder.glob("*.seg")]) == 1
    assert f"Whose the queue in {queue.folder} is cannot be read; it is left as it is." in caplog.messages


async def test_the_reserve_of_the_disk_is_kept(tmp_path: Path) -> None:
    async with places.opened(tmp_path, reserve=1 << 60) as queue:
        assert queue.room(size=1) == Shortage.DISK
        await fill(queue, b"who asks no one is taken")
    async with places.opened(tmp_path) as queue:
        assert queue.room(size=1) is None


async def test_changed_limits_and_sync_count_at_once(tmp_path: Path) -> None:
    async with places.opened(tmp_path, Wanted(max_batches=1).with_storage(max_bytes=5000)) as queue:
        await fill(queue, b"x" * 4000, records=1000)
        assert queue.room(size=1) == Shortage.BATCHES
        queue.configure(storage=Storage(max_bytes=5000, sync=Sync.NONE), max_batches=2)
        assert queue.room(size=2000) == Shortage.BYTES
        queue.configure(storage=Storage(max_bytes=50_000, sync=Sync.INTERVAL), max_batches=2)
        assert queue.room(size=2000) is None
        await fill(queue, b"y")
        assert await places.payloads(queue) == [b"x" * 4000, b"y"]


async def test_a_root_that_cannot_be_made_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    queues = places.make(tmp_path / "file" / "queues")
    with pytest.raises(errors.Refused) as refused:
        await queues.start()
    assert str(refused.value) == (
        f"The queues in {tmp_path}/file/queues cannot be used (Not a directory); mend the folder's permissions."
    )
    await queues.close()


async def test_queue_json_is_for_people_to_read(tmp_path: Path) -> None:
    async with places.opened(tmp_path) as queue:
        text = (queue.folder / "queue.json").read_text()
    assert text.startswith('{\n  "version": 1,\n  "project": "shop",\n  "destination": "siem",\n')
    assert 0 <= json.loads(text)["mark"] < 1 << 32


async def test_whose_folders_are_is_read_once_for_any_number_of_queues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"d{number}" for number in range(20)]
    queues = places.make(tmp_path)
    await queues.start()
    for name in names:
        await places.open_queue(queues, Wanted(name=name))
    await queues.close()
    read: list[Path] = []
    real = folders.read_identity

    def counting(folder: Path) -> folders.FoundIdentity | None:
        read.append(folder)
        return real(folder)

    monkeypatch.setattr(folders, "read_identity", counting)
    queues = places.make(tmp_path)
    await queues.start()
    for name in [*names, "another"]:
        await places.open_queue(queues, Wanted(name=name))
        assert len((await queues.found())[0]) >= len(names)
    await queues.close()
    assert len(read) == len({*read}) == len(names)


async def test_a_queue_that_cannot_be_read_for_now_is_no_missing_one_and_others_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    queues = places.make(tmp_path)
    await queues.start()
    other, queue = [await places.open_queue(queues, Wanted(name=name)) for name in ("other", "siem")]
    await fill(queue, b"kept")
    await fill(other, b"too")
    await queues.close()
    refused = places.refusing(monkeypatch)
    refused.add(queue.folder / folders.FILE)
    queues = places.make(tmp_path)
    await queues.start()
    told = (
        f"Whose the queue in {queue.folder} is cannot be read (Permission denied); look at its permissions, the disk, "
        "and the limit of open files."
    )
    assert caplog.messages == [f"Of what is in {tmp_path}, 1 folder cannot be read: {told}"]
    assert await places.payloads(await places.open_queue(queues, Wanted(name="other"))) == [b"too"]
    with pytest.raises(QueueFault) as problem:
        await places.open_queue(queues, Wanted())
    assert problem.value.message == f"{told} Until then the queue of siem is not opened."
    found, faults = await queues.found()
    assert ([one.name for one in found], [fault.message for fault in faults]) == (["other"], [told])
    await places.open_queue(queues, Wanted().with_storage(directory="there"))  # nobody can have made that
    refused.clear()
    found, faults = await queues.found()
    assert (sorted(one.name for one in found), faults) == (["other", "siem", "siem"], [])
    assert await places.payloads(await places.open_queue(queues, Wanted())) == [b"kept"]
    await queues.close()


async def test_the_queues_of_a_directory_that_nobody_may_list_are_no_missing_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with places.opened(tmp_path) as queue:
        await fill(queue, b"kept")
    refused = places.refusing(monkeypatch)
    refused.add(tmp_path / "here")
    queues = places.make(tmp_path)
    await queues.start()
    told = (
        f"Which queues are in {tmp_path}/here cannot be read (Permission denied); look at its permissions, the disk, "
        "and the limit of open files."
    )
    with pytest.raises(QueueFault) as problem:
        await places.open_queue(queues)
    assert problem.value.message == f"{told} Until then the queue of siem is not opened."
    found, faults = await queues.found()
    assert (found, [fault.message for fault in faults]) == ([], [told])
    refused.clear()
    assert await places.payloads(await places.open_queue(queues)) == [b"kept"]
    await queues.close()


async def test_a_root_that_cannot_be_listed_for_now_is_a_fault_and_nothing_is_made_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with places.opened(tmp_path) as queue:
        await fill(queue, b"kept")
    queues = places.make(tmp_path)
    await queues.start()
    await queues.remove(await places.open_queue(queues, Wanted(name="other")))
    refused = places.refusing(monkeypatch)
    refused.add(tmp_path)
    found, [fault] = await queues.found()
    assert ([one.name for one in found], fault.message) == (
        ["siem"],
        f"Which queues are in {tmp_path} cannot be read (Permission denied); look at its permissions, the disk, and "
        "the limit of open files.",
    )
    with pytest.raises(QueueFault):
        await places.open_queue(queues, Wanted(name="new"))
    refused.clear()
    assert await places.payloads(await places.open_queue(queues)) == [b"kept"]
    await queues.close()


async def test_what_a_crash_left_of_making_a_queue_is_none(tmp_path: Path) -> None:
    async with places.opened(tmp_path) as queue:
        await fill(queue, b"x")
    shutil.copytree(queue.folder, queue.folder.with_name(f".{queue.folder.name}.new"))
    async with places.opened(tmp_path) as again:
        assert (again.folder, await places.payloads(again)) == (queue.folder, [b"x"])


async def test_of_two_folders_for_the_same_destination_the_first_is_used_and_none_is_forgotten(tmp_path: Path) -> None:
    async with places.opened(tmp_path) as queue:
        await fill(queue, b"x")
    second = queue.folder.with_name("7" + queue.folder.name[1:])
    shutil.copytree(queue.folder, second)
    queues = places.make(tmp_path)
    await queues.start()
    assert [one.folder for one in (await queues.found())[0]] == [queue.folder, second]
    first = await places.open_queue(queues)
    assert first.folder == queue.folder
    first.delivered(await claimed(first))
    await queues.remove(first)
    assert [one.folder for one in (await queues.found())[0]] == [second]
    assert (await places.open_queue(queues)).folder == second
    await queues.close()
