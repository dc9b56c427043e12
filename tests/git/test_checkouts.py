"""A checkout."""

import os
import shutil
from pathlib import Path

import pygit2
import pytest

from reconciler.git.checkouts import Checkout
from reconciler.model.errors import ReconcilerError, Refused
from tests.needs import require_root
from tests.repositories import Repository

TEXT = "".join(f"line {number}\n" for number in range(20))
NO_COMMITS = "the repository has no commits yet; commit something first"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository.init(tmp_path / "origin")
    repository.write("a.yaml", TEXT)
    repository.write("folder/b.yaml", TEXT)
    repository.commit()
    return repository


def clone(repository: Repository, path: Path, *options: str) -> Repository:
    repository.git("clone", "-q", "--no-local", *options, repository.path.as_uri(), str(path))
    return repository.at(path)


def content(checkout: Checkout, commit: str, path: str, limit: int) -> bytes | None:
    """A file of a commit; None when there is none."""
    snapshot = checkout.merge(commit, commit).head
    blob = snapshot.blob(path)
    return None if blob is None else snapshot.read(blob, limit)


def refusal(folder: Path) -> str:
    with pytest.raises(Refused) as found:
        Checkout.open(folder)
    return found.value.message


@pytest.mark.parametrize("folder", ["", "folder", ".git", ".git/refs"])
def test_is_found_from_any_folder_of_it(repository: Repository, folder: str) -> None:
    with Checkout.open(repository.path / folder) as checkout:
        assert checkout.root == repository.path
        assert checkout.resolve("HEAD") == ("main", repository.head())


def test_may_be_bare(repository: Repository, tmp_path: Path) -> None:
    bare = repository.bare(tmp_path / "bare")
    with Checkout.open(bare.path) as checkout:
        assert checkout.root is None
        assert checkout.resolve("main") == ("main", repository.head())
        with pytest.raises(Refused, match="a bare repository has no worktree; leave out --worktree"):
            checkout.worktree_commit()


def test_may_be_a_linked_worktree(repository: Repository, tmp_path: Path) -> None:
    linked = repository.worktree(tmp_path / "linked", "topic")
    linked.write("c.yaml", "c")
    head = linked.commit()
    linked.write("d.yaml", "d")
    with Checkout.open(linked.path / "folder") as checkout:
        assert checkout.root == linked.path
        assert checkout.resolve("HEAD")[1] == head != repository.head()
        merged = checkout.merge(repository.head(), checkout.worktree_commit()).merged
        assert [file.path for file in merged.files("")] == ["a.yaml", "c.yaml", "d.yaml", "folder/b.yaml"]


def test_does_not_heed_variables_of_git(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Repository.init(tmp_path / "other")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_INDEX_FILE"):
        monkeypatch.setenv(name, str(other.path / ".git"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(repository.path))
    monkeypatch.setenv("GIT_NAMESPACE", "other")
    with Checkout.open(repository.path / "folder") as checkout:
        head = checkout.resolve("HEAD")[1]
        assert head == repository.head()
        assert checkout.merge(head, checkout.worktree_commit()).merged.blob("a.yaml")


def test_may_belong_to_somebody_else(repository: Repository) -> None:
    require_root()
    for file in (repository.path, *repository.path.rglob("*")):
        os.chown(file, 12345, 12345)
    with pytest.raises(pygit2.GitError, match="not owned"):
        pygit2.Repository(str(repository.path))
    repository.write("c.yaml", "c")
    with Checkout.open(repository.path) as checkout:
        assert checkout.merge(checkout.resolve("main")[1], checkout.worktree_commit()).merged.blob("c.yaml")
    with pytest.raises(pygit2.GitError, match="not owned"):  # which is so for nobody else
        pygit2.Repository(str(repository.path))


def test_is_refused_where_there_is_none(tmp_path: Path) -> None:
    told = f"there is no Git repository at {tmp_path} or above it; run it in one"
    assert refusal(tmp_path) == told
    assert refusal(tmp_path / "absent").startswith(f"there is no Git repository at {tmp_path}/absent")


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (
            "[core]\nrepositoryformatversion = 1\n[extensions]\nobjectFormat = sha256\n",
            "object format",
        ),
        (
            "[core]\nrepositoryformatversion = 1\n[extensions]\nrefStorage = reftable\n",
            "extensions.refstorage",
        ),
        (
            "[core]\nrepositoryformatversion = 1\n[extensions]\nfoo = bar\n",
            "extensions.foo",
        ),
        ("[core]\nrepositoryformatversion = 9\n", "unsupported repository version 9"),
        ("[core", "failed to parse config file"),
    ],
)
def test_is_refused_in_a_format_that_libgit2_cannot_read(repository: Repository, config: str, told: str) -> None:
    (repository.path / ".git/config").write_text(config)
    assert told in refusal(repository.path)


