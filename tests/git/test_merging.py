"""A merge in memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.git import merging
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.merging import Conflicts, Merged, Unrelated
from reconciler.git.merging import MemoryRepository as Opened
from reconciler.model.errors import Refused
from tests.git.histories import build
from tests.repositories import Repository

TEXT = "".join(f"line {number}\n" for number in range(20))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.init(tmp_path / "origin")


def mirrored(repository: Repository) -> Opened:
    repository.pack()
    return merging.open_mirrors(repository.path / ".git", None)


def parted(repository: Repository) -> None:
    """A first commit on main, and a branch `head` at it."""
    repository.commit("First")
    repository.branch("head")


def merge(repository: Repository, opened: Opened, base: str = "main", head: str = "head") -> Merged:
    return merging.merge(opened, repository.head(base), repository.head(head))


def files(merged: Merged) -> dict[str, bytes]:
    found = merged.merged.files("")
    return {file.path: merged.merged.read(file.blob, 1 << 20) if file.readable else b"" for file in found}


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(file): (file.stat().st_mtime_ns, file.stat().st_size) for file in sorted(folder.rglob("*"))}


def test_has_the_changes_of_both_sides(repository: Repository) -> None:
    repository.write("both.yaml", TEXT)
    repository.write("gone.yaml", "x")
    parted(repository)
    repository.write("both.yaml", "begin\n" + TEXT)
    repository.write("main.yaml", "m")
    main = repository.commit()
    repository.switch("head")
    repository.write("both.yaml", TEXT + "end\n")
    repository.remove("gone.yaml")
    head = repository.commit()
    with mirrored(repository) as opened:
        merged = merge(repository, opened)
        assert files(merged) == {"both.yaml": f"begin\n{TEXT}end\n".encode(), "main.yaml": b"m"}
        assert (merged.base.commit.id, merged.head.commit.id) == (main, head)
        assert (merged.merge_base, merged.behind, merged.ahead) == (repository.head("main~1"), 1, 1)
        again = merge(repository, opened)
        assert merged.merged.commit == again.merged.commit


@pytest.mark.parametrize(
    ("base", "head", "behind", "ahead"),
    [("main", "main", 0, 0), ("main", "main~2", 2, 0), ("main~2", "main", 0, 2)],
)
def test_takes_the_side_that_has_all(repository: Repository, base: str, head: str, behind: int, ahead: int) -> None:
    for content in "abc":
        repository.write("a.yaml", content)
        repository.commit()
    with mirrored(repository) as opened:
        merged = merge(repository, opened, base, head)
        newer = base if behind else head
        assert merged.merged.tree("") == repository.git("rev-parse", f"{newer}^{{tree}}")
        assert (merged.merge_base, merged.behind, merged.ahead) == (
            repository.head("main" if base == head else "main~2"),
            behind,
            ahead,
        )


def test_names_the_files_that_conflict(repository: Repository) -> None:
    for name in ("same.yaml", "deleted.yaml", "mine/file.yaml", "fine.yaml"):
        repository.write(name, TEXT)
    (repository.path / os.fsdecode(b"odd\xff.yaml")).write_text(TEXT)
    parted(repository)
    for branch in ("main", "head"):
        repository.switch(branch)
        repository.write("same.yaml", TEXT + branch)
        repository.write(f"fine-{branch}.yaml", branch)
        (repository.path / os.fsdecode(b"odd\xff.yaml")).write_text(branch)
        if branch == "main":
            repository.remove("deleted.yaml")
        else:
            repository.write("deleted.yaml", TEXT + branch)
        repository.commit()
    with mirrored(repository) as opened, pytest.raises(Conflicts) as found:
        merge(repository, opened)
    assert found.value.files == ("deleted.yaml (the base deletes it)", "odd\\xff.yaml:1", "same.yaml:21")
    assert found.value.message == (
        "the two do not merge: deleted.yaml (the base deletes it), odd\\xff.yaml:1, same.yaml:21 conflict; "
        "merge the base into the head and resolve them"
    )


def changed(**lines: str) -> str:
    """The text with other lines, by their numbers."""
    return "".join(lines.get(f"_{number}", line) for number, line in enumerate(TEXT.splitlines(keepends=True), 1))


@pytest.mark.parametrize(
    ("main", "head", "lines"),
    [
        (changed(_3="main\n"), changed(_3="head\n"), ":3"),
        (changed(_3="main\n"), changed(_2="head\n"), ":2"),  # adjacent lines conflict too
        (changed(_3="main\n"), changed(_3="one\ntwo\nthree\n"), ":3-5"),
        (changed(_3="main\n"), changed(_1="", _3=""), ":1"),  # of a removed line, the one before
        (changed(_3="main\n", _9="a\n"), changed(_1="x\ny\n", _3="head\n", _9="b\n", _18="c\n"), ":4,10"),
        (changed(_3="main\n", _9="both\n"), changed(_3="head\n", _9="both\n"), ":3"),
        (changed(**{f"_{at}": "main\n" for at in range(1, 15, 2)}), "", ":1"),
        (
            changed(**{f"_{at}": "main\n" for at in range(1, 15, 2)}),
            changed(**{f"_{at}": "head\n" for at in range(1, 15, 2)}),
            ":1,3,5,7,9,...",
        ),
        (changed(_3="main\n"), changed(_3="head\n" * merging.MAX_LINED), ""),
    ],
)
def test_says_which_lines_of_the_head_conflict(repository: Repository, main: str, head: str, lines: str) -> None:
    repository.write("a.yaml", TEXT)
    parted(repository)
    for branch, text in (("main", main), ("head", head)):
        repository.switch(branch)
        repository.write("a.yaml", text)
        repository.commit()
    with mirrored(repository) as opened, pytest.raises(Conflicts) as found:
        merge(repository, opened)
    assert found.value.files == (f"a.yaml{lines}",)


def test_says_that_the_head_deletes_what_the_base_changes(repository: Repository) -> None:
    repository.write("a.yaml", TEXT)
    parted(repository)
    repository.write("a.yaml", changed(_3="main\n"))
    repository.commit()
    repository.switch("head")
    repository.remove("a.yaml")
    repository.commit()
    with mirrored(repository) as opened, pytest.raises(Conflicts) as found:
        merge(repository, opened)
    assert found.value.files == ("a.yaml (the head deletes it)",)


def test_says_how_many_files_conflict_beyond_those_that_it_names(repository: Repository) -> None:
    for number in range(150):
        repository.write(f"{number:03}.yaml", "x")
    parted(repository)
    for branch in ("main", "head"):
        repository.switch(branch)
        for number in range(150):
            repository.write(f"{number:03}.yaml", branch)
        repository.commit()
    with mirrored(repository) as opened, pytest.raises(Conflicts) as found:
        merge(repository, opened)
    assert (len(found.value.files), found.value.total) == (merging.MAX_NAMED, 150)
    assert "009.yaml:1 and 140 more conflict" in found.value.message


def test_follows_a_file_that_one_side_renamed(repository: Repository) -> None:
    repository.write("old.yaml", TEXT)
    parted(repository)
    repository.move("old.yaml", "new.yaml")
    repository.commit()
    repository.switch("head")
    repository.write("old.yaml", TEXT + "end\n")
    repository.commit()
    with mirrored(repository) as opened:
        assert files(merge(repository, opened)) == {"new.yaml": f"{TEXT}end\n".encode()}


def test_finds_a_file_in_the_way_of_a_folder(repository: Repository) -> None:
    parted(repository)
    repository.write("thing", "file")
    repository.commit()
    repository.switch("head")
    repository.write("thing/in.yaml", "in a folder")
    repository.commit()
    with mirrored(repository) as opened, pytest.raises(Conflicts) as found:
        merge(repository, opened)
    assert "thing" in found.value.files


def test_keeps_modes_links_and_submodules(repository: Repository) -> None:
    repository.write("run", "x")
    repository.link("link", "a")
    Repository.init(repository.path / "inner").commit()
    repository.git("-c", "advice.addEmbeddedRepo=false", "add", "inner")
    parted(repository)
    repository.write("run", "x", executable=True)
    repository.commit()
    repository.switch("head")
    repository.write("run", "y")
    repository.commit()
    require_merge_tree(repository)
    expected = repository.git("merge-tree", "--write-tree", "main", "head")
    with mirrored(repository) as opened:
        assert merge(repository, opened).merged.tree("") == expected


@pytest.mark.parametrize("file", [".gitattributes", ".git/info/attributes", "attributes"])
def test_does_not_ask_attributes_or_configuration(repository: Repository, file: str) -> None:
    """They differ between checkouts, and whoever merges in the end need not have them."""
    repository.write(file, "*.yaml merge=union\n")
    repository.git("config", "core.attributesFile", str(repository.path / "attributes"))
    repository.write("a.yaml", "x\n")
    parted(repository)
    for branch in ("main", "head"):
        repository.switch(branch)
        repository.write("a.yaml", f"{branch}\n")
        repository.commit()
    repository.git("config", "merge.default", "union")
    with mirrored(repository) as opened, pytest.raises(Conflicts):
        merge(repository, opened)


def test_says_that_histories_are_unrelated(repository: Repository) -> None:
    repository.write("a.yaml", "x")
    first = repository.commit()
    repository.restart()
    second = repository.commit()
    with mirrored(repository) as opened, pytest.raises(Unrelated) as found:
        merging.merge(opened, first, second)
    assert not found.value.shallow
    assert found.value.message == (
        f"{first[:12]} and {second[:12]} have no history in common; let the head come from the base"
    )


def test_says_that_a_shallow_clone_cuts_off_what_is_common(repository: Repository, tmp_path: Path) -> None:
    parted(repository)
    repository.commit()
    repository.switch("head")
    repository.commit()
    url = repository.path.as_uri()
    repository.git("clone", "-q", "--depth=1", "--no-single-branch", url, str(tmp_path / "shallow"))
    base, head = repository.head("main"), repository.head("head")
    path = tmp_path / "shallow/.git"
    with Opened(path, damaged="", deepen="deepen it") as opened, pytest.raises(Unrelated, match="deepen it") as found:
        merging.merge(opened, base, head)
    assert found.value.shallow
    repository.at(tmp_path / "shallow").git("fetch", "-q", "--depth=2")
    with Opened(path, damaged="", deepen="deepen it") as opened:
        assert merging.merge(opened, base, head).merge_base == repository.head("main~1")


def test_merges_what_a_shallow_mirror_holds(repository: Repository, tmp_path: Path) -> None:
    for content in "abcd":
        repository.write("a.yaml", content)
        repository.commit()
    repository.git("clone", "-q", "--bare", "--depth=2", repository.path.as_uri(), str(tmp_path / "mirror"))
    base, head = repository.head("HEAD~1"), repository.head()
    with merging.open_mirrors(tmp_path / "mirror", None) as opened:
        assert merging.merge(opened, base, head).ahead == 1


def test_takes_a_proposal_from_a_mirror_of_its_own(repository: Repository, tmp_path: Path) -> None:
    repository.write("a.yaml", TEXT)
    parted(repository)
    repository.write("a.yaml", "begin\n" + TEXT)
    base = repository.commit()
    mirror = repository.bare(tmp_path / "mirror")
    repository.switch("head")
    repository.write("a.yaml", TEXT + "end\n")
    head = repository.commit()
    fork = Repository.init(tmp_path / "proposals", bare=True)
    thin = repository.git("rev-list", "--objects", head, f"^{base}").encode() + b"\n"
    repository.git("pack-objects", "-q", str(fork.path / "objects/pack/pack"), data=thin)
    with merging.open_mirrors(mirror.path, fork.path) as opened:
        assert files(merging.merge(opened, base, head)) == {"a.yaml": f"begin\n{TEXT}end\n".encode()}
    with merging.open_mirrors(mirror.path, None) as opened, pytest.raises(GitFault) as found:
        merging.merge(opened, base, head)
    assert found.value.state is RepositoryState.MIRROR_CORRUPT


def test_writes_nothing(repository: Repository, tmp_path: Path) -> None:
    """Not even the times of what is stored already."""
    repository.write("a.yaml", TEXT)
    repository.write("folder/b.yaml", TEXT)
    parted(repository)
    for branch in ("main", "head"):
        repository.switch(branch)
        repository.write("a.yaml", TEXT + "end\n" if branch == "main" else "begin\n" + TEXT)
        repository.commit()
    mirror = repository.bare(tmp_path / "mirror")
    long_ago = 1_000_000_000
    for file in (*(repository.path / ".git").rglob("*"), *mirror.path.rglob("*")):
        os.utime(file, (long_ago, long_ago))
    before = listing(repository.path), listing(mirror.path)
    base, head = repository.head("main"), repository.head("head")
    with Opened(repository.path / ".git", damaged="", deepen="") as opened:
        merging.merge(opened, base, head)
    code = (
        "import ctypes, resource, sys; from pathlib import Path; from reconciler.git import merging\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)\n"  # no memory to write and run, where the system can forbid it
        "with merging.open_mirrors(Path(sys.argv[1]), None) as opened:\n"
        "    merged = merging.merge(opened, *sys.argv[2:]).merged\n"
        "    assert merged.read(merged.blob('a.yaml'), 1000).startswith(b'begin')\n"
    )
    subprocess.run([sys.executable, "-c", code, str(mirror.path), base, head], check=True, timeout=60)
    assert (listing(repository.path), listing(mirror.path)) == before


@pytest.mark.parametrize("first", range(0, 24, 8))
def test_is_what_git_makes_of_random_histories(tmp_path: Path, first: int) -> None:
    """But where git would move files on along with a renamed folder, which is off here, and where histories cross and
    their merge bases conflict: there, a merge that git finds clean may be called a conflict.
    """
    outcomes = [of_random_history(tmp_path / str(seed), seed) for seed in range(first, first + 8)]
    assert {"clean", "conflict"} <= set(outcomes)


def require_merge_tree(repository: Repository) -> None:
    """Skip where git cannot yet merge without a worktree."""
    if not repository.git("merge-tree", "--write-tree", "HEAD", "HEAD", statuses=(0, 129)):
        pytest.skip("this needs git 2.38")


def of_random_history(path: Path, seed: int) -> str:
    repository = build(path, seed)
    require_merge_tree(repository)
    base, head = repository.head("main"), repository.head("other")
    git = ("-c", "merge.directoryRenames=false", "merge-tree", "--write-tree", "--no-messages", "--name-only")
    tree, *conflicts = repository.git(*git, base, head, statuses=(0, 1)).split("\n")
    with Opened(path / ".git", damaged="", deepen="") as opened:
        relation = merging.history_relation(opened.git, base, head)
        assert relation is not None
        assert sorted(relation.bases) == sorted(repository.git("merge-base", "--all", base, head).split())
        both = f"{base}...{head}"
        assert f"{relation.behind}\t{relation.ahead}" == repository.git("rev-list", "--left-right", "--count", both)
        merged = outcome(opened, base, head)
        if merged is None:
            assert conflicts or len(relation.bases) > 1, seed
            return "conflict"
        assert not conflicts, seed
        assert merged.merged.tree("") == tree, seed
        return "clean"


def outcome(opened: Opened, base: str, head: str) -> Merged | None:
    try:
        return merging.merge(opened, base, head)
    except Conflicts:
        return None


def test_does_not_take_for_deleted_what_conflicts_across_crossing_histories(repository: Repository) -> None:
    """Libgit2 alone does: the two merge bases conflict, and it goes on with a base that lacks the file."""
    repository.write("a.yaml", TEXT)
    repository.write("c.yaml", "c\n")
    parted(repository)
    repository.write("a.yaml", TEXT.replace("line 18", "main"))
    repository.write("c.yaml", "main\n")
    one = repository.commit()
    repository.switch("head")
    repository.write("a.yaml", TEXT.replace("line 19", "head"))
    repository.remove("c.yaml")
    other = repository.commit()
    for branch, tip in (("head", one), ("main", other)):
        repository.switch(branch)
        repository.git("merge", "-q", "-s", "ours", "--no-edit", tip)
    repository.write("a.yaml", TEXT.replace("line 18", "main").replace("line 5", "five"))
    repository.commit()
    repository.switch("head")
    repository.remove("a.yaml")
    repository.commit()
    with mirrored(repository) as opened, pytest.raises(Conflicts):
        merge(repository, opened)


def test_bounds_what_is_merged_to_find_one_base_too(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.write("a.yaml", TEXT)
    parted(repository)
    repository.write("a.yaml", TEXT.replace("line 18", "main"))
    one = repository.commit()
    repository.switch("head")
    repository.write("a.yaml", TEXT.replace("line 5", "head"))
    other = repository.commit()
    for branch, tip in (("head", one), ("main", other)):
        repository.switch(branch)
        repository.git("merge", "-q", "-s", "ours", "--no-edit", tip)
        repository.write("a.yaml", TEXT)
        repository.write(f"{branch}.yaml", "")
        repository.commit()
    with mirrored(repository) as opened:
        merge(repository, opened)
        monkeypatch.setattr(merging, "MAX_BYTES", 10)
        with pytest.raises(Refused, match=r"both sides change a\.yaml, and it is too large"):
            merge(repository, opened)


def test_refuses_histories_that_part_at_too_many_commits(repository: Repository) -> None:
    repository.write("a.yaml", "x")
    first = repository.commit()
    tree = repository.tree(("100644", b"a.yaml", repository.blob(b"y")))
    other = repository.tree(("100644", b"a.yaml", repository.blob(b"z")))
    middle = [repository.git("commit-tree", "-m", str(number), f"-p{first}", tree) for number in range(9)]
    parents = [f"-p{commit}" for commit in middle]
    base = repository.git("commit-tree", "-m", "base", *parents, tree)
    head = repository.git("commit-tree", "-m", "head", *parents, other)
    with mirrored(repository) as opened, pytest.raises(Refused, match="cross too often"):
        merging.merge(opened, base, head)


@pytest.mark.parametrize(
    ("entries", "allowed"),
    [
        ([("100644", b"a/b")], False),
        ([("100644", b"../up")], False),
        ([("100644", b"..")], False),
        ([("40000", b".git")], False),
        ([("100644", b"a"), ("40000", b"a")], False),
        ([("100644", b"a\\b"), ("100644", b"b\nc"), ("100644", b"\xff")], True),
        ([("100644", b"c"), ("100644", b"a")], True),  # not sorted
    ],
)
def test_merges_no_names_that_git_does_not_allow(
    repository: Repository, entries: list[tuple[str, bytes]], *, allowed: bool
) -> None:
    one, other = repository.blob(b"1"), repository.blob(b"2")
    folder = repository.tree(("100644", b"in", one))
    stored = [(mode, name, folder if mode == "40000" else one) for mode, name in entries]
    first = repository.commit_tree(repository.tree(*stored, ("100644", b"z", one)))
    repository.branch("head", first)
    base = repository.commit_tree(repository.tree(*stored, ("100644", b"z", other)))
    head = repository.commit_tree(
        repository.tree(*stored, ("100644", b"z", one), ("100644", b"zz", one)), branch="head"
    )
    with mirrored(repository) as opened:
        if allowed:
            merged = merging.merge(opened, base, head).merged
            names = {name for _, name, _ in merged.raw(merged.tree(""))}
            assert names == {name for _, name in entries} | {b"z", b"zz"}
        else:
            with pytest.raises(GitFault) as found:
                merging.merge(opened, base, head)
            assert found.value.state is RepositoryState.UNSUPPORTED_FORMAT


def two_sides(repository: Repository, trees: tuple[str, str, str]) -> tuple[str, str]:
    repository.commit_tree(trees[0])
    repository.branch("head", "main")
    return repository.commit_tree(trees[1]), repository.commit_tree(trees[2], branch="head")


def test_refuses_more_files_than_any_tree_may_have(repository: Repository) -> None:
    one = repository.blob(b"1")
    tree = repository.tree(*(("100644", b"%d" % number, one) for number in range(10)))
    for _ in range(6):
        tree = repository.tree(*(("40000", b"%d" % number, tree) for number in range(10)))
    sides = [repository.tree(("40000", b"bomb", tree), ("100644", name, one)) for name in (b"x", b"y", b"z")]
    base, head = two_sides(repository, (sides[0], sides[1], sides[2]))
    with mirrored(repository) as opened, pytest.raises(GitFault, match="more than 1000000 files"):
        merging.merge(opened, base, head)


def test_refuses_folders_that_are_too_deep(repository: Repository) -> None:
    tree = one = repository.blob(b"1")
    mode = "100644"
    for _ in range(110):
        tree, mode = repository.tree((mode, b"d", tree)), "40000"
    sides = [repository.tree(("40000", b"deep", tree), ("100644", name, one)) for name in (b"x", b"y", b"z")]
    base, head = two_sides(repository, (sides[0], sides[1], sides[2]))
    with mirrored(repository) as opened, pytest.raises(GitFault, match="100 levels deep"):
        merging.merge(opened, base, head)


def big(repository: Repository, content: bytes) -> tuple[str, str]:
    """Two commits that both change a file, the one at its begin and the other at its end."""
    sides = (content, b"begin\n" + content, content + b"end\n")
    first, second, third = (repository.tree(("100644", b"big.yaml", repository.blob(side))) for side in sides)
    return two_sides(repository, (first, second, third))


def test_merges_a_file_with_a_value_of_10_megabytes(repository: Repository) -> None:
    content = b"v: " + b"x" * 10_000_000 + b"\n" + b"line\n" * 5
    base, head = big(repository, content)
    with mirrored(repository) as opened:
        merged = merging.merge(opened, base, head).merged
        blob = merged.blob("big.yaml")
        assert blob is not None
        assert merged.read(blob, 1 << 25) == b"begin\n" + content + b"end\n"


@pytest.mark.parametrize("limit", ["MAX_FILE_BYTES", "MAX_FILE_LINES", "MAX_BYTES"])
def test_bounds_files_that_both_sides_change(
    repository: Repository, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, head = big(repository, b"\n" * 1000)
    with mirrored(repository) as opened:
        merging.merge(opened, base, head)
        monkeypatch.setattr(merging, limit, 999)
        with pytest.raises(Refused, match=r"both sides change big\.yaml, and it is too large"):
            merging.merge(opened, base, head)


@pytest.mark.parametrize("limit", ["MAX_RENAMED_BYTES", "MAX_RENAMED_BYTES_IN_ALL"])
def test_reads_no_huge_file_to_find_out_whether_it_was_renamed(
    repository: Repository, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, limit, 100)
    repository.write("old.yaml", TEXT)
    parted(repository)
    repository.move("old.yaml", "new.yaml")
    repository.write("new.yaml", TEXT + "main\n")
    repository.commit()
    repository.switch("head")
    repository.write("old.yaml", "head\n" + TEXT)
    repository.commit()
    with mirrored(repository) as opened, pytest.raises(Conflicts) as found:
        merge(repository, opened)
    assert found.value.files == ("old.yaml (the base deletes it)",)


def test_closes_what_it_opened(repository: Repository) -> None:
    repository.commit()
    commit = repository.head()
    repository.pack()
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("there is no /proc")
    with mirrored(repository) as opened:
        merging.merge(opened, commit, commit)
    before = len(list(descriptors.iterdir()))
    for _ in range(50):
        with merging.open_mirrors(repository.path / ".git", None) as opened:
            merging.merge(opened, commit, commit)
    assert len(list(descriptors.iterdir())) <= before
