"""Proposals: found and fetched when somebody asks, beside what is followed."""

import asyncio
import os
from pathlib import Path

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import Followed, ProposalNotFound, RefKind
from reconciler.git.remotes.following import Remotes
from reconciler.git.remotes.proposals import Proposal
from reconciler.model.errors import Refused
from tests.git.remotes.followings import branch, brought, commit, source, until
from tests.git.remotes.proposals import PULL, followed, fork, packed, propose
from tests.git.remotes.shims import Shim
from tests.repositories import Repository

pytestmark = pytest.mark.anyio


@pytest.fixture
def copy(origin: Repository, tmp_path: Path) -> Repository:
    """A fork of `origin`."""
    return fork(origin, tmp_path / "fork")


def objects(repository: Repository, *names: str) -> set[str]:
    """All that leads from these."""
    return {line[:40] for line in repository.git("rev-list", "--objects", *names).splitlines()}


# What is found


async def test_what_a_fork_proposes_is_fetched_into_a_second_mirror(
    remotes: Remotes, origin: Repository, copy: Repository
) -> None:
    following = await followed(remotes, origin.path)
    before, base = packed(following.path), origin.head()
    head = propose(copy, origin)
    found = await following.propose(PULL)
    beside = following.path.with_name("origin.git.proposals-1")
    folders = {"mirror": following.path, "proposals": beside}
    assert found == Proposal("refs/heads/main", base, PULL, head, **folders, is_followed=True)
    assert packed(following.path) == before == objects(origin, base)
    assert packed(beside) == objects(copy, head, f"^{base}")  # the rest is borrowed
    assert not {head} & packed(following.path)
    assert {(folder.stat().st_mode, folder.stat().st_uid) for folder in (following.path, beside)} == {
        (following.path.stat().st_mode, os.geteuid())
    }


@pytest.mark.parametrize(
    "ref",
    [
        "refs/heads/other/one",
        "refs/tags/v1",
        "refs/pull/7/head",
        "refs/pull/7/merge",
        "refs/merge-requests/3/head",
        "refs/merge-requests/3/merge",
    ],
)
async def test_a_head_is_named_by_its_ref_in_full(
    remotes: Remotes, origin: Repository, copy: Repository, ref: str
) -> None:
    following = await followed(remotes, origin.path)
    head = propose(copy, origin, ref=ref)
    found = await following.propose(ref)
    assert (found.head_ref, found.head) == (ref, head)


async def test_an_annotated_tag_stands_for_its_commit(remotes: Remotes, origin: Repository) -> None:
    following = await followed(remotes, origin.path)
    head = origin.commit()
    origin.git("tag", "--annotate", "--message=One", "v1")
    origin.rewind("HEAD^")
    for named in ("refs/tags/v1", head, "refs/tags/v1"):
        assert (await following.propose(named)).head == head
    with pytest.raises(ProposalNotFound):
        await following.propose(origin.git("rev-parse", "refs/tags/v1"))  # of the tag itself


async def test_a_commit_is_found_at_the_tip_of_a_ref_and_in_the_history_of_what_was_found(
    remotes: Remotes, origin: Repository, copy: Repository, shim: Shim
) -> None:
    following = await followed(remotes, origin.path)
    propose(copy, origin)
    inner, head = copy.head(), propose(copy, origin, text="c")
    with pytest.raises(ProposalNotFound):
        await following.propose(inner)
    found = await following.propose(head)
    assert (found.head_ref, found.head) == (head, head)
    fetched = shim.count("fetch")
    assert (await following.propose(inner)).head == inner
    old = await following.propose(origin.head(), base=inner)
    assert (old.head, old.base, old.proposals) == (origin.head(), inner, found.proposals)
    assert shim.count("fetch") == fetched


async def test_what_the_mirror_holds_is_not_fetched_a_second_time(
    remotes: Remotes, origin: Repository, shim: Shim
) -> None:
    first = origin.head()
    origin.branch("old")
    origin.commit()
    following = await followed(remotes, origin.path)
    fetched = shim.count("fetch")
    for named in ("refs/heads/old", first):
        found = await following.propose(named)
        assert (found.head, found.proposals) == (first, None)
    assert shim.count("fetch") == fetched
    assert [path.name for path in following.path.parent.iterdir()] == [following.path.name]


async def test_the_base_is_what_is_followed_as_it_is_now_or_any_other(
    remotes: Remotes, origin: Repository, copy: Repository
) -> None:
    origin.branch("release")
    following = await followed(remotes, origin.path, branch("release"))
    release, main, head = origin.head(), origin.commit(), propose(copy, origin)
    origin.git("update-ref", "refs/heads/release", main)
    now = await following.propose(PULL)
    assert (now.base_ref, now.base, now.head) == ("refs/heads/release", main, head)
    other = await following.propose(PULL, base="refs/heads/main")
    assert (other.base_ref, other.base, other.proposals) == ("refs/heads/main", main, now.proposals)
    old = await following.propose(PULL, base=release)
    assert (old.base_ref, old.base) == (release, release)
    assert main not in packed(following.path)


