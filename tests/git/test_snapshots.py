"""A snapshot."""

import datetime
import gc
import os
import shutil
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.git import trees
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.snapshots import CommitInfo, Snapshot
from reconciler.git.trees import TreeChange, TreeFile, TreeMode
from reconciler.model.errors import Refused
from reconciler.model.text import visible
from tests.repositories import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.init(tmp_path / "origin")


def opened(repository: Repository, commit: str | None = None) -> Snapshot:
    repository.pack()
    return Snapshot.open(repository.path / ".git", commit or repository.head())


def paths(repository: Repository, path: str = "") -> list[str]:
    with opened(repository) as snapshot:
        return [file.path for file in snapshot.files(path)]


def changes(repository: Repository, *, old: str, new: str, path: str = "") -> list[TreeChange]:
    with opened(repository, old) as before, opened(repository, new) as after:
        return after.changes(before.tree(path), after.tree(path), path)


def test_knows_its_commit(repository: Repository) -> None:
    commit = repository.commit("First")
    with opened(repository) as snapshot:
        date = datetime.datetime(2023, 11, 14, 22, 14, 20, tzinfo=datetime.UTC)
        assert snapshot.commit == CommitInfo(commit, "Ada Lovelace <ada@example.com>", date)


@pytest.mark.parametrize(
    ("author", "shown", "date"),
    [
        (b"A\x1b[2J\xff <a@b\x07> 99999999999999 +0000", "A[2J\ufffd <a@b>", 0),
        (b"x" * 5000 + b" <a@b> 60 +9959", "x" * 256 + " <a@b>", 60),
        (b" <> 60 +0000", " <>", 60),
    ],
)
def test_shows_a_hostile_author_as_one_short_line(repository: Repository, author: bytes, shown: str, date: int) -> None:
    commit = b"tree %s\nauthor %s\ncommitter C <c@d> 60 +0000\n\nx\n" % (repository.tree().encode(), author)
    written = repository.git("hash-object", "-w", "-t", "commit", "--literally", "--stdin", data=commit)
    with opened(repository, written) as snapshot:
        assert snapshot.commit.author == shown
        assert snapshot.commit.date == datetime.datetime.fromtimestamp(date, datetime.UTC)


def test_lists_files_sorted_by_path(repository: Repository) -> None:
    names = ["a.yaml", "a/b.yaml", "a-b.yaml", "a/c/d.yaml", "a0", "A.yaml", "été.yaml", "z.yaml", "a/c.yaml"]
    for name in names:
        repository.write(name, name)
    repository.commit()
    assert paths(repository) == sorted(names, key=str.encode)


def test_says_what_each_file_is(repository: Repository) -> None:
    repository.write("run.yaml", "x", executable=True)
    repository.write("text.yaml", "x")
    repository.link("link.yaml", "/etc/passwd")
    inner = Repository.init(repository.path / "inner")
    inner_commit = inner.commit()
    repository.git("-c", "advice.addEmbeddedRepo=false", "add", "inner")
    repository.commit()
    x, target = repository.git("rev-parse", "HEAD:text.yaml"), repository.git("rev-parse", "HEAD:link.yaml")
    with opened(repository) as snapshot:
        assert list(snapshot.files("")) == [
            TreeFile("inner", inner_commit, TreeMode.SUBMODULE),
            TreeFile("link.yaml", target, TreeMode.SYMLINK),
            TreeFile("run.yaml", x, TreeMode.EXECUTABLE),
            TreeFile("text.yaml", x, TreeMode.REGULAR),
        ]


def test_does_not_look_into_folders_that_begin_with_a_dot(repository: Repository) -> None:
    for name in (".github/a.yaml", "a/.hidden/b.yaml", "a/c.yaml", ".serviceignore", ".d.yaml"):
        repository.write(name, "x")
    repository.commit()
    assert paths(repository) == [".d.yaml", ".serviceignore", "a/c.yaml"]
    assert paths(repository, ".github") == [".github/a.yaml"]


