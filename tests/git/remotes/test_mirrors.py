"""A mirror."""

import os
import shutil
from pathlib import Path

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import HEAD, Followed, RefHead, RefKind
from reconciler.git.remotes import mirrors
from reconciler.git.remotes.mirrors import Mirror
from reconciler.git.remotes.program import GitProgram
from reconciler.git.remotes.sources import Source
from reconciler.git.snapshots import Snapshot
from tests.git.remotes.shims import Shim
from tests.repositories import Repository

pytestmark = pytest.mark.anyio


@pytest.fixture
def origin(tmp_path: Path) -> Repository:
    return Repository.init(tmp_path / "origin")


@pytest.fixture
async def mirror(tmp_path: Path) -> Mirror:
    program = GitProgram(tmp_path / "state/git")
    mirror = Mirror(tmp_path / "state/mirrors/one.git", program, url="URL")
    await mirror.ensure()
    return mirror


def source(
    repository: Repository, branch: str | None = None, *, timeout: float = 10, max_bytes: int = 1 << 20
) -> Source:
    follows = HEAD if branch is None else Followed(RefKind.BRANCH, branch)
    return Source(url=str(repository.path), follows=follows, timeout=timeout, max_bytes=max_bytes)


async def look(mirror: Mirror, wanted: Source) -> RefHead:
    found = await mirror.poll(wanted, [wanted.follows])
    assert list(found) == [wanted.follows]
    result = found[wanted.follows]
    if isinstance(result, Exception):
        raise result
    return result


async def fetch(mirror: Mirror, wanted: Source, head: RefHead) -> RefHead:
    return await mirror.fetch(wanted, wanted.follows, head)


async def fault(mirror: Mirror, wanted: Source) -> tuple[RepositoryState, str]:
    """The fault that a look ends in."""
    with pytest.raises(GitFault) as found:
        await look(mirror, wanted)
    return found.value.state, found.value.message.replace(wanted.url, "URL")


async def fetched(mirror: Mirror, wanted: Source) -> list[str]:
    """The paths in what a look and a fetch bring."""
    head = await fetch(mirror, wanted, await look(mirror, wanted))
    with Snapshot.open(mirror.path, head.commit) as snapshot:
        return [file.path for file in snapshot.files("")]


async def test_is_a_bare_repository_that_git_finds_sound(mirror: Mirror, origin: Repository) -> None:
    origin.write("a.yaml", "a")
    origin.commit()
    assert await fetched(mirror, source(origin)) == ["a.yaml"]
    assert Repository(mirror.path).git("fsck", "--full", "--strict") == ""
    assert Repository(mirror.path).git("for-each-ref", "--format=%(refname)") == HEAD.private_ref
    assert sorted(file.name for file in mirror.path.parent.iterdir()) == ["one.git"]
    assert not (mirror.path / "hooks").exists()


async def test_sees_the_branch_that_head_names(mirror: Mirror, origin: Repository) -> None:
    commit = origin.commit()
    head = await look(mirror, source(origin))
    assert head == RefHead("refs/heads/main", commit)
    assert head.branch == "main"
    origin.branch("next")
    origin.switch("next")
    assert (await look(mirror, source(origin))).branch == "next"


async def test_sees_the_branch_it_is_told(mirror: Mirror, origin: Repository) -> None:
    first = origin.commit()
    origin.branch("release/1.x")
    origin.commit()
    assert await look(mirror, source(origin, "release/1.x")) == RefHead("refs/heads/release/1.x", first)


async def test_takes_no_other_ref_that_ends_alike_for_the_branch(mirror: Mirror, origin: Repository) -> None:
    commit = origin.commit()
    origin.git("update-ref", "refs/remotes/origin/refs/heads/next", commit)
    origin.git("update-ref", "refs/remotes/origin/HEAD", commit)
    assert await fault(mirror, source(origin, "next")) == (
        RepositoryState.BRANCH_MISSING,
        "URL has no branch next; name another with `branch`",
    )


async def test_sees_a_detached_head(mirror: Mirror, origin: Repository) -> None:
    origin.write("a.yaml", "a")
    commit = origin.commit()
    origin.git("checkout", "--quiet", "--detach")
    head = await look(mirror, source(origin))
    assert (head, head.branch) == (RefHead("HEAD", commit), None)
    assert await fetched(mirror, source(origin)) == ["a.yaml"]