async def test_what_is_followed_may_be_named_whatever_it_is(
    remotes: Remotes, origin: Repository, copy: Repository
) -> None:
    head = propose(copy, origin, ref="refs/custom/x")
    following = await followed(remotes, origin.path, Followed(RefKind.REF, "refs/custom/x"))
    found = await following.propose("refs/custom/x", base="refs/heads/main")
    assert (found.head, found.base) == (head, origin.head())
    with pytest.raises(ProposalNotFound):
        await (await followed(remotes, origin.path)).propose("refs/custom/x")


async def test_a_commit_that_is_followed_is_the_base_though_nothing_was_fetched_yet(
    remotes: Remotes, origin: Repository, copy: Repository
) -> None:
    first = origin.head()
    origin.commit()
    head = propose(copy, origin)
    following = remotes.follow(source(origin, commit(first)))  # as one that is suspended
    found = await following.propose(PULL)
    assert (found.base_ref, found.base, found.head) == (first, first, head)
    assert packed(following.path) == set()


async def test_a_proposal_that_was_pushed_anew_is_found_anew(
    remotes: Remotes, origin: Repository, copy: Repository
) -> None:
    following = await followed(remotes, origin.path)
    before = propose(copy, origin)
    assert (await following.propose(PULL)).head == before
    copy.rewind("HEAD^")
    after = propose(copy, origin, text="c")
    assert (await following.propose(PULL)).head == after
    with pytest.raises(ProposalNotFound):  # its objects are still there
        await following.propose(before)


async def test_a_shallow_repository_is_proposed_to_as_well(
    remotes: Remotes, origin: Repository, tmp_path: Path
) -> None:
    origin.commit()
    origin.commit()
    origin.git("clone", "--quiet", "--depth=2", f"file://{origin.path}", str(tmp_path / "shallow"))
    shallow = origin.at(tmp_path / "shallow")
    following = await followed(remotes, shallow.path)
    head = propose(shallow, shallow)
    found = await following.propose(PULL)
    assert (found.base, found.head) == (head, head)
    shallow.git("update-ref", "refs/heads/main", "HEAD^")
    assert (await following.propose(PULL)).base == shallow.head("main")


# What is not


@pytest.mark.parametrize(
    ("named", "told"),
    [
        (
            "x",
            "'x' is not the full name of a ref; write 'refs/heads/x' for a branch, 'refs/tags/x' for a tag, or all 40 "
            "digits of a commit's id",
        ),
        ("refs/heads/a..b", "'refs/heads/a..b' is not a name that Git allows for a branch, tag or ref"),
        ("--upload-pack=x", "'--upload-pack=x' is not a name that Git allows for a branch, tag or ref"),
        ("", "'' must have 1 to 1024 bytes to name a branch, tag or ref"),
    ],
)
async def test_what_is_no_full_name_is_refused_before_a_remote_is_asked(
    remotes: Remotes, origin: Repository, shim: Shim, named: str, told: str
) -> None:
    following = remotes.follow(source(origin))
    for head, base in ((named, None), ("refs/heads/main", named)):
        with pytest.raises(Refused) as found:
            await following.propose(head, base=base)
        assert (found.value.message, type(found.value)) == (
            told,
            ProposalNotFound if named.startswith("refs/") else Refused,
        )
    assert shim.lines() == []


@pytest.mark.parametrize(
    "ref",
    ["refs/notes/x", "refs/keep-around/x", "refs/pull/7/x/head", "refs/heads", "refs/custom/x", "refs/heads/gone"],
)
async def test_what_may_not_be_proposed_is_told_like_what_is_not_there(
    remotes: Remotes, origin: Repository, copy: Repository, ref: str
) -> None:
    following = await followed(remotes, origin.path)
    hidden = propose(copy, origin, ref="refs/keep-around/x")
    if ref not in ("refs/heads", "refs/heads/gone"):
        copy.git("push", "--quiet", "--force", str(origin.path), f"+{hidden}:{ref}")
    for named in (ref, hidden):
        with pytest.raises(ProposalNotFound) as found:
            await following.propose(named)
        assert found.value.message == (
            f"{origin.path} has nothing to propose at {named!r}; push it, or name one of refs/heads/*, refs/tags/*, "
            "refs/pull/*/head, refs/pull/*/merge, refs/merge-requests/*/head or refs/merge-requests/*/merge, or the "
            "commit that one is at"
        )


async def test_an_object_that_happens_to_be_there_is_not_found(remotes: Remotes, origin: Repository) -> None:
    following = await followed(remotes, origin.path)
    first, gone = origin.head(), origin.commit()
    await brought(following)
    origin.rewind(first)
    await brought(following)
    assert gone in packed(following.path)
    tree, blob = origin.git("rev-parse", f"{first}^{{tree}}", f"{first}:a.yaml").split()
    for named in (gone, tree, blob, "1" * 40):
        with pytest.raises(ProposalNotFound):
            await following.propose(named)


