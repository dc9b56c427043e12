"""Followed branches, tags, commits and other refs, as they move."""

import shutil
from pathlib import Path

import pytest

from reconciler.git.faults import RepositoryState
from reconciler.git.refs import Followed, RefHead, RefKind
from reconciler.git.remotes.following import Remotes
from reconciler.git.snapshots import Snapshot
from tests.git.remotes.followings import brought, commit, fault, files, source, tag
from tests.git.remotes.shims import Shim
from tests.repositories import Repository

pytestmark = pytest.mark.anyio


async def test_a_tag_is_followed_when_it_moves(remotes: Remotes, origin: Repository) -> None:
    first = origin.head()
    origin.git("tag", "v1")
    following = remotes.follow(source(origin, tag("v1")))
    assert await brought(following) == RefHead("refs/tags/v1", first)
    second = origin.commit()
    origin.git("tag", "--force", "--annotate", "--message=Moved", "v1")
    moved = await brought(following)
    assert (moved.ref, moved.commit, moved.branch) == ("refs/tags/v1", second, None)
    assert files(following, moved) == ["a.yaml"]
    origin.git("tag", "--force", "v1", first)  # back, to what the mirror holds
    assert await brought(following) == RefHead("refs/tags/v1", first)


async def test_a_tag_of_a_tag_leads_to_the_commit(remotes: Remotes, origin: Repository) -> None:
    origin.git("tag", "--annotate", "--message=Inner", "inner")
    origin.git("tag", "--annotate", "--message=Outer", "outer", "inner")
    head = await brought(remotes.follow(source(origin, tag("outer"))))
    assert head.commit == origin.head()


async def test_any_ref_is_followed_and_a_branch_by_its_name(remotes: Remotes, origin: Repository) -> None:
    origin.git("update-ref", "refs/pull/7/head", "HEAD")
    pull = remotes.follow(source(origin, Followed(RefKind.REF, "refs/pull/7/head")))
    assert await brought(pull) == RefHead("refs/pull/7/head", origin.head())
    main = remotes.follow(source(origin, Followed(RefKind.REF, "refs/heads/main")))
    assert (await brought(main)).branch == "main"


async def test_a_commit_stays_and_is_asked_for_once(remotes: Remotes, origin: Repository, shim: Shim) -> None:
    first = origin.head()
    origin.write("b.yaml", "b")
    origin.commit()
    following = remotes.follow(source(origin, commit(first)))
    head = await brought(following)
    assert (head, files(following, head)) == (RefHead(first, first), ["a.yaml"])
    shutil.rmtree(origin.path)
    assert await brought(following) == head
    assert shim.counts() == (0, 1)


@pytest.mark.parametrize(
    ("make", "follows", "told"),
    [
        (["tag", "v1", "HEAD:a.yaml"], tag("v1"), "the tag v1 of URL names no commit"),
        (["tag", "--annotate", "--message=x", "v1", "HEAD^{tree}"], tag("v1"), "the tag v1 of URL names no commit"),
        (
            ["update-ref", "refs/odd/blob", "HEAD:a.yaml"],
            Followed(RefKind.REF, "refs/odd/blob"),
            "the ref refs/odd/blob of URL names no commit",
        ),
    ],
)
async def test_what_names_no_commit_is_told(
    remotes: Remotes, origin: Repository, make: list[str], follows: Followed, told: str
) -> None:
    origin.git(*make)
    following = remotes.follow(source(origin, follows))
    other = f"let it name one, or another with `{follows.setting}`"
    assert await fault(following, origin.path) == (RepositoryState.UNSUPPORTED_FORMAT, f"{told}; {other}")


@pytest.mark.parametrize("held", [False, True])
async def test_an_id_that_is_no_commits_is_told(remotes: Remotes, origin: Repository, held: bool) -> None:
    tree = origin.head("HEAD^{tree}")
    if held:
        await brought(remotes.follow(source(origin)))
    assert await fault(remotes.follow(source(origin, commit(tree))), origin.path) == (
        RepositoryState.UNSUPPORTED_FORMAT,
        f"the commit {tree} of URL names no commit; let it name one, or another with `commit`",
    )


async def test_a_server_that_gives_out_no_commit_by_its_id_is_told(
    remotes: Remotes, origin: Repository, shim: Shim
) -> None:
    first = origin.head()
    origin.commit()
    shim.act('case "$*" in *fetch*) exec env -u GIT_PROTOCOL $GIT -c protocol.version=0 "$@";; esac')
    assert await fault(remotes.follow(source(origin, commit(first))), origin.path) == (
        RepositoryState.BRANCH_MISSING,
        "URL gives out no commit by its id; have the server allow it (uploadpack.allowAnySHA1InWant),"
        " or follow a branch or tag",
    )


async def test_a_shallow_repository_is_followed_as_far_as_it_goes(
    remotes: Remotes, origin: Repository, tmp_path: Path
) -> None:
    for _ in range(3):
        origin.commit()
    shallow = Repository(tmp_path / "shallow")
    origin.git("clone", "--quiet", "--depth=2", f"file://{origin.path}", str(shallow.path))
    following = remotes.follow(source(shallow))
    assert files(following, await brought(following)) == ["a.yaml"]
    shallow.write("b.yaml", "b")
    shallow.commit()
    assert files(following, await brought(following)) == ["a.yaml", "b.yaml"]
    shallow.git("fetch", "--quiet", "--unshallow")
    shallow.commit()
    assert files(following, await brought(following)) == ["a.yaml", "b.yaml"]


@pytest.mark.slow
async def test_what_a_shallow_repository_cuts_off_is_no_other_history(
    remotes: Remotes, origin: Repository, tmp_path: Path
) -> None:
    shallow = Repository(tmp_path / "shallow")
    origin.git("clone", "--quiet", "--depth=1", f"file://{origin.path}", str(shallow.path))
    following = remotes.follow(source(shallow))
    first = await brought(following)
    for _ in range(2):
        origin.commit()
    shallow.git("fetch", "--quiet", "--depth=1")
    shallow.git("reset", "--quiet", "--hard", "origin/main")
    second = await brought(following)
    with Snapshot.open(following.path, second.commit) as snapshot:
        assert snapshot.has(first.commit)
        assert not snapshot.is_unrelated(first.commit, second.commit)


async def test_no_more_objects_come_than_allowed(remotes: Remotes, origin: Repository) -> None:
    for number in range(20):
        origin.write(f"{number}.yaml", str(number))
    origin.commit()
    state, told = await fault(remotes.follow(source(origin, max_objects=10)), origin.path)
    assert state is RepositoryState.UNREACHABLE
    assert "objects" in told
    enough = remotes.follow(source(origin, max_objects=100))
    assert len(files(enough, await brought(enough))) == 21