@pytest.mark.parametrize("branch", [None, "main"])
async def test_says_that_a_repository_is_empty(mirror: Mirror, origin: Repository, branch: str | None) -> None:
    assert await fault(mirror, source(origin, branch)) == (
        RepositoryState.EMPTY,
        "URL has no commit yet; commit something to it",
    )
    origin.write("a.yaml", "a")
    origin.commit()
    assert await fetched(mirror, source(origin, branch)) == ["a.yaml"]


async def test_says_that_head_names_no_branch(mirror: Mirror, origin: Repository) -> None:
    origin.commit()
    origin.git("symbolic-ref", "HEAD", "refs/heads/trunk")
    assert await fault(mirror, source(origin)) == (
        RepositoryState.BRANCH_MISSING,
        "the HEAD of URL names a branch that does not exist; name another with `branch`",
    )


async def test_says_that_the_branch_is_gone_and_sees_it_again(mirror: Mirror, origin: Repository) -> None:
    commit = origin.commit()
    origin.branch("next")
    assert (await look(mirror, source(origin, "next"))).commit == commit
    origin.delete_branch("next")
    assert await fault(mirror, source(origin, "next")) == (
        RepositoryState.BRANCH_MISSING,
        "URL has no branch next; name another with `branch`",
    )
    origin.branch("next")
    assert (await look(mirror, source(origin, "next"))).commit == commit


async def test_says_that_the_branch_went_between_look_and_fetch(mirror: Mirror, origin: Repository) -> None:
    origin.commit()
    origin.branch("next")
    head = await look(mirror, source(origin, "next"))
    origin.delete_branch("next")
    with pytest.raises(GitFault) as found:
        await fetch(mirror, source(origin, "next"), head)
    assert found.value.state is RepositoryState.BRANCH_MISSING


async def test_answers_a_fetch_with_what_came(mirror: Mirror, origin: Repository) -> None:
    origin.commit()
    head = await look(mirror, source(origin))
    newer = origin.commit()
    assert await fetch(mirror, source(origin), head) == RefHead("refs/heads/main", newer)


