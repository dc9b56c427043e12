"""Looks: who shares which, and who is left alone."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import HEAD, RefHead
from reconciler.git.remotes.following import AT_ONCE, OF_ONE_HOST, Remotes
from reconciler.git.remotes.sources import Source
from tests.git.remotes.followings import branch, brought, fault, place, source, started, tag, until
from tests.git.remotes.shims import Shim
from tests.repositories import Repository
from tests.servers import https

pytestmark = pytest.mark.anyio


async def test_all_who_look_at_once_share_one_look(remotes: Remotes, origin: Repository, shim: Shim) -> None:
    for name in ("a", "b"):
        origin.branch(name)
        origin.commit()
    followed = [HEAD, branch("a"), branch("b"), branch("main"), HEAD, branch("a")]
    heads = await asyncio.gather(*(remotes.follow(source(origin, follows)).poll() for follows in followed))
    assert [head.commit for head in heads] == [origin.head(each.full.removeprefix("refs/heads/")) for each in followed]
    assert shim.counts() == (1, 0)


async def test_who_looks_during_a_look_shares_the_next(
    remotes: Remotes, origin: Repository, shim: Shim, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    shim.act_on("ls-remote", f"echo > {gate}")  # waits until somebody reads
    first = asyncio.create_task(remotes.follow(source(origin)).poll())
    await started(shim, looks=1)
    before, after = origin.head(), origin.commit()
    later = [asyncio.create_task(remotes.follow(source(origin)).poll()) for _ in range(5)]
    shim.act("")
    gate.read_text()
    assert (await first).commit in {before, after}
    assert {head.commit for head in await asyncio.gather(*later)} == {after}
    assert shim.counts() == (2, 0)


async def test_a_poll_takes_a_recent_look_of_another_repository_once(
    origin: Repository, shim: Shim, tmp_path: Path
) -> None:
    now = 100.0
    remotes = Remotes(lambda source: place(tmp_path / "state", source), clock=lambda: now)
    one, two = remotes.follow(source(origin)), remotes.follow(source(origin))
    await one.poll(patience=6)
    now += 5
    newer = origin.commit()
    assert (await two.poll(patience=6)).commit != newer
    assert shim.counts() == (1, 0)
    assert (await two.poll(patience=6)).commit == newer  # it was told of the first look already
    assert (await one.poll(patience=6)).commit == newer
    assert shim.counts() == (2, 0)
    newest = origin.commit()
    now += 1
    assert (await one.poll()).commit == newest  # an event, a start and a person want to know of now
    now += 7
    await two.poll(patience=6)
    assert shim.counts() == (4, 0)
    await remotes.close()


async def test_a_fault_of_a_shared_look_reaches_all_and_passes(
    remotes: Remotes, origin: Repository, shim: Shim
) -> None:
    configuration = origin.path / ".git/config"
    before = configuration.read_text()
    configuration.write_text("[core]\nrepositoryFormatVersion = 7\n")
    followed = [remotes.follow(source(origin, follows)) for follows in (HEAD, branch("main"))]
    told = await asyncio.gather(*(fault(one, origin.path) for one in followed))
    why = (
        "uses a repository format or extension that the installed git does not know, reftable for instance; upgrade git"
    )
    assert told == [(RepositoryState.UNSUPPORTED_FORMAT, f"URL {why}")] * 2
    assert shim.counts() == (1, 0)
    configuration.write_text(before)
    assert {(await brought(one)).commit for one in followed} == {origin.head()}


async def test_what_one_lacks_is_nobody_elses_fault(remotes: Remotes, origin: Repository) -> None:
    there, gone = remotes.follow(source(origin)), remotes.follow(source(origin, tag("v1")))
    found = await asyncio.gather(there.poll(), gone.poll(), return_exceptions=True)
    assert found[0] == RefHead("refs/heads/main", origin.head())
    assert isinstance(found[1], GitFault)
    assert (found[1].state, found[1].message) == (
        RepositoryState.BRANCH_MISSING,
        f"{origin.path} has no tag v1; name another with `tag`",
    )


async def test_who_leaves_ends_git_and_the_next_polls_anew(
    remotes: Remotes, origin: Repository, shim: Shim, tmp_path: Path
) -> None:
    held = tmp_path / "pid"
    shim.act_on("ls-remote", f"echo $$ > {held}; exec sleep 60")
    looks = [asyncio.create_task(remotes.follow(source(origin)).poll()) for _ in range(2)]
    await started(shim, looks=1)
    await until(lambda: held.exists() and held.read_text().strip() != "")
    shim.act("")
    looks[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await looks[0]
    with pytest.raises(ProcessLookupError):
        os.kill(int(held.read_text()), 0)
    assert (await looks[1]).commit == origin.head()


async def test_a_remote_that_wants_to_be_left_alone_is_asked_by_people_alone(served: Path, tmp_path: Path) -> None:
    now = 100.0
    remotes = Remotes(lambda source: place(tmp_path / "state", source), clock=lambda: now)
    waits = []
    with https.serving(served) as server:
        server.refusal = https.too_many(seconds=30)
        for follows, insists, seconds in (
            (HEAD, False, 10),
            (branch("main"), False, 5),
            (HEAD, True, 31),
            (HEAD, False, 0),
        ):
            following = remotes.follow(Source(url=server.url(), follows=follows))
            with pytest.raises(GitFault, match="answers with HTTP 429") as found:
                await following.poll(insists=insists, patience=0 if insists else 1000)
            waits.append(found.value.retry_after)
            now += seconds
        assert (waits, len(server.requests)) == ([30, 20, 30, 30], 3)
    await remotes.close()


async def test_who_waits_while_a_remote_asks_to_be_left_alone_leaves_it_alone(
    remotes: Remotes, served: Path, shim: Shim, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    shim.act(f'case "$*" in *ls-remote*) echo > {gate};; esac')  # waits until somebody reads
    with https.serving(served) as server:
        server.refusal = https.too_many(seconds=30)
        followed = [remotes.follow(Source(url=server.url(), follows=follows)) for follows in (HEAD, branch("main"))]
        first = asyncio.create_task(followed[0].poll())
        await started(shim, looks=1)
        later = [asyncio.create_task(one.poll()) for one in followed]
        await asyncio.sleep(0)
        shim.act("")
        gate.read_text()
        told = await asyncio.gather(first, *later, return_exceptions=True)
        assert [isinstance(one, GitFault) and (one.retry_after or 0) > 25 for one in told] == [True] * 3
        assert (shim.counts(), len(server.requests)) == ((1, 0), 1)


async def test_a_remote_that_wants_no_fetch_now_is_left_alone_too(served: Path, tmp_path: Path) -> None:
    now = 100.0
    remotes = Remotes(lambda source: place(tmp_path / "state", source), clock=lambda: now)
    with https.serving(served) as server:
        one, two = (remotes.follow(Source(url=server.url(), follows=follows)) for follows in (HEAD, branch("main")))
        heads = [await following.poll() for following in (one, two)]
        server.refusal = https.too_many(seconds=30)
        with pytest.raises(GitFault) as first:
            await one.fetch(heads[0])
        server.refusal = None
        asked = len(server.requests)
        now += 10
        waits = []
        for call in (two.fetch(heads[1]), two.poll(), one.fetch(heads[0])):
            with pytest.raises(GitFault) as found:
                await call
            waits.append(found.value.retry_after)
        assert (first.value.retry_after, waits, len(server.requests)) == (30, [20, 20, 20], asked)
        assert await two.fetch(heads[1], insists=True) == heads[1]
    await remotes.close()


async def test_one_slow_remote_delays_no_other(
    remotes: Remotes, origin: Repository, shim: Shim, tmp_path: Path
) -> None:
    slow = Repository.init(tmp_path / "turtle")
    slow.commit()
    shim.act_on("ls-remote", "exec sleep 60", about="turtle")
    # More than there are slots: all but two of them wait for a slot that they do not take.
    stuck = [asyncio.create_task(remotes.follow(source(slow, branch(f"b{number}"))).poll()) for number in range(200)]
    await started(shim, looks=1)
    for _ in range(3):
        assert (await remotes.follow(source(origin)).poll()).commit == origin.head()
    assert shim.counts() == (4, 0)
    for task in stuck:
        task.cancel()
    await asyncio.gather(*stuck, return_exceptions=True)


# A host that does not answer


async def test_a_dead_host_delays_no_other_and_no_person(remotes: Remotes, served: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=128) as silent, https.serving(served) as server:
        silent.settimeout(30)
        urls = [f"git://127.0.0.1:{silent.getsockname()[1]}/r{number}.git" for number in range(AT_ONCE + 10)]
        stuck = [asyncio.create_task(remotes.follow(Source(url=url)).poll()) for url in urls]
        asked = [(await asyncio.to_thread(silent.accept))[0] for _ in range(OF_ONE_HOST)]
        async with asyncio.timeout(30):
            assert (await remotes.follow(Source(url=server.url())).poll()).ref == "refs/heads/main"
        person = asyncio.create_task(remotes.follow(Source(url=urls[-1])).poll(insists=True))
        asked.append((await asyncio.to_thread(silent.accept))[0])
        said = b""
        while b".git" not in said:  # git writes its request in pieces
            said += await asyncio.to_thread(asked[-1].recv, 100)
        assert f"/r{AT_ONCE + 9}.git".encode() in said
        silent.setblocking(False)
        with pytest.raises(BlockingIOError):
            silent.accept()
        for task in (*stuck, person):
            task.cancel()
        await asyncio.gather(*stuck, person, return_exceptions=True)
        for connection in asked:
            connection.close()


# A good answer after one that asked to wait


async def test_once_a_remote_answered_a_person_it_is_no_more_left_alone(served: Path, tmp_path: Path) -> None:
    now = 100.0
    remotes = Remotes(lambda source: place(tmp_path / "state", source), clock=lambda: now)
    with https.serving(served) as server:
        server.refusal = https.too_many(seconds=40)
        one, two = (remotes.follow(Source(url=server.url(), follows=follows)) for follows in (HEAD, branch("main")))
        with pytest.raises(GitFault, match="answers with HTTP 429"):
            await one.poll()
        server.refusal = None
        now += 1
        with pytest.raises(GitFault, match="answers with HTTP 429"):
            await two.poll()
        head = await one.poll(insists=True)
        now += 1
        assert await one.poll() == head
        assert (await two.poll()).commit == head.commit
    await remotes.close()


# What is not there


async def test_that_a_name_is_missing_takes_one_call(remotes: Remotes, origin: Repository, shim: Shim) -> None:
    told = await fault(remotes.follow(source(origin, branch("gone"))), origin.path)
    assert told == (RepositoryState.BRANCH_MISSING, "URL has no branch gone; name another with `branch`")
    assert shim.counts() == (1, 0)