@pytest.mark.parametrize("path", ["teams", "teams/", "/teams", "./teams//"])
def test_reads_one_folder_alone(repository: Repository, path: str) -> None:
    repository.write("teams/a.yaml", "x")
    repository.write("teams2/b.yaml", "x")
    repository.commit()
    assert paths(repository, path) == ["teams/a.yaml"]


@pytest.mark.parametrize(
    "path", ["other", "teams/a.yaml", "teams/a.yaml/b", "..", "teams/../teams", "link", "inner", "TEAMS", "\udcff"]
)
def test_says_that_the_folder_is_missing(repository: Repository, path: str) -> None:
    repository.write("teams/a.yaml", "x")
    repository.link("link", "teams")
    Repository.init(repository.path / "inner").commit()
    repository.git("-c", "advice.addEmbeddedRepo=false", "add", "inner")
    repository.commit()
    with opened(repository) as snapshot, pytest.raises(GitFault) as found:
        snapshot.tree(path)
    assert found.value.state is RepositoryState.PATH_MISSING
    assert visible(path) in found.value.message


def test_reports_hostile_names_and_never_takes_them_for_paths(repository: Repository) -> None:
    blob = repository.blob(b"x")
    inner = repository.tree(("100644", b"in.yaml", blob))
    tree = repository.tree(
        ("40000", b"..", inner),
        ("100644", b"../up.yaml", blob),
        ("40000", b".git", inner),
        ("100644", b"/etc/x.yaml", blob),
        ("100644", b"a\\b.yaml", blob),
        ("40000", b"f\xff", inner),
        ("100644", b"fine.yaml", blob),
    )
    repository.commit_tree(tree)
    with opened(repository) as snapshot:
        assert list(snapshot.files("")) == [
            TreeFile("..\\u002fup.yaml", blob, TreeMode.HOSTILE),
            TreeFile("\\u002fetc\\u002fx.yaml", blob, TreeMode.HOSTILE),
            TreeFile("a\\\\b.yaml", blob, TreeMode.HOSTILE),
            TreeFile("f\\xff/in.yaml", blob, TreeMode.HOSTILE),
            TreeFile("fine.yaml", blob, TreeMode.REGULAR),
        ]
        with pytest.raises(GitFault):
            snapshot.tree("..")


def test_refuses_a_tree_that_repeats_itself_without_end(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "MAX_ENTRIES", 100_000)
    tree = repository.tree(("100644", b"a.yaml", repository.blob(b"x")))
    for _ in range(30):
        tree = repository.tree(*(("40000", b"d%d" % number, tree) for number in range(10)))
    repository.commit_tree(tree)
    with opened(repository) as snapshot:
        for walk in (lambda: list(snapshot.files("")), lambda: snapshot.changes(trees.EMPTY, tree, "")):
            with pytest.raises(GitFault) as found:
                walk()
            assert found.value.state is RepositoryState.UNSUPPORTED_FORMAT


def test_reads_a_file_only_when_it_is_small_enough(repository: Repository) -> None:
    content = os.urandom(1000)
    repository.write("a.bin", content)
    repository.commit()
    blob = repository.git("rev-parse", "HEAD:a.bin")
    with opened(repository) as snapshot:
        assert snapshot.size(blob) == 1000
        assert snapshot.read(blob, 1000) == content
        with pytest.raises(Refused, match="has 1000 bytes, and at most 999 are read"):
            snapshot.read(blob, 999)