def test_has_no_commits_yet(tmp_path: Path) -> None:
    repository = Repository.init(tmp_path)
    with Checkout.open(tmp_path) as checkout:
        for ask in (checkout.default_base, lambda: checkout.resolve("HEAD"), checkout.worktree_commit):
            with pytest.raises(Refused, match=NO_COMMITS):
                ask()
    repository.commit()
    repository.git("checkout", "-q", "--orphan", "fresh")
    with Checkout.open(tmp_path) as checkout:
        assert checkout.default_base() == "refs/heads/main"
        with pytest.raises(Refused, match=NO_COMMITS):
            checkout.resolve("HEAD")


def default_base(path: Path) -> str:
    with Checkout.open(path) as checkout:
        name = checkout.default_base()
        checkout.resolve(name)
        return name


def test_is_compared_with_what_the_remote_calls_its_head(repository: Repository, tmp_path: Path) -> None:
    repository.git("branch", "-m", "trunk")
    cloned = clone(repository, tmp_path / "clone")
    cloned.branch("main")
    assert default_base(cloned.path) == "refs/remotes/origin/trunk"


@pytest.mark.parametrize(
    ("refs", "base"),
    [
        (["refs/heads/master", "refs/heads/main"], "refs/heads/main"),
        (["refs/heads/master", "refs/remotes/origin/main"], "refs/remotes/origin/main"),
        (["refs/heads/main", "refs/remotes/origin/main"], "refs/heads/main"),
        (["refs/heads/master", "refs/remotes/origin/master"], "refs/heads/master"),
        (["refs/remotes/origin/master", "refs/tags/main"], "refs/remotes/origin/master"),
    ],
)
def test_is_compared_with_main_or_else_master(repository: Repository, refs: list[str], base: str) -> None:
    repository.git("checkout", "-q", "--detach")
    repository.delete_branch("main")
    for ref in refs:
        repository.git("update-ref", ref, repository.head())
    repository.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/gone")
    assert default_base(repository.path) == base


def test_says_that_a_base_must_be_named(repository: Repository) -> None:
    repository.git("branch", "-m", "topic")
    with Checkout.open(repository.path) as checkout, pytest.raises(Refused, match="name it with --base"):
        checkout.default_base()


def test_knows_commits_by_every_name_that_git_has(repository: Repository, tmp_path: Path) -> None:
    first = repository.head()
    repository.git("tag", "light")
    repository.git("tag", "-a", "-m", "Annotated", "heavy")
    repository.write("a.yaml", "x")
    second = repository.commit()
    cloned = clone(repository, tmp_path / "clone")
    names = {
        "main": ("main", second),
        "refs/heads/main": ("main", second),
        "origin/main": ("origin/main", second),
        "refs/remotes/origin/main": ("origin/main", second),
        "HEAD~1": ("HEAD~1", first),
        "light": ("light", first),
        "heavy": ("heavy", first),
        "refs/tags/heavy": ("heavy", first),
        first: (first, first),
        first[:10]: (first[:10], first),
    }
    with Checkout.open(cloned.path) as checkout:
        assert {name: checkout.resolve(name) for name in names} == names
    cloned.git("checkout", "-q", "--detach", first)
    with Checkout.open(cloned.path) as checkout:
        assert checkout.resolve("HEAD") == ("HEAD", first)