async def test_a_base_that_is_not_there_is_told_too(remotes: Remotes, origin: Repository, copy: Repository) -> None:
    following = await followed(remotes, origin.path)
    propose(copy, origin)
    with pytest.raises(ProposalNotFound, match="nothing to propose at 'refs/heads/gone'"):
        await following.propose(PULL, base="refs/heads/gone")
    origin.delete_branch("main")
    with pytest.raises(GitFault, match=r"the HEAD of .* names a branch that does not exist") as found:
        await following.propose(PULL)
    assert found.value.state is RepositoryState.BRANCH_MISSING


async def test_a_ref_that_goes_between_look_and_fetch_is_not_found(
    remotes: Remotes, origin: Repository, copy: Repository, shim: Shim
) -> None:
    following = await followed(remotes, origin.path)
    head = propose(copy, origin)
    delete = f"$GIT -C {origin.path} update-ref -d {PULL}"
    for named in (PULL, head):
        origin.git("fetch", "--quiet", str(copy.path), f"+{head}:{PULL}")
        shim.act(f'case " $* " in *" fetch "*) {delete};; esac')
        with pytest.raises(ProposalNotFound):
            await following.propose(named)
    shim.act("")
    assert (await following.propose("refs/heads/main")).proposals is None


async def test_a_commit_whose_ref_moves_between_look_and_fetch_is_found_in_its_history_alone(
    remotes: Remotes, origin: Repository, copy: Repository, shim: Shim
) -> None:
    following = await followed(remotes, origin.path)
    head = propose(copy, origin)
    copy.rewind("HEAD^")
    other = propose(copy, origin, ref="refs/pull/8/head", text="c")
    shim.act(f'case " $* " in *" fetch "*) $GIT -C {origin.path} update-ref {PULL} {other};; esac')
    with pytest.raises(ProposalNotFound):
        await following.propose(head)
    assert (await following.propose(PULL)).head == other


# Together, and the end of it


async def test_all_who_ask_at_once_share_what_was_fetched(
    remotes: Remotes, origin: Repository, copy: Repository, shim: Shim
) -> None:
    one, two = [await followed(remotes, origin.path, follows) for follows in (branch("main"), branch("main"))]
    head = propose(copy, origin)
    other = propose(copy, origin, ref="refs/pull/8/head", text="c")
    fetches = shim.count("fetch")
    asked = (one.propose(PULL), two.propose(PULL), two.propose("refs/pull/8/head"))
    assert [found.head for found in await asyncio.gather(*asked)] == [head, head, other]
    assert shim.count("fetch") == fetches + 2


async def test_what_one_asks_for_in_vain_is_nobody_elses_fault(
    remotes: Remotes, origin: Repository, copy: Repository, shim: Shim
) -> None:
    following = await followed(remotes, origin.path, max_objects=5, max_bytes=1 << 26)
    head = propose(copy, origin)
    large = fork(origin, copy.path.with_name("large"))
    for number in range(4):
        # So much that git has not ended before it is ended.
        propose(large, origin, ref="refs/pull/8/head", text=f"{number}{os.urandom(400_000).hex()}")
    names = (PULL, "refs/pull/8/head", "refs/pull/9/head")
    asked = (following.propose(name) for name in names)
    one, two, three = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(one, Proposal)
    assert (one.head, type(two), type(three)) == (head, GitFault, ProposalNotFound)
    fetches = shim.count("fetch")
    with pytest.raises(GitFault, match="or the 5 objects that one fetch may bring"):
        await following.propose("refs/pull/8/head")
    assert shim.count("fetch") == fetches  # as it cannot be brought


async def test_a_request_that_is_cancelled_ends_git(
    remotes: Remotes, origin: Repository, copy: Repository, shim: Shim, tmp_path: Path
) -> None:
    following = await followed(remotes, origin.path)
    head = propose(copy, origin)
    held = tmp_path / "held"
    shim.act(f'case " $* " in *" fetch "*) echo $$ > {held}.new; mv {held}.new {held}; exec sleep 987;; esac')
    asking = [asyncio.create_task(following.propose(PULL)) for _ in range(2)]
    await until(held.exists)
    shim.act("")
    asking[0].cancel()
    await asyncio.wait({asking[0]})
    with pytest.raises(ProcessLookupError):
        os.kill(int(held.read_text()), 0)
    assert (await asking[1]).head == head


async def test_who_waits_is_told_when_the_repository_is_followed_no_more(
    remotes: Remotes, origin: Repository, copy: Repository, shim: Shim, tmp_path: Path
) -> None:
    following = await followed(remotes, origin.path)
    propose(copy, origin)
    held = tmp_path / "held"
    shim.act(f'case " $* " in *" fetch "*) touch {held}; exec sleep 987;; esac')
    asking = asyncio.create_task(following.propose(PULL))
    await until(held.exists)
    await remotes.keep([])
    for asked in (asking, following.propose(PULL)):
        with pytest.raises(GitFault, match="is not followed any more by these settings; ask again"):
            await asked
    assert await following.tips(["refs/heads/main"]) == {"refs/heads/main": origin.head()}