def test_says_what_changed(repository: Repository) -> None:
    repository.write("a.yaml", "1")
    repository.write("b/c.yaml", "2")
    repository.write("d.yaml", "3")
    repository.write("e/f.yaml", "4")
    repository.write("same.yaml", "5")
    old = repository.commit()
    repository.write("a.yaml", "changed")
    repository.remove("b")
    repository.write("b", "now a file")
    repository.remove("d.yaml")
    repository.write("d.yaml/x.yaml", "now a folder")
    repository.write("e/f.yaml", "4", executable=True)
    repository.move("same.yaml", "moved.yaml")
    repository.write(".dot/g.yaml", "unseen")
    new = repository.commit()

    def blob(commit: str, path: str) -> str:
        return repository.git("rev-parse", f"{commit}:{path}")

    def regular(path: str) -> TreeFile:
        return TreeFile(path, blob(new, path), TreeMode.REGULAR)

    assert changes(repository, old=old, new=new) == [
        TreeChange("a.yaml", blob(old, "a.yaml"), regular("a.yaml")),
        TreeChange("b", None, regular("b")),
        TreeChange("b/c.yaml", blob(old, "b/c.yaml"), None),
        TreeChange("d.yaml", blob(old, "d.yaml"), None),
        TreeChange("d.yaml/x.yaml", None, regular("d.yaml/x.yaml")),
        TreeChange("e/f.yaml", blob(old, "e/f.yaml"), TreeFile("e/f.yaml", blob(new, "e/f.yaml"), TreeMode.EXECUTABLE)),
        TreeChange("moved.yaml", None, regular("moved.yaml")),
        TreeChange("same.yaml", blob(old, "same.yaml"), None),
    ]
    assert changes(repository, old=old, new=old) == []
    assert [change.path for change in changes(repository, old=old, new=new, path="e")] == ["e/f.yaml"]


NAMES = st.sampled_from(["a", "a.yaml", "b", "b-c", "b.d", "é"])
TREES = st.dictionaries(st.lists(NAMES, min_size=1, max_size=3).map("/".join), st.sampled_from(["1", "2"]), max_size=6)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TREES, TREES)
def test_says_the_same_as_git_of_what_changed(tmp_path: Path, first: dict[str, str], second: dict[str, str]) -> None:
    shutil.rmtree(tmp_path / "any", ignore_errors=True)
    repository = Repository.init(tmp_path / "any")
    old, new = (commit_files(repository, files) for files in (first, second))
    git = repository.git("diff-tree", "-r", "-z", "--no-renames", old, new).split("\0")[:-1]
    expected = {path: line.split(" ")[2:4] for line, path in zip(git[::2], git[1::2], strict=True)}
    ours = changes(repository, old=old, new=new)
    none = "0" * 40
    assert {
        change.path: [change.old_blob or none, change.new.blob if change.new else none] for change in ours
    } == expected
    assert [change.path for change in ours] == sorted(expected)
    assert paths(repository) == repository.git("-c", "core.quotePath=false", "ls-files").split()


def commit_files(repository: Repository, files: dict[str, str]) -> str:
    """Commit these files and no others; a file in whose place an earlier one needs a folder is left out."""
    for entry in repository.path.iterdir():
        if entry.name != ".git":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for path, content in files.items():
        above = any((repository.path / parent).is_file() for parent in Path(path).parents)
        if not above and not (repository.path / path).is_dir():
            repository.write(path, content)
    return repository.commit()


def test_knows_what_comes_before_what(repository: Repository) -> None:
    first = repository.commit()
    second = repository.commit()
    repository.rewind(first)
    third = repository.commit("Another way")
    with opened(repository) as snapshot:
        assert snapshot.is_ancestor(first, third)
        assert snapshot.is_ancestor(third, third)
        assert not snapshot.is_ancestor(second, third)
        assert not snapshot.is_ancestor(third, first)
        assert not snapshot.is_ancestor("1" * 40, third)
        assert snapshot.has(second)
        assert not snapshot.has("1" * 40)


def test_knows_which_histories_have_nothing_in_common(repository: Repository) -> None:
    first = repository.commit()
    second = repository.commit()
    repository.rewind(first)
    sideways = repository.commit("Another way")
    repository.restart()
    fresh = repository.commit("Another root")
    with opened(repository) as snapshot:
        for one, other in [(first, second), (second, first), (second, sideways), (fresh, fresh)]:
            assert not snapshot.is_unrelated(one, other)
        assert snapshot.is_unrelated(second, fresh)
        assert snapshot.is_unrelated(fresh, sideways)
        # Nothing is known of what the mirror lacks.
        assert not snapshot.is_unrelated("1" * 40, fresh)
        assert not snapshot.is_unrelated(fresh, "1" * 40)