@pytest.mark.parametrize(
    "name", ["absent", "", "HEAD~5", "-x", "a\0b", "main..main", "HEAD:a.yaml", "x" * 5000, "\udcff"]
)
def test_refuses_what_names_no_commit(repository: Repository, name: str) -> None:
    with Checkout.open(repository.path) as checkout, pytest.raises(Refused) as found:
        checkout.resolve(name)
    assert "name a branch, a tag or a commit" in found.value.message
    assert len(found.value.message) < 400


def test_refuses_the_id_of_several_commits(repository: Repository) -> None:
    tree = repository.git("rev-parse", "HEAD^{tree}")
    seen: dict[str, str] = {}
    number, twice = 0, ""
    while not twice:  # of 16 to the power of 4, some 300 commits
        commit = repository.git("commit-tree", "-m", str(number), tree)
        number, twice = number + 1, commit[:4] if commit[:4] in seen else ""
        seen[commit[:4]] = commit
    with Checkout.open(repository.path) as checkout, pytest.raises(Refused, match="more than one commit"):
        checkout.resolve(twice)


def test_says_how_a_shallow_clone_is_deepened(repository: Repository, tmp_path: Path) -> None:
    repository.branch("topic")
    for branch in ("main", "topic"):
        repository.switch(branch)
        repository.write(f"{branch}.yaml", "x")
        repository.commit()
    cloned = clone(repository, tmp_path / "clone", "--depth=1", "--no-single-branch")
    deepen = "fetch the rest with `git fetch --unshallow`"
    with Checkout.open(cloned.path) as checkout:
        with pytest.raises(Refused, match=deepen):
            checkout.resolve("HEAD~1")
        with pytest.raises(Refused, match=deepen):
            checkout.merge(checkout.resolve("origin/main")[1], checkout.resolve("origin/topic")[1])
    cloned.git("fetch", "-q", "--unshallow")
    with Checkout.open(cloned.path) as checkout:
        merged = checkout.merge(checkout.resolve("origin/main")[1], checkout.resolve("origin/topic")[1])
        assert (merged.behind, merged.ahead) == (1, 1)


def test_says_how_a_clone_of_one_branch_gets_another(repository: Repository, tmp_path: Path) -> None:
    repository.branch("topic")
    for branch in ("main", "topic"):
        repository.switch(branch)
        repository.write(f"{branch}.yaml", "x")
        repository.commit()
    cloned = clone(repository, tmp_path / "clone", "--depth=1", "--branch=topic")
    for _ in range(2):  # the other branch, then what both have in common
        with Checkout.open(cloned.path) as checkout, pytest.raises(Refused, match=r"`git fetch .+`$") as found:
            checkout.merge(checkout.resolve("origin/main")[1], checkout.resolve("HEAD")[1])
        cloned.git(*found.value.message.split("`")[-2].split()[1:])
    with Checkout.open(cloned.path) as checkout:
        merged = checkout.merge(checkout.resolve("origin/main")[1], checkout.resolve("HEAD")[1])
        assert (merged.behind, merged.ahead) == (1, 1)
    with Checkout.open(cloned.path) as checkout, pytest.raises(Refused, match="name a branch, a tag or a commit"):
        checkout.resolve("origin/$(id)")


def test_says_what_a_partial_clone_lacks(repository: Repository, tmp_path: Path) -> None:
    repository.git("config", "uploadpack.allowFilter", "true")
    repository.branch("topic")
    repository.write("a.yaml", "main\n" + TEXT)
    repository.commit()
    repository.switch("topic")
    repository.write("a.yaml", TEXT + "topic\n")
    repository.commit()
    cloned = clone(repository, tmp_path / "clone", "--filter=blob:none")
    told = "this is a partial clone, which lacks a file that is needed; clone it without --filter"
    with Checkout.open(cloned.path) as checkout:
        base, head = checkout.resolve("origin/main")[1], checkout.resolve("origin/topic")[1]
        assert content(checkout, head, "a.yaml", 1000) == (TEXT + "topic\n").encode()  # what is checked out is there
        with pytest.raises(ReconcilerError, match=told):
            checkout.merge(base, head)
        with pytest.raises(ReconcilerError, match=told):
            content(checkout, base, "a.yaml", 1000)


