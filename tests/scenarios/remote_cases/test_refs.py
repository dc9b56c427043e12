"""Changes of a remote's refs: each kind of them, gone and back, moved, rewritten, in each other's way. Our mirror."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemons import Daemon, destination, until
from tests.repositories import Repository
from tests.scenarios.remote_cases.conftest import Follow
from tests.scenarios.remote_cases.remote import Remote, Upstream, mirrors
from tests.servers import gitd
from tests.servers.gitd import Server

pytestmark = pytest.mark.slow

BOTH = {"a": 1, "b": 1}


@pytest.fixture
def server(upstream: Upstream, tmp_path: Path) -> Iterator[Server]:
    with gitd.serving(upstream.served, log=tmp_path / "log") as server:
        yield server


def stays(remote: Remote, state: str, *words: str) -> None:
    """It comes into this state, says why, and everything stays as it was."""
    before = remote.versions()
    applied = remote.shown()["commit"]
    remote.fails(state, *words)
    assert (remote.versions(), remote.shown()["commit"]) == (before, applied)


# Which ref is followed


@pytest.mark.parametrize(
    ("key", "value", "ref"),
    [
        ("branch", "main", "refs/heads/main"),
        ("branch", "release/1.x", "refs/heads/release/1.x"),
        ("branch", "größe", "refs/heads/größe"),
        ("tag", "v1.2", "refs/tags/v1.2"),
        ("ref", "refs/pull/7/head", "refs/pull/7/head"),
        ("ref", "refs/heads/main", "refs/heads/main"),
        ("ref", "refs/changes/34/1234/1", "refs/changes/34/1234/1"),
    ],
)
def test_each_kind_of_ref_is_followed_told_when_it_is_gone_and_read_again_when_it_is_back(
    *, server: Server, upstream: Upstream, follow: Follow, key: str, value: str, ref: str
) -> None:
    source, bare = upstream.source, upstream.bare
    first = source.head()
    source.git("push", "--quiet", "--force", "origin", f"{first}:{ref}", f"{first}:refs/heads/another")
    remote = follow(server.url(), **{"branch": None, key: value})
    remote.reads(first)
    source.write("c.yaml", destination("c"))
    second = source.commit()
    source.git("push", "--quiet", "--force", "origin", f"{second}:{ref}")
    remote.reads(second)
    assert remote.versions() == {**BOTH, "c": 1}
    bare.git("update-ref", "-d", ref)
    stays(remote, "branch-missing", value)
    source.git("push", "--quiet", "--force", "origin", f"{second}:{ref}")
    remote.reads(second)


def test_a_tag_is_followed_to_the_commit_that_it_leads_to_annotated_or_not_and_when_it_is_moved(
    *, server: Server, upstream: Upstream, follow: Follow
) -> None:
    source = upstream.source
    first = source.head()
    source.git("tag", "--annotate", "--message=first", "v1")
    source.git("push", "--quiet", "origin", "v1")
    remote = follow(server.url(), branch=None, tag="v1")
    remote.reads(first)
    second = upstream.push()
    assert remote.looks()["commit"] == first  # the branch moved, the tag did not
    source.git("tag", "--force", "v1", second)
    source.git("push", "--quiet", "--force", "origin", "v1")
    remote.reads(second)


def test_a_commit_is_read_and_stayed_at_and_told_when_there_is_none(
    *, server: Server, upstream: Upstream, follow: Follow
) -> None:
    first = upstream.source.head()
    upstream.push()
    remote = follow(server.url(), branch=None, commit=first)
    remote.reads(first)
    assert remote.versions() == BOTH
    upstream.push("d")
    assert remote.looks()["commit"] == first
    missing = "1" * 40
    other = follow(server.url(), branch=None, commit=missing)
    other.fails("branch-missing", missing[:12])
    assert other.versions() == {}


def test_the_branch_that_head_names_is_followed_when_it_becomes_another_one(
    *, server: Server, upstream: Upstream, follow: Follow
) -> None:
    source, bare = upstream.source, upstream.bare
    remote = follow(server.url(), branch=None)
    remote.reads(source.head())
    source.write("c.yaml", destination("c"))
    renamed = source.commit()
    source.git("push", "--quiet", "origin", "HEAD:trunk")
    bare.git("symbolic-ref", "HEAD", "refs/heads/trunk")
    bare.git("update-ref", "-d", "refs/heads/main")
    remote.reads(renamed)
    bare.git("symbolic-ref", "HEAD", "refs/heads/nowhere")
    stays(remote, "branch-missing")
    bare.git("symbolic-ref", "HEAD", "refs/heads/trunk")
    remote.reads(renamed)


def test_a_repository_that_lost_all_its_branches_is_not_emptied(
    *, server: Server, upstream: Upstream, follow: Follow
) -> None:
    remote = follow(server.url())
    head = upstream.source.head()
    remote.reads(head)
    upstream.bare.git("update-ref", "-d", "refs/heads/main")
    stays(remote, "empty")
    upstream.source.push()
    remote.reads(head)


def test_a_remote_with_very_many_refs_is_asked_for_the_one_alone(
    *, server: Server, upstream: Upstream, follow: Follow
) -> None:
    head = upstream.source.head()
    many = "".join(f"{head} refs/pull/{number:05}/head\n" for number in range(50_000))
    (upstream.bare.path / "packed-refs").write_text(
        f"# pack-refs with: peeled fully-peeled sorted\n{head} refs/heads/main\n{many}"
    )
    remote = follow(server.url())
    remote.reads(head)
    follow(server.url(), branch=None).reads(head)
    remote.reads(upstream.push())


@pytest.mark.parametrize(
    ("more", "words"), [({"object_format": "sha256"}, ("SHA-1",)), ({"bare": True}, ("no commit",))], ids=str
)
def test_a_remote_that_cannot_be_read_says_why(
    *, server: Server, upstream: Upstream, follow: Follow, more: dict[str, Any], words: tuple[str, ...]
) -> None:
    other = Repository.init(upstream.served / "other.git", **more)
    if "bare" not in more:
        other.write("a.yaml", destination("a"))
        other.commit()
    remote = follow(server.url("other.git"))
    remote.fails("empty" if "bare" in more else "unsupported-format", *words)
    assert remote.versions() == {}


def test_a_remote_with_a_part_of_its_history_is_followed(*, server: Server, upstream: Upstream, follow: Follow) -> None:
    upstream.push("c")
    last = upstream.push("d")
    upstream.bare.git("clone", "--quiet", "--bare", "--depth=1", f"file://{upstream.bare.path}", "../part.git")
    remote = follow(server.url("part.git"))
    remote.reads(last)
    assert remote.versions() == {**BOTH, "c": 1, "d": 1}


# How it moves


def test_a_branch_set_back_and_sideways_is_applied_and_told(
    *, server: Server, upstream: Upstream, follow: Follow
) -> None:
    source = upstream.source
    first = source.head()
    remote = follow(server.url())
    remote.reads(upstream.push("c"))
    source.rewind(first)
    source.push()
    remote.reads(first)
    assert (remote.versions(), remote.daemon.run_of(remote.name, first)["rewound"]) == (BOTH, True)
    source.write("d.yaml", destination("d"))
    sideways = source.commit()
    source.push()
    remote.reads(sideways)
    assert remote.versions() == {**BOTH, "d": 1}


def test_a_branch_with_another_root_waits_for_a_person(*, server: Server, upstream: Upstream, follow: Follow) -> None:
    source = upstream.source
    remote = follow(server.url())
    remote.reads(source.head())
    source.restart()
    source.write("z.yaml", destination("z"))
    source.commit()
    source.push()
    stays(remote, "unrelated-root")


def test_branches_in_each_others_way_are_followed_all_the_same(
    *, server: Server, upstream: Upstream, follow: Follow
) -> None:
    source, bare = upstream.source, upstream.bare
    first = source.head()
    source.git("push", "--quiet", "origin", f"{first}:refs/heads/feature/one")
    deep = follow(server.url(), branch="feature/one")
    deep.reads(first)
    bare.git("update-ref", "-d", "refs/heads/feature/one")
    second = upstream.push()
    source.git("push", "--quiet", "origin", f"{second}:refs/heads/feature")
    flat = follow(server.url(), branch="feature")
    flat.reads(second)
    stays(deep, "branch-missing", "feature/one")
    bare.git("update-ref", "-d", "refs/heads/feature")
    source.git("push", "--quiet", "origin", f"{second}:refs/heads/feature/one")
    deep.reads(second)
    stays(flat, "branch-missing", "feature")


# Our mirror


def lose(mirror: Path) -> None:
    shutil.rmtree(mirror)


def lose_objects(mirror: Path) -> None:
    shutil.rmtree(mirror / "objects")
    (mirror / "objects").mkdir()


def truncate(mirror: Path) -> None:
    for path in (mirror / "objects").rglob("*"):
        if path.is_file():
            path.chmod(0o600)
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("damage", [lose, lose_objects, truncate])
def test_a_damaged_mirror_is_made_anew_from_the_remote(
    *, daemon: Daemon, server: Server, upstream: Upstream, follow: Follow, damage: Callable[[Path], None]
) -> None:
    before = set(mirrors(daemon))
    remote = follow(server.url())
    remote.reads(upstream.source.head())
    [mirror] = set(mirrors(daemon)) - before
    damage(mirror)
    remote.reads(upstream.push())
    assert remote.versions() == {**BOTH, "c": 1}


def test_the_mirror_of_a_repository_that_is_followed_no_more_is_removed(
    daemon: Daemon, server: Server, upstream: Upstream, follow: Follow
) -> None:
    remote = follow(server.url())
    remote.reads(upstream.source.head())
    assert mirrors(daemon) != []
    daemon.configure([])
    daemon.restart()
    until(lambda: mirrors(daemon) == [] or None, "the mirrors are gone")
    assert daemon.get(f"/v1/repositories/{remote.name}").status == 404
    remote.follow()
    remote.reads(upstream.source.head())