@pytest.mark.parametrize("what", ["HEAD:a.yaml", "HEAD:", "HEAD:b", "HEAD"])
def test_takes_no_missing_object_for_an_absent_file(repository: Repository, what: str) -> None:
    repository.write("a.yaml", "content" * 100)
    repository.write("b/c.yaml", "more")
    commit = repository.commit()
    missing = repository.git("rev-parse", what)
    listed = [line.split()[0] for line in repository.git("rev-list", "--objects", "HEAD").splitlines()]
    some = "\n".join(object_id for object_id in listed if object_id != missing)
    repository.git("pack-objects", "--quiet", ".git/objects/pack/pack", data=some.encode())
    with pytest.raises(GitFault) as found:
        read_everything(repository, commit)
    assert found.value.state is RepositoryState.MIRROR_CORRUPT


@pytest.mark.parametrize("damage", ["removed", "empty", "cut", "garbage"])
@pytest.mark.parametrize("suffix", [".pack", ".idx"])
def test_says_that_a_pack_is_damaged(repository: Repository, suffix: str, damage: str) -> None:
    repository.write("a.yaml", "content" * 100)
    commit = repository.commit()
    opened(repository).close()
    [file] = (repository.path / ".git/objects/pack").glob(f"*{suffix}")
    content = file.read_bytes()
    file.unlink()
    if damage != "removed":
        file.write_bytes({"empty": b"", "cut": content[: len(content) // 2], "garbage": b"\x5a" * len(content)}[damage])
    with pytest.raises(GitFault) as found:
        read_everything(repository, commit)
    assert found.value.state is RepositoryState.MIRROR_CORRUPT


def test_opening_a_mirror_again_and_again_keeps_nothing(repository: Repository) -> None:
    commit = repository.commit()
    repository.pack()
    mirror = repository.path / ".git"

    def open_often() -> int:
        for _ in range(500):
            with Snapshot.open(mirror, commit):
                pass
        gc.collect()
        return sys.getallocatedblocks()

    open_often()
    before = open_often()
    assert open_often() - before < 100


def test_reads_nothing_but_packs(repository: Repository) -> None:
    commit = repository.commit()
    with pytest.raises(GitFault) as found:
        read_everything(repository, commit)
    assert found.value.state is RepositoryState.MIRROR_CORRUPT


def read_everything(repository: Repository, commit: str) -> None:
    with Snapshot.open(repository.path / ".git", commit) as snapshot:
        for file in snapshot.files(""):
            snapshot.read(file.blob, 10_000)


@pytest.mark.parametrize("commit", ["1" * 40, "main", "", "1234"])
def test_opens_only_commits_it_holds(repository: Repository, commit: str) -> None:
    repository.commit()
    with pytest.raises(GitFault) as found:
        Snapshot.open(repository.path / ".git", commit)
    assert found.value.state is RepositoryState.MIRROR_CORRUPT


def test_opens_nothing_but_commits(repository: Repository) -> None:
    with pytest.raises(GitFault) as found:
        opened(repository, repository.blob(b"x"))
    assert found.value.state is RepositoryState.UNSUPPORTED_FORMAT


def test_needs_the_mirror_itself(tmp_path: Path, repository: Repository) -> None:
    commit = repository.commit()
    for place in (tmp_path / "nowhere", repository.path / ".git/refs"):  # never a repository further up
        with pytest.raises(GitFault) as found:
            Snapshot.open(place, commit)
        assert found.value.state is RepositoryState.MIRROR_CORRUPT


def test_lists_and_compares_ten_thousand_files_at_once(repository: Repository) -> None:
    blob = repository.blob(b"x")
    folder = repository.tree(*(("100644", b"f%03d.yaml" % number, blob) for number in range(100)))
    tree = repository.tree(*(("40000", b"d%03d" % number, folder) for number in range(100)))
    repository.commit_tree(tree)
    with opened(repository) as snapshot:
        started = time.process_time()
        files = list(snapshot.files(""))
        new = snapshot.changes(trees.EMPTY, tree, "")
        assert time.process_time() - started < 1  # about 0.05 here; a machine may be slow and busy
    assert len(files) == len(new) == 10_000