def test_reads_a_file_of_a_commit(repository: Repository) -> None:
    repository.write(".github/CODEOWNERS", "* @ada")
    repository.link("link", "a.yaml")
    commit = repository.commit()
    with Checkout.open(repository.path) as checkout:
        assert content(checkout, commit, ".github/CODEOWNERS", 6) == b"* @ada"
        for absent in ("CODEOWNERS", ".github", "link", "docs/CODEOWNERS", "a.yaml/x", "", "/", ".."):
            assert content(checkout, commit, absent, 100) is None
        with pytest.raises(Refused, match="the file has 6 bytes, and at most 5 are read"):
            content(checkout, commit, ".github/CODEOWNERS", 5)


def test_says_what_to_do_about_a_missing_object(repository: Repository) -> None:
    blob = repository.git("rev-parse", "HEAD:a.yaml")
    (repository.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with Checkout.open(repository.path) as checkout, pytest.raises(ReconcilerError, match="see what `git fsck` says"):
        content(checkout, repository.head(), "a.yaml", 1000)


def test_reads_objects_that_another_repository_has(repository: Repository, tmp_path: Path) -> None:
    repository.git("clone", "-q", "--shared", ".", str(tmp_path / "clone"))
    with Checkout.open(tmp_path / "clone") as checkout:
        assert content(checkout, repository.head(), "a.yaml", 1000) == TEXT.encode()


def test_runs_nothing_that_its_configuration_names(repository: Repository, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho x >> {ran}\ncat\n")
    program.chmod(0o755)
    named = repository.path / ".git/named"
    named.write_text(
        f"[core]\nfsmonitor = {program}\neditor = {program}\npager = {program}\nsshCommand = {program}\n"
        f"askPass = {program}\ngitProxy = {program}\nalternateRefsCommand = {program}\n"
        f"hooksPath = {tmp_path / 'hooks'}\n"
        f'[filter "x"]\nclean = {program}\nsmudge = {program}\nprocess = {program}\nrequired = true\n'
        f'[filter "lfs"]\nclean = {program}\nsmudge = {program}\nprocess = {program}\nrequired = true\n'
        f'[merge "x"]\ndriver = {program}\n[diff "x"]\ncommand = {program}\ntextconv = {program}\n'
        f"[diff]\nexternal = {program}\n[credential]\nhelper = !{program}\n[gpg]\nprogram = {program}\n"
        f'[uploadpack]\npackObjectsHook = {program}\n[alias]\nstatus = !{program}\n[remote "origin"]\n'
        f"url = ext::{program}\nuploadpack = {program}\npromisor = true\n"
    )
    repository.write(".gitattributes", "*.yaml filter=x diff=x merge=x text eol=crlf ident\n*.bin filter=lfs\n")
    repository.branch("topic")
    repository.commit()
    repository.write("a.yaml", "main\n" + TEXT)
    repository.commit()
    repository.git("switch", "-q", "topic")
    repository.write("a.yaml", TEXT + "topic\r\n")
    (tmp_path / "hooks").mkdir()
    for hook in ("pre-commit", "post-index-change", "fsmonitor-watchman", "reference-transaction", "post-checkout"):
        for folder in (repository.path / ".git/hooks", tmp_path / "hooks"):
            folder.mkdir(exist_ok=True)
            shutil.copy(program, folder / hook)
    with (repository.path / ".git/config").open("a") as config:
        config.write(f"[include]\npath = {named}\n")
    repository.write("new.yaml", "$Id$\r\n")
    repository.write("new.bin", "large")
    with Checkout.open(repository.path / "folder") as checkout:
        head = checkout.worktree_commit()
        merged = checkout.merge(checkout.resolve(checkout.default_base())[1], head)
        assert content(checkout, head, "new.yaml", 100) == b"$Id$\r\n"
        contents = {file.path: merged.merged.read(file.blob, 1000) for file in merged.merged.files("")}
    assert contents["a.yaml"] == f"main\n{TEXT}topic\r\n".encode()
    assert contents["new.bin"] == b"large"
    assert not ran.exists()
    repository.git("status", statuses=(0, 128))
    assert ran.exists()  # as git itself shows, it would have been possible
