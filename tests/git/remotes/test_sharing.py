"""Remotes: what those share who follow something of the same one."""

import asyncio
import shutil
import threading
import time
from pathlib import Path

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import HEAD, RefHead
from reconciler.git.remotes import mirrors, verification
from reconciler.git.remotes.credentials import Credentials
from reconciler.git.remotes.following import Remotes
from reconciler.git.remotes.sources import Source
from tests.git.remotes.followings import branch, brought, commit, fault, files, place, private_refs, source, tag, until
from tests.git.remotes.shims import Shim
from tests.repositories import Repository
from tests.servers import https
from tests.signing import Signer, allow, sign_with

pytestmark = pytest.mark.anyio


# One mirror


async def test_the_same_url_and_credentials_are_one_mirror(remotes: Remotes, origin: Repository) -> None:
    bob, eve = (Credentials(username=name) for name in ("bob", "eve"))
    url = str(origin.path)
    followed = [
        remotes.follow(Source(url=url, credentials=credentials, follows=follows))
        for credentials in (bob, eve)
        for follows in (HEAD, branch("main"))
    ]
    heads = [await brought(one) for one in followed]
    assert {head.commit for head in heads} == {origin.head()}
    assert [one.path.name for one in followed] == ["origin-bob.git"] * 2 + ["origin-eve.git"] * 2
    assert private_refs(followed[0]) == dict.fromkeys((HEAD.private_ref, branch("main").private_ref), origin.head())