@pytest.mark.parametrize("kind", ["nothing", "file", "folder", "bundle", "below a file"])
async def test_says_what_is_not_a_repository(mirror: Mirror, tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    message = "URL is not a Git repository; make one there, or correct `url`"
    match kind:
        case "nothing":
            pass
        case "file":
            place.write_text("text")
        case "folder":
            place.mkdir()
        case "bundle":
            Repository.init(tmp_path / "bundled").commit()
            Repository(tmp_path / "bundled").git("bundle", "create", "--quiet", str(place), "main")
        case _:
            place.write_text("text")
            place /= "below"
    assert await fault(mirror, Source(url=str(place))) == (RepositoryState.UNREACHABLE, message)


async def test_says_that_a_repository_uses_sha256(mirror: Mirror, tmp_path: Path) -> None:
    origin = Repository.init(tmp_path / "sha256", object_format="sha256")
    origin.commit()
    state, message = await fault(mirror, source(origin))
    assert state is RepositoryState.UNSUPPORTED_FORMAT
    assert "SHA-256" in message


async def test_says_that_a_repository_uses_a_format_of_the_future(mirror: Mirror, origin: Repository) -> None:
    origin.commit()
    origin.git("config", "core.repositoryFormatVersion", "1")
    origin.git("config", "extensions.hovering", "true")
    state, message = await fault(mirror, source(origin))
    assert (state, message) == (
        RepositoryState.UNSUPPORTED_FORMAT,
        "URL uses a repository format or extension that the installed git does not know, reftable for instance;"
        " upgrade git",
    )


async def test_says_that_an_object_fails_the_checks(mirror: Mirror, origin: Repository) -> None:
    blob = origin.blob(b"x")
    origin.commit_tree(origin.tree(("100644", b"z", blob), ("100644", b"a", blob)))
    with pytest.raises(GitFault) as found:
        await fetch(mirror, source(origin), await look(mirror, source(origin)))
    assert found.value.state is RepositoryState.UNSUPPORTED_FORMAT
    assert "Git's integrity checks (`git fsck` there says why)" in found.value.message


async def test_says_that_the_repository_lacks_objects(mirror: Mirror, origin: Repository) -> None:
    origin.write("a.yaml", "a")
    origin.commit()
    blob = origin.git("rev-parse", "HEAD:a.yaml")
    (origin.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(GitFault) as found:
        await fetch(mirror, source(origin), await look(mirror, source(origin)))
    assert found.value.state is RepositoryState.UNREACHABLE


async def test_says_that_the_repository_does_not_answer_and_recovers(mirror: Mirror, origin: Repository) -> None:
    origin.write("a.yaml", "a")
    origin.commit()
    head = origin.path / ".git/HEAD"
    head.unlink()
    os.mkfifo(head)  # whoever opens it waits for ever
    assert await fault(mirror, source(origin, timeout=0.3)) == (
        RepositoryState.UNREACHABLE,
        "URL did not answer within 0.3 seconds; look whether its disk hangs, or raise `timeout`",
    )
    head.unlink()
    head.write_text("ref: refs/heads/main\n")
    assert await fetched(mirror, source(origin)) == ["a.yaml"]


async def test_fetches_no_more_bytes_than_allowed(mirror: Mirror, origin: Repository) -> None:
    origin.write("big.bin", os.urandom(300_000))
    origin.commit()
    small = source(origin, max_bytes=100_000)
    with pytest.raises(GitFault) as found:
        await fetch(mirror, small, await look(mirror, small))
    assert (found.value.state, found.value.message.replace(small.url, "URL")) == (
        RepositoryState.UNREACHABLE,
        "URL sends more than the 100000 bytes or the 5000000 objects that one fetch may bring; shorten its history",
    )
    assert list((mirror.path / "objects/pack").iterdir()) == []
    assert await fetched(mirror, source(origin)) == ["big.bin"]


async def test_follows_a_rewind_and_keeps_what_was_before(mirror: Mirror, origin: Repository) -> None:
    first = origin.commit()
    second = origin.commit()
    await fetched(mirror, source(origin))
    origin.rewind(first)
    third = origin.commit("Another way")
    assert (await fetch(mirror, source(origin), await look(mirror, source(origin)))).commit == third
    with Snapshot.open(mirror.path, third) as snapshot:
        assert snapshot.has(second)
        assert snapshot.is_ancestor(first, third)
        assert not snapshot.is_ancestor(second, third)


async def test_follows_a_new_root(mirror: Mirror, origin: Repository) -> None:
    first = origin.commit()
    await fetched(mirror, source(origin))
    origin.restart()
    other = origin.commit("A new beginning")
    assert (await fetch(mirror, source(origin), await look(mirror, source(origin)))).commit == other
    with Snapshot.open(mirror.path, other) as snapshot:
        assert not snapshot.is_ancestor(first, other)


async def test_follows_a_branch_into_a_folder_of_its_name(mirror: Mirror, origin: Repository) -> None:
    commit = origin.commit()
    origin.branch("feature")
    await fetch(mirror, source(origin, "feature"), await look(mirror, source(origin, "feature")))
    origin.delete_branch("feature")
    origin.branch("feature/one")
    wanted = source(origin, "feature/one")
    assert await fetch(mirror, wanted, await look(mirror, wanted)) == RefHead("refs/heads/feature/one", commit)


@pytest.mark.parametrize("packed", [True, False])
async def test_reads_linked_worktrees_and_bare_repositories(mirror: Mirror, origin: Repository, packed: bool) -> None:
    origin.write("a.yaml", "a")
    origin.commit()
    linked = origin.worktree(origin.path.parent / "linked", "next")
    linked.write("b.yaml", "b")
    linked.commit()
    if packed:
        origin.git("pack-refs", "--all")
        origin.git("gc", "--quiet")
    bare = origin.bare(origin.path.parent / "bare.git")
    assert await fetched(mirror, source(linked)) == ["a.yaml", "b.yaml"]
    assert await fetched(mirror, source(bare)) == ["a.yaml"]


async def test_runs_no_hook_and_leaves_the_repository_as_it_was(
    mirror: Mirror, origin: Repository, tmp_path: Path
) -> None:
    origin.write("a.yaml", "a")
    origin.commit()
    for hook in ("reference-transaction", "post-checkout", "pre-auto-gc", "post-merge"):
        for place in (origin.path / ".git/hooks", mirror.path / "hooks"):
            place.mkdir(exist_ok=True)
            (place / hook).write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
            (place / hook).chmod(0o755)
    before = sorted(origin.path.rglob("*"))
    assert await fetched(mirror, source(origin)) == ["a.yaml"]
    assert sorted(origin.path.rglob("*")) == before
    assert not (tmp_path / "hooked").exists()


@pytest.mark.parametrize("command", ["init", "for-each-ref"])
async def test_that_git_was_killed_in_is_not_damaged_and_is_tried_again(
    mirror: Mirror, shim: Shim, command: str
) -> None:
    shim.kill(command)
    with pytest.raises(GitFault) as caught:
        await (mirror.rebuild() if command == "init" else mirror.heads())
    told = "the mirror of URL cannot be read (a signal ended git); mend that, and it is read"
    assert (caught.value.state, caught.value.message) == (RepositoryState.UNREACHABLE, told)
    assert caught.value.transient
    shim.act("")
    await mirror.rebuild()
    assert await mirror.heads() == {}


async def test_sweeps_what_a_killed_process_left(mirror: Mirror, origin: Repository) -> None:
    origin.write("a.yaml", "a")
    origin.commit()
    await fetched(mirror, source(origin))
    sound = sorted(mirror.path.rglob("*"))
    leftovers = [f"{HEAD.private_ref}.lock", "packed-refs.lock", "HEAD.lock", "config.lock"]
    leftovers += [
        "objects/pack/tmp_pack_x",
        "objects/pack/tmp_idx_x",
        "objects/pack/.tmp-1-pack-x.pack",
        "objects/ab/tmp_obj_x",
    ]
    for leftover in leftovers:
        (mirror.path / leftover).parent.mkdir(exist_ok=True)
        (mirror.path / leftover).touch()
    (mirror.path / "objects/tmp_objdir-incoming-x/pack").mkdir(parents=True)
    (mirror.path.parent / ".one.git.new").mkdir()
    (mirror.path.parent / ".one.git.old").mkdir()
    await mirror.ensure()
    assert sorted(mirror.path.rglob("*")) == sound
    assert [file.name for file in mirror.path.parent.iterdir()] == ["one.git"]
    origin.commit()
    assert await fetched(mirror, source(origin)) == ["a.yaml"]


async def test_says_that_the_main_repository_of_a_worktree_is_gone(mirror: Mirror, origin: Repository) -> None:
    origin.commit()
    linked = origin.worktree(origin.path.parent / "linked", "next")
    shutil.rmtree(origin.path)
    state, _ = await fault(mirror, source(linked))
    assert state is RepositoryState.UNREACHABLE


@pytest.mark.parametrize("damage", ["objects", "HEAD", "refs", "ref", "pack", "all"])
async def test_can_be_built_again_after_damage(mirror: Mirror, origin: Repository, damage: str) -> None:
    origin.write("a.yaml", "a")
    commit = origin.commit()
    await fetched(mirror, source(origin))
    match damage:
        case "HEAD":
            (mirror.path / "HEAD").unlink()
        case "ref":
            (mirror.path / HEAD.private_ref).write_text("")
        case "pack":
            for pack in (mirror.path / "objects/pack").glob("*.pack"):
                pack.chmod(0o644)
                pack.write_bytes(b"")
        case "all":
            shutil.rmtree(mirror.path)
        case folder:
            shutil.rmtree(mirror.path / folder)
    with pytest.raises(GitFault) as found:
        await fetch(mirror, source(origin), RefHead("refs/heads/main", commit))
    assert found.value.state is RepositoryState.MIRROR_CORRUPT
    assert found.value.transient
    await mirror.rebuild()
    assert await fetched(mirror, source(origin)) == ["a.yaml"]


async def test_stays_readable_while_its_packs_are_joined(
    mirror: Mirror, origin: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrors, "MANY_PACKS", 4)
    origin.write("a.yaml", "the first")
    commit = origin.commit()
    await fetched(mirror, source(origin))
    with Snapshot.open(mirror.path, commit) as early:
        for number in range(8):
            origin.write("a.yaml", f"number {number}")
            origin.commit()
            await fetched(mirror, source(origin))
        assert len(list((mirror.path / "objects/pack").glob("*.pack"))) <= 5
        assert [early.read(file.blob, 100) for file in early.files("")] == [b"the first"]


async def test_is_of_use_though_its_packs_cannot_be_joined(
    mirror: Mirror, origin: Repository, shim: Shim, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mirrors, "MANY_PACKS", 1)
    monkeypatch.setattr(mirrors, "TIDY_SECONDS", 0.5)
    left = mirror.path / "objects/pack/.tmp-1-pack-x.pack"
    shim.act(f'case "$*" in *repack*) touch {left}; exec sleep 60;; esac')
    for number in range(5):
        origin.write(f"{number}.yaml", "")
        origin.commit()
        assert len(await fetched(mirror, source(origin))) == number + 1
    slow = "git did not end in the mirror of URL within 0.5 seconds; look whether the disk of `stateDir` hangs"
    told = [record.getMessage() for record in caplog.records]
    assert told == [f"The packs of the mirror of URL were not joined: {slow}"] * 4
    shim.act("")
    monkeypatch.setattr(mirrors, "TIDY_SECONDS", 60)
    origin.commit()
    await fetched(mirror, source(origin))
    assert len(list((mirror.path / "objects/pack").glob("*.pack"))) == 1
    assert not left.exists()


async def test_is_not_damaged_when_it_is_slow(
    mirror: Mirror, origin: Repository, shim: Shim, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = origin.commit()
    monkeypatch.setattr(mirrors, "OWN_SECONDS", 0.2)
    shim.act('case "$*" in *for-each-ref*) exec sleep 60;; esac')
    with pytest.raises(GitFault) as found:
        await fetch(mirror, source(origin), RefHead("refs/heads/main", commit))
    assert (found.value.state, found.value.transient, found.value.message) == (
        RepositoryState.UNREACHABLE,
        True,
        "git did not end in the mirror of URL within 0.2 seconds; look whether the disk of `stateDir` hangs",
    )


async def test_knows_and_drops_any_number_of_refs_with_one_git_each(
    mirror: Mirror, origin: Repository, shim: Shim
) -> None:
    commit = origin.commit()
    followed = [Followed(RefKind.TAG, name) for name in ("a", "b", "c", "outer", "tree")]
    for one in followed[:3]:
        origin.git("tag", "--annotate", "--message=x", one.name)
    origin.git("tag", "--annotate", "--message=x", "outer", "a")
    origin.git("tag", "--annotate", "--message=x", "tree", "HEAD^{tree}")
    wanted = source(origin)
    for one in followed[:4]:
        await mirror.fetch(wanted, one, RefHead(one.full, commit))
    with pytest.raises(GitFault, match="names no commit"):
        await mirror.fetch(wanted, followed[4], RefHead(followed[4].full, commit))
    tags = {one.private_ref: origin.head(one.name) for one in followed[:4]}
    before = len(shim.lines())
    heads = await mirror.heads()
    assert {ref: head.tag for ref, head in heads.items()} == tags
    assert {head.commit for head in heads.values()} == {commit}
    assert len(shim.lines()) == before + 2
    await mirror.drop([one.private_ref for one in followed])
    assert len(shim.lines()) == before + 3
    assert await mirror.heads() == {}


def packs_of(mirror: Mirror) -> list[str]:
    return sorted(file.name for file in (mirror.path / "objects/pack").iterdir())


async def test_keeps_nothing_of_a_further_commit_that_fails_the_checks(mirror: Mirror, origin: Repository) -> None:
    origin.write("a.yaml", "a")
    origin.commit()
    await fetched(mirror, source(origin))
    packs = packs_of(mirror)
    tree = origin.git("rev-parse", "HEAD^{tree}")
    bad = f"tree {tree}\nparent {origin.head()}\nauthor nobody\ncommitter nobody\n\nx\n"
    commit = origin.git("hash-object", "-t", "commit", "-w", "--stdin", "--literally", data=bad.encode())
    origin.git("update-ref", "refs/heads/main", commit)
    with pytest.raises(GitFault) as found:
        await fetched(mirror, source(origin))
    assert found.value.of_head
    assert packs_of(mirror) == packs
    assert Repository(mirror.path).git("rev-parse", HEAD.private_ref) != commit


async def test_brings_no_further_commit_that_lacks_a_file(mirror: Mirror, origin: Repository) -> None:
    origin.write("a.yaml", "a")
    origin.commit()
    await fetched(mirror, source(origin))
    packs = packs_of(mirror)
    origin.write("b.yaml", "b")
    origin.commit()
    blob = origin.git("rev-parse", "HEAD:b.yaml")
    (origin.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(GitFault):
        await fetched(mirror, source(origin))
    assert packs_of(mirror) == packs


async def test_brings_histories_of_every_shape(mirror: Mirror, origin: Repository) -> None:
    async def comes() -> bool:
        await fetched(mirror, source(origin))
        held = Repository(mirror.path)
        return (held.git("rev-parse", HEAD.private_ref), held.git("fsck", "--full", "--strict", "--no-dangling")) == (
            origin.head(),
            "",
        )

    origin.write("a/b.yaml", "1")
    first = origin.commit()
    assert await comes()
    origin.git("switch", "--quiet", "--create", "side", first)
    origin.write("side\n:100644.yaml", "1")
    origin.commit()
    origin.git("switch", "--quiet", "main")
    origin.git("merge", "--quiet", "--no-ff", "--no-edit", "side")
    assert await comes()
    origin.git("rm", "--quiet", "-r", "a")
    origin.write("a", "a file now")
    origin.commit()
    assert await comes()
    origin.rewind(first)
    assert await comes()
    origin.restart()
    origin.write("b.yaml", "b")
    origin.commit("Another root")
    origin.git("reflog", "expire", "--expire=now", "--all")
    origin.git("gc", "--quiet", "--prune=now")
    assert await comes()
