"""The mirror of what is proposed: what it keeps, when it is made anew, and what is left of it."""

import os
import shutil
from pathlib import Path

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import ProposalNotFound
from reconciler.git.remotes import proposals
from reconciler.git.remotes.following import Remotes
from tests.git.remotes.followings import until
from tests.git.remotes.proposals import PULL, files_of, followed, fork, packed, propose
from tests.git.remotes.shims import Shim
from tests.repositories import Repository

pytestmark = pytest.mark.anyio


@pytest.fixture
def copy(origin: Repository, tmp_path: Path) -> Repository:
    """A fork of `origin`."""
    return fork(origin, tmp_path / "fork")


def pulls(copy: Repository, origin: Repository, *, number: int) -> dict[str, str]:
    """Proposals that have nothing to do with each other: their commits by their refs."""
    found = {}
    for index in range(number):
        ref = f"refs/pull/{index}/head"
        found[ref] = propose(copy, origin, ref=ref, text=f"of {index}")
        copy.rewind("HEAD^")
    return found


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_only_what_was_asked_for_last_is_found_by_its_commit(
    remotes: Remotes, origin: Repository, copy: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proposals, "MOST_HELD", 2)
    following = await followed(remotes, origin.path)
    proposed = pulls(copy, origin, number=3)
    first, second, third = proposed
    for ref in (first, second, first, third):
        found = await following.propose(ref)
    for ref in proposed:
        origin.git("update-ref", "-d", ref)
    for ref in (first, third):
        assert (await following.propose(proposed[ref])).proposals == found.proposals
    assert proposed[second] in packed(Path(str(found.proposals)))
    with pytest.raises(ProposalNotFound):
        await following.propose(proposed[second])


async def test_it_is_made_anew_when_it_holds_many_packs_and_the_one_before_stays_until_the_next(
    remotes: Remotes, origin: Repository, copy: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proposals, "MANY_PACKS", 2)
    following = await followed(remotes, origin.path)
    found = [await following.propose(ref) for ref in pulls(copy, origin, number=5)]
    assert [str(one.proposals).rpartition("-")[2] for one in found] == list("11223")
    assert [files_of(one) for one in found[2:]] == [["a.yaml", "b.yaml"]] * 3
    of_mirrors = following.path.parent
    await until(lambda: names(of_mirrors) == ["origin.git", "origin.git.proposals-2", "origin.git.proposals-3"])


async def test_it_is_made_anew_when_it_holds_more_than_one_fetch_may_bring(
    remotes: Remotes, origin: Repository, copy: Repository
) -> None:
    following = await followed(remotes, origin.path, max_bytes=2048)
    folders = []
    for _ in range(3):
        propose(copy, origin, text=os.urandom(650).hex())  # a pack of some 1,600 bytes
        copy.rewind("HEAD^")
        folders.append((await following.propose(PULL)).proposals)
    assert folders[0] == folders[1] != folders[2]


async def test_a_proposal_that_is_too_large_leaves_nothing(
    remotes: Remotes, origin: Repository, copy: Repository
) -> None:
    following = await followed(remotes, origin.path, max_bytes=100_000)
    copy.write("c.bin", b"".join(number.to_bytes(4) * 3 + bytes([number % 251]) for number in range(60_000)))
    copy.git("config", "core.compression", "0")
    origin.git("config", "core.compression", "0")
    head = propose(copy, origin)
    for named in (PULL, head, PULL):
        with pytest.raises(GitFault, match="sends more than the 100000 bytes or") as found:
            await following.propose(named)
        assert found.value.state is RepositoryState.UNREACHABLE
    beside = following.path.with_name("origin.git.proposals-1")
    assert list((beside / "objects/pack").iterdir()) == []
    assert Repository(beside).git("for-each-ref") == ""
    assert packed(following.path) == packed(following.path) - {head}


async def test_damage_is_mended_by_itself(remotes: Remotes, origin: Repository, copy: Repository) -> None:
    following = await followed(remotes, origin.path)
    inner, head = propose(copy, origin), propose(copy, origin, text="c")
    found = await following.propose(PULL)
    shutil.rmtree(Path(str(found.proposals)) / "objects")
    assert (await following.propose(head)).head == head
    found = await following.propose(PULL)
    assert (files_of(found), (await following.propose(inner)).head) == (["a.yaml", "b.yaml"], inner)
    propose(copy, origin, text="d")
    shutil.rmtree(Path(str(found.proposals)) / "refs")
    again = await following.propose(PULL, base=inner)
    assert (again.base, files_of(again)) == (inner, ["a.yaml", "b.yaml"])
    assert again.proposals != found.proposals


async def test_it_is_made_anew_with_the_mirror_that_it_borrows_from(
    remotes: Remotes, origin: Repository, copy: Repository
) -> None:
    following = await followed(remotes, origin.path)
    head = propose(copy, origin)
    before = await following.propose(PULL)
    await following.rebuild(following.generation)
    after = await following.propose(PULL)  # the mirror holds nothing, until somebody looks again
    assert (after.head, files_of(after)) == (head, ["a.yaml", "b.yaml"])
    assert (after.proposals != before.proposals, packed(following.path)) == (True, set())


async def test_nothing_is_left_once_nobody_follows_the_remote(
    remotes: Remotes, origin: Repository, copy: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proposals, "MANY_PACKS", 1)
    following = await followed(remotes, origin.path)
    for ref in pulls(copy, origin, number=2):
        await following.propose(ref)
    await remotes.keep([])
    assert not following.path.exists()
    await until(lambda: names(following.path.parent) == [])
    again = await followed(remotes, origin.path)
    assert files_of(await again.propose("refs/pull/1/head")) == ["a.yaml", "b.yaml"]


async def test_what_was_left_of_one_that_was_begun_is_no_obstacle(
    remotes: Remotes, origin: Repository, copy: Repository, shim: Shim
) -> None:
    following = await followed(remotes, origin.path)
    head = propose(copy, origin)
    shim.kill("init")
    with pytest.raises(GitFault, match="ended git"):
        await following.propose(PULL)
    shim.act("")
    for suffix in ("new", "old"):
        (following.path.with_name(f".origin.git.proposals-1.{suffix}") / "objects").mkdir(parents=True)
    assert (await following.propose(PULL)).head == head
    assert names(following.path.parent) == ["origin.git", "origin.git.proposals-1"]
