"""A head that no fetch can bring is not fetched whole again and again."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.remotes.following import Remotes
from reconciler.git.remotes.sources import Source
from tests.git.remotes.followings import branch, brought, fault, source
from tests.git.remotes.shims import Shim
from tests.repositories import Repository
from tests.servers import https

pytestmark = pytest.mark.anyio


async def test_a_head_that_is_too_much_is_fetched_once(remotes: Remotes, origin: Repository, shim: Shim) -> None:
    narrow = source(origin, max_objects=2)
    following = remotes.follow(narrow)
    told = await fault(following, origin.path)
    assert told == (
        RepositoryState.UNREACHABLE,
        "URL sends more than the 2147483648 bytes or the 2 objects that one fetch may bring; shorten its history",
    )
    assert [await fault(following, origin.path) for _ in range(3)] == [told] * 3
    assert shim.counts() == (4, 1)
    before = origin.head()
    for number in range(500):  # so many that git is most likely stopped before it has all of them
        origin.write(f"{number}.yaml", str(number))
    origin.commit()
    moved = await fault(following, origin.path)
    assert (moved, shim.counts()) == (told, (5, 2))
    head = await following.poll(insists=True)
    with pytest.raises(GitFault, match=moved[1].removeprefix("URL")):
        await following.fetch(head)
    assert shim.counts() == (6, 2)
    with contextlib.suppress(GitFault):  # which is not raised if git had all of them before it was stopped
        await following.fetch(head, insists=True)
    assert shim.counts() == (6, 3)
    origin.git("reset", "--hard", before)
    wide = source(origin)
    await remotes.keep([wide])
    assert (await brought(remotes.follow(wide))).commit == before
    assert shim.counts() == (7, 4)


async def test_heads_that_no_fetch_can_bring_keep_no_other_from_it(
    remotes: Remotes, origin: Repository, shim: Shim
) -> None:
    blob = origin.blob(b"x")
    origin.commit_tree(origin.tree(("100644", b"a.yaml", blob), ("100644", b"a.yaml", blob)), branch="bad")
    origin.branch("large")
    origin.switch("large")
    for number in range(5):
        origin.write("a.yaml", str(number))
        origin.commit()
    wanted = [source(origin, branch(name), max_objects=8) for name in ("main", "bad", "large")]
    followed = [remotes.follow(each) for each in wanted]
    heads = await asyncio.gather(*(each.poll() for each in followed))
    fetches = []
    for _ in range(3):
        calls = (each.fetch(head) for each, head in zip(followed, heads, strict=True))
        came = await asyncio.gather(*calls, return_exceptions=True)
        assert came[0] == heads[0]
        faults = [(one.state, one.transient) for one in came[1:] if isinstance(one, GitFault)]
        assert faults == [(RepositoryState.UNSUPPORTED_FORMAT, False), (RepositoryState.UNREACHABLE, False)]
        fetches.append(shim.count("fetch"))
    assert fetches == [3] * 3


async def test_a_fault_that_may_pass_is_not_remembered(served: Path, remotes: Remotes) -> None:
    with https.serving(served) as server:
        following = remotes.follow(Source(url=server.url(), follows=branch("main")))
        head = await following.poll()
        server.refusal = https.Refusal(403)
        with pytest.raises(GitFault, match="asks for credentials"):
            await following.fetch(head)
        server.refusal = None
        assert await following.fetch(head) == head
