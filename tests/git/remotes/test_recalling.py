"""A commit that was brought once: it is in the mirror again though the mirror is another, and nothing leads to it."""

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.remotes import following as followings_of_one
from reconciler.git.remotes.following import Following, Remotes
from reconciler.git.snapshots import Snapshot
from tests.git.remotes.followings import branch, brought, private_refs, source
from tests.git.remotes.shims import Shim
from tests.repositories import Repository

pytestmark = pytest.mark.anyio


async def rewritten(remotes: Remotes, origin: Repository) -> tuple[Following, str]:
    """Return a side that follows a branch which was force-pushed after its fetch, and the fetched commit."""
    following = remotes.follow(source(origin, branch("main")))
    first = origin.head()
    origin.write("b.yaml", "b")
    applied = origin.commit()
    await brought(following)
    await following.recall(applied)
    origin.rewind(first)
    origin.commit("Another way")
    return following, applied


async def holds(following: Following, commit: str) -> bool:
    head = await brought(following)
    with Snapshot.open(following.path, head.commit) as snapshot:
        return snapshot.has(commit)


async def test_costs_nothing_in_the_mirror_that_brought_it(remotes: Remotes, origin: Repository, shim: Shim) -> None:
    following, applied = await rewritten(remotes, origin)
    assert await holds(following, applied)
    before = shim.lines()
    await following.recall(applied)
    assert shim.lines() == before


async def test_comes_back_into_a_mirror_that_was_made_anew_without_a_ref_of_ours(
    remotes: Remotes, origin: Repository, shim: Shim
) -> None:
    following, applied = await rewritten(remotes, origin)
    await following.rebuild(following.generation)
    assert not await holds(following, applied)
    await following.recall(applied)
    assert await holds(following, applied)
    assert private_refs(following) == {branch("main").private_ref: origin.head()}
    before = shim.lines()
    await following.recall(applied)
    assert shim.lines() == before


async def test_brings_nothing_when_our_own_mirror_holds_it(remotes: Remotes, origin: Repository) -> None:
    following, applied = await rewritten(remotes, origin)
    assert await holds(following, applied)
    packs = sorted((following.path / "objects/pack").iterdir())
    await remotes.follow(source(origin, branch("main"))).recall(applied)  # as after a reload of the settings
    assert sorted((following.path / "objects/pack").iterdir()) == packs
    assert await holds(following, applied)


async def test_that_the_remote_has_no_more_is_asked_for_once_and_no_fault(
    remotes: Remotes, origin: Repository, shim: Shim
) -> None:
    following, applied = await rewritten(remotes, origin)
    origin.git("reflog", "expire", "--expire=now", "--all")
    origin.git("gc", "--quiet", "--prune=now")
    await following.rebuild(following.generation)
    assert not await holds(following, applied)
    before = shim.count("fetch")
    for _ in range(2):
        await following.recall(applied)
    assert shim.count("fetch") == before + 1
    assert not await holds(following, applied)


async def test_refused_in_words_that_nobody_knows_is_a_fault_only_for_a_while(
    remotes: Remotes, origin: Repository, shim: Shim
) -> None:
    following, applied = await rewritten(remotes, origin)
    await following.rebuild(following.generation)
    await brought(following)
    shim.act(f'case "$*" in *" fetch "*{applied}*) echo "fatal: whatever that is" >&2; exit 128;; esac')
    for _ in range(followings_of_one.RECALLS - 1):
        with pytest.raises(GitFault) as found:
            await following.recall(applied)
        assert found.value.state is RepositoryState.UNREACHABLE
    for _ in range(2):
        await following.recall(applied)
    assert sum(applied in line for line in shim.lines() if " fetch " in line) == followings_of_one.RECALLS