async def test_only_the_refs_in_use_are_kept(remotes: Remotes, origin: Repository, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        origin.branch(name)
    one, two, three = (source(origin, branch(name)) for name in "abc")
    for each in (one, two, three):
        await brought(remotes.follow(each))
    await remotes.keep([one, two])
    origin.switch("a")
    origin.commit()
    await brought(remotes.follow(one))
    assert private_refs(remotes.follow(one)).keys() == {one.follows.private_ref, two.follows.private_ref}
    later = Remotes(lambda source: place(tmp_path / "state", source), clock=time.monotonic)  # another process
    origin.commit()
    await brought(later.follow(two))
    await brought(later.follow(one))
    assert private_refs(later.follow(one)).keys() == {one.follows.private_ref, two.follows.private_ref}
    await later.keep([one])
    origin.commit()
    await brought(later.follow(one))
    assert private_refs(later.follow(one)).keys() == {one.follows.private_ref}
    await later.close()


# Shared fetches


async def test_all_who_fetch_the_same_at_once_share_one_fetch(remotes: Remotes, origin: Repository, shim: Shim) -> None:
    followed = [remotes.follow(source(origin)) for _ in range(3)]
    heads = await asyncio.gather(*(one.poll() for one in followed))
    assert await asyncio.gather(*(one.fetch(head) for one, head in zip(followed, heads, strict=True))) == heads
    assert shim.counts() == (1, 1)


async def test_what_the_mirror_holds_is_not_fetched(remotes: Remotes, origin: Repository, shim: Shim) -> None:
    one, two = remotes.follow(source(origin)), remotes.follow(source(origin))
    other = remotes.follow(source(origin, branch("main")))
    first = origin.head()
    await brought(one)
    assert shim.counts() == (1, 1)
    for following in (one, two, other, remotes.follow(source(origin, commit(first))), other):
        assert (await brought(following)).commit == first
    assert shim.count("fetch") == 3  # one for each ref
    origin.commit()
    heads = await asyncio.gather(*(brought(following) for following in (one, two)))
    assert {head.commit for head in heads} == {origin.head()}
    assert shim.count("fetch") == 4


async def test_a_restart_fetches_nothing_again(
    remotes: Remotes, origin: Repository, shim: Shim, tmp_path: Path
) -> None:
    origin.git("tag", "--annotate", "--message=One", "v1")
    wanted = [source(origin), source(origin, tag("v1")), source(origin, commit(origin.head()))]
    for each in wanted:
        await brought(remotes.follow(each))
    before = shim.count("fetch")
    later = Remotes(lambda source: place(tmp_path / "state", source), clock=time.monotonic)
    for each in wanted:
        assert (await brought(later.follow(each))).commit == origin.head()
    assert shim.count("fetch") == before
    await later.close()


async def test_one_that_cannot_be_fetched_keeps_no_other_from_it(remotes: Remotes, origin: Repository) -> None:
    origin.branch("next")
    origin.branch("fine")
    missing = remotes.follow(source(origin, commit("1" * 40)))
    gone, fine = remotes.follow(source(origin, branch("next"))), remotes.follow(source(origin, branch("fine")))
    heads = [await one.poll() for one in (missing, gone, fine)]
    origin.delete_branch("next")
    came = await asyncio.gather(
        *(one.fetch(head) for one, head in zip((missing, gone, fine), heads, strict=True)), return_exceptions=True
    )
    told = [str(one).replace(str(origin.path), "URL") if isinstance(one, GitFault) else one for one in came]
    assert told == [
        f"URL has no commit {'1' * 40}; name another with `commit`",
        "URL has no branch next; name another with `branch`",
        RefHead("refs/heads/fine", origin.head()),
    ]


async def test_a_damaged_mirror_is_made_anew_once_for_all(remotes: Remotes, origin: Repository, shim: Shim) -> None:
    followed = [remotes.follow(source(origin, follows)) for follows in (HEAD, branch("main"))]
    for one in followed:
        await brought(one)
    shutil.rmtree(followed[0].path / "objects")
    origin.commit()
    generations = [one.generation for one in followed]
    for one in followed:
        assert (await fault(one, origin.path))[0] is RepositoryState.MIRROR_CORRUPT
    begun = shim.count("init")
    rebuilds = (one.rebuild(generation) for one, generation in zip(followed, generations, strict=True))
    await asyncio.gather(*rebuilds)
    assert shim.count("init") == begun + 1
    for one in followed:
        assert files(one, await brought(one)) == ["a.yaml"]
    await followed[0].rebuild(generations[0])  # somebody who met the damage before
    assert shim.count("init") == begun + 1
    await followed[0].rebuild(followed[0].generation)  # the same head is fetched again
    for one in followed:
        assert files(one, await brought(one)) == ["a.yaml"]


async def test_a_rebuild_that_was_cancelled_is_ended_by_the_next_look(
    remotes: Remotes, origin: Repository, shim: Shim
) -> None:
    one = remotes.follow(source(origin))
    await brought(one)
    shutil.rmtree(one.path)
    shim.act('case "$*" in *init*) exec sleep 60;; esac')
    rebuild = asyncio.create_task(one.rebuild(one.generation))
    await until(lambda: shim.count("init") == 2)
    rebuild.cancel()
    await asyncio.gather(rebuild, return_exceptions=True)
    shim.act("")
    assert files(one, await brought(one)) == ["a.yaml"]


async def test_a_rebuild_that_is_cancelled_ends_no_sooner_than_what_it_removes(
    remotes: Remotes, origin: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = remotes.follow(source(origin))
    await brought(one)
    begun, may_end = threading.Event(), threading.Event()

    def remove(_: Path) -> None:
        begun.set()
        may_end.wait(30)

    monkeypatch.setattr(mirrors, "remove_files", remove)
    rebuild = asyncio.create_task(one.rebuild(one.generation))
    assert await asyncio.to_thread(begun.wait, 30)
    rebuild.cancel()
    done, _ = await asyncio.wait({rebuild}, timeout=0.1)
    monkeypatch.undo()
    may_end.set()
    assert done == set()
    await asyncio.wait({rebuild})
    assert rebuild.cancelled()
    assert files(one, await brought(one)) == ["a.yaml"]


@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize("is_newest", [True, False])
async def test_who_asks_for_the_newer_head_gets_it_whatever_else_is_asked_for(
    remotes: Remotes, origin: Repository, is_last: bool, is_newest: bool
) -> None:
    await brought(remotes.follow(source(origin, branch("main"))))  # so that the mirror holds the older one
    one, two, three = (remotes.follow(source(origin)) for _ in range(3))
    older = await one.poll()
    while (older.commit > origin.commit()) is not is_last:
        pass
    newer = newest = await two.poll()
    if not is_newest:
        origin.commit()
        newest = await three.poll()
    assert set(await asyncio.gather(one.fetch(older), two.fetch(newer))) == {newest}
    assert set(await asyncio.gather(one.fetch(newest), two.fetch(newest))) == {newest}


@pytest.mark.parametrize("name", ["aaa", "zzz"])
async def test_the_branch_that_head_names_now_is_fetched_though_another_was_asked_for(
    remotes: Remotes, origin: Repository, name: str
) -> None:
    one, two = remotes.follow(source(origin)), remotes.follow(source(origin))
    before = await one.poll()
    origin.branch(name)
    origin.switch(name)
    origin.commit()
    now = await two.poll()
    assert set(await asyncio.gather(one.fetch(before), two.fetch(now))) == {now}


# Checks of signatures


async def test_the_same_head_may_be_good_for_one_and_not_for_another(
    remotes: Remotes, origin: Repository, tmp_path: Path
) -> None:
    ada, eve = (Signer.make(tmp_path, name) for name in ("ada", "eve"))
    good, bad = (verification.read_signers(allow(tmp_path / f"of {signer.name}", signer)) for signer in (ada, eve))
    sign_with(origin, ada)
    origin.commit()
    followed = [remotes.follow(source(origin)) for _ in range(3)]
    head = await brought(followed[0])
    told = await asyncio.gather(
        *(one.verify(head, allowed) for one in followed for allowed in (good, bad)), return_exceptions=True
    )
    assert [getattr(one, "state", one) for one in told] == [None, RepositoryState.UNSIGNED] * 3


async def test_remotes_share_how_many_signatures_are_checked_at_once(
    origin: Repository, shim: Shim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.git.remotes.following.AT_ONCE", 1)
    remotes = Remotes(lambda source: place(tmp_path / "state", source), clock=time.monotonic)
    other = Repository.init(tmp_path / "other")
    other.commit()
    allowed = verification.read_signers(allow(tmp_path / "signers", Signer.make(tmp_path, "ada")))
    followed = [remotes.follow(source(one)) for one in (origin, other)]
    heads = [await brought(one) for one in followed]
    busy, met = tmp_path / "busy", tmp_path / "met"
    shim.act(f'case "$*" in *cat-file*) mkdir {busy} || touch {met}; sleep 0.2; rmdir {busy};; esac')
    checks = (one.verify(head, allowed) for one, head in zip(followed, heads, strict=True))
    told = await asyncio.gather(*checks, return_exceptions=True)
    assert [getattr(one, "state", one) for one in told] == [RepositoryState.UNSIGNED] * 2
    assert (shim.count("cat-file"), met.exists()) == (2, False)
    await remotes.close()


# The end


async def test_a_server_that_answers_503_to_every_second_run_of_git_is_fetched_from(
    remotes: Remotes, served: Path
) -> None:
    """A run of git begins with one request for `info/refs`. Of a poll and a fetch, one is refused each time."""
    with https.serving(served) as server:
        server.refusal = https.Refusal(503, only="/info/refs", every=2)
        following = remotes.follow(Source(url=server.url()))
        told = []
        for _ in range(3):
            try:
                told.append((await brought(following)).ref)
            except GitFault as fault:
                told.append(fault.message.partition(" of ")[0])
        # The second time only the fetch is tried again, which succeeds. The third time the poll is refused.
        assert told == ["the server", "refs/heads/main", "the server"]
        assert (len(server.requests), server.fetches()) == (7, 1)
