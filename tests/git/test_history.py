"""A walk of the history."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.git import history
from reconciler.git.snapshots import CommitInfo, Snapshot
from reconciler.git.trees import TreeChange, TreeFile, TreeMode
from tests.repositories import FIRST_SECOND, Repository

PATHS = ("a.yaml", "b/c.yaml", "b/d/e.yaml", "b.yaml", "b/d.yaml", "é/f.yaml")

_numbers = itertools.count(1)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.init(tmp_path / "origin")


def touched(repository: Repository, *paths: str, commit: str | None = None) -> dict[str, str]:
    """The commit that a walk finds for each path."""
    repository.pack()
    with Snapshot.open(repository.path / ".git", commit or repository.head()) as snapshot:
        return {path: found.id for path, found in snapshot.last_changes(paths, go_on=lambda: True).items()}


def write(repository: Repository, path: str, content: str = "") -> str:
    """A commit that writes one file, always another content."""
    repository.write(path, content or str(next(_numbers)))
    return repository.commit()


def merge(repository: Repository, branch: str, *options: str) -> str:
    repository.git("merge", "--quiet", "--no-ff", "--no-edit", *options, branch)
    return repository.head()


def side(repository: Repository, path: str, content: str = "") -> str:
    """A branch `side` with one commit, made from here; the branch that was checked out is it again."""
    repository.git("switch", "--quiet", "--create", "side")
    commit = write(repository, path, content)
    repository.switch("main")
    return commit


def linear(repository: Repository) -> dict[str, str]:
    first = write(repository, "a")
    second = write(repository, "b/c")
    write(repository, "other")
    return {"a": first, "b/c": second}


def overwritten(repository: Repository) -> dict[str, str]:
    write(repository, "a")
    write(repository, "a")
    return {"a": write(repository, "a")}


def hundred(repository: Repository) -> dict[str, str]:
    return {f"d{number % 10}/{number}": write(repository, f"d{number % 10}/{number}") for number in range(100)}


def merged(repository: Repository) -> dict[str, str]:
    kept = write(repository, "kept")
    theirs = side(repository, "theirs")
    ours = write(repository, "ours")
    merge(repository, "side")
    return {"kept": kept, "theirs": theirs, "ours": ours}


def merged_by_hand(repository: Repository) -> dict[str, str]:
    write(repository, "a", "1")
    side(repository, "a", "2")
    write(repository, "a", "3")
    repository.git("merge", "--quiet", "--no-commit", "side", statuses=(1,))
    return {"a": write(repository, "a", "4")}


def merged_and_left_out(repository: Repository) -> dict[str, str]:
    write(repository, "a", "1")
    side(repository, "a", "2")
    ours = write(repository, "a", "3")
    merge(repository, "side", "--strategy=ours")
    return {"a": ours}


def merged_though_equal(repository: Repository) -> dict[str, str]:
    write(repository, "a", "1")
    side(repository, "a", "2")
    ours = write(repository, "a", "2")
    merge(repository, "side")
    return {"a": ours}


def reverted(repository: Repository) -> dict[str, str]:
    write(repository, "a", "1")
    write(repository, "a", "2")
    return {"a": write(repository, "a", "1")}


def renamed(repository: Repository) -> dict[str, str]:
    write(repository, "a")
    repository.move("a", "b/a")
    return {"b/a": repository.commit()}


def deleted_and_back(repository: Repository) -> dict[str, str]:
    write(repository, "a", "1")
    repository.remove("a")
    repository.commit()
    return {"a": write(repository, "a", "1")}


def made_executable(repository: Repository) -> dict[str, str]:
    write(repository, "a", "1")
    repository.write("a", "1", executable=True)
    return {"a": repository.commit()}


def file_for_folder(repository: Repository) -> dict[str, str]:
    write(repository, "a/b")
    repository.remove("a")
    return {"a": write(repository, "a")}


def squashed(repository: Repository) -> dict[str, str]:
    write(repository, "a")
    side(repository, "a")
    repository.git("merge", "--quiet", "--squash", "side")
    return {"a": repository.commit()}


def two_roots(repository: Repository) -> dict[str, str]:
    ours = write(repository, "ours")
    repository.git("switch", "--quiet", "--orphan", "side")
    theirs = write(repository, "theirs")
    repository.switch("main")
    merge(repository, "side", "--allow-unrelated-histories")
    return {"ours": ours, "theirs": theirs}


@pytest.mark.parametrize(
    "make",
    [
        linear,
        overwritten,
        hundred,
        merged,
        merged_by_hand,
        merged_and_left_out,
        merged_though_equal,
        reverted,
        renamed,
        deleted_and_back,
        made_executable,
        file_for_folder,
        squashed,
        two_roots,
    ],
)
def test_finds_the_commit_that_gave_each_file_what_it_is(
    repository: Repository, make: Callable[[Repository], dict[str, str]]
) -> None:
    expected = make(repository)
    assert touched(repository, *expected) == expected
    assert {path: repository.git("log", "-1", "--format=%H", "--", path) for path in expected} == expected


def test_knows_only_the_history_of_its_commit(repository: Repository) -> None:
    first = write(repository, "a")
    second = write(repository, "a")
    assert touched(repository, "a", commit=first) == {"a": first}
    assert touched(repository, "a", commit=second) == {"a": second}


def test_tells_who_wrote_the_commit_and_when(repository: Repository) -> None:
    first = write(repository, "a")
    write(repository, "b")
    repository.pack()
    with Snapshot.open(repository.path / ".git", first) as then:
        whole = then.commit
    with Snapshot.open(repository.path / ".git", repository.head()) as snapshot:
        found = snapshot.last_changes(["a"], go_on=lambda: True)
    assert found == {"a": whole}
    assert whole == CommitInfo(first, "Ada Lovelace <ada@example.com>", whole.date)


def test_leaves_out_what_the_commit_does_not_hold(repository: Repository) -> None:
    write(repository, "gone")
    repository.remove("gone")
    first = write(repository, "a")
    assert touched(repository, "a", "gone", "a/b", "never", "") == {"a": first}


@pytest.mark.parametrize(("reached", "found"), [(1, {"c"}), (2, {"b", "c"}), (3, {"a", "b", "c"})])
def test_ends_when_it_may_not_go_on_and_keeps_what_it_found(
    repository: Repository, reached: int, found: set[str]
) -> None:
    for path in "abc":
        write(repository, path)
    repository.pack()
    left = itertools.chain([True] * reached, itertools.repeat(False))
    with Snapshot.open(repository.path / ".git", repository.head()) as snapshot:
        assert snapshot.last_changes(["a", "b", "c"], go_on=lambda: next(left)).keys() == found


def test_ends_at_a_number_of_commits() -> None:
    """A chain without end, in which nothing ever changes."""
    met = []

    def commit(name: str) -> history.Commit:
        met.append(name)
        return history.Commit("1" * 40 if len(name) < 99 else "2" * 40, (name + "x",), 0)

    def changes(old: str, new: str) -> list[TreeChange]:
        return [] if old == new else [TreeChange("a", None, TreeFile("a", new, TreeMode.REGULAR))]

    objects = history.Objects(commit, changes)
    found = history.last_changes("x", ["a"], objects=objects, go_on=lambda: True, max_commits=50)
    assert (found, len(set(met))) == ({}, 51)
    assert history.last_changes("x", ["a"], objects=objects, go_on=lambda: True) == {"a": "x" * 98}


def test_says_nothing_of_what_lies_behind_a_shallow_clone(repository: Repository, tmp_path: Path) -> None:
    write(repository, "old")
    write(repository, "boundary")
    newest = write(repository, "new")
    shallow = Repository.init(tmp_path / "shallow")
    shallow.git("fetch", "--quiet", "--depth=2", repository.path.as_uri(), "main:fetched")
    assert touched(shallow, "old", "boundary", "new", commit=newest) == {"new": newest}


def test_goes_around_a_parent_that_is_missing(repository: Repository) -> None:
    write(repository, "a")
    tree, there = repository.git("rev-parse", "HEAD^{tree}"), repository.head()
    lost = "1" * 40
    author = "author A <a@b> 60 +0000\ncommitter A <a@b> 60 +0000"
    text = f"tree {tree}\nparent {lost}\nparent {there}\n{author}\n\nx\n"
    made = repository.git("hash-object", "-w", "-t", "commit", "--stdin", "--literally", data=text.encode())
    assert touched(repository, "a", commit=made) == {"a": there}


def test_ends_quietly_where_a_folder_is_damaged(repository: Repository) -> None:
    write(repository, "a")
    write(repository, "b/c")
    blob = repository.blob(b"x")
    broken = repository.git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", data=b"100644 no end")
    before = repository.commit_tree(repository.tree(("100644", b"a", blob), ("40000", b"b", broken)))
    after = repository.tree(
        ("100644", b"a", blob), ("40000", b"b", repository.tree(("100644", b"c", blob))), ("100644", b"d", blob)
    )
    assert touched(repository, "a", "b/c", commit=repository.commit_tree(after)) == {}
    again = repository.commit_tree(repository.tree(("100644", b"e", blob)))
    assert touched(repository, "e", commit=again) == {"e": again}
    assert touched(repository, "a", commit=before) == {"a": before}


@pytest.mark.parametrize("data", [b"", b"tree x\n", b"tree " + b"1" * 40 + b"\n", b"tag x\n"])
def test_takes_what_is_no_commit_for_one_that_is_not_there(data: bytes) -> None:
    assert history.parse(data) is None


def test_reads_a_commit_whose_time_is_no_time() -> None:
    data = b"tree %b\nparent %b\nparent %b\nauthor nobody\ncommitter nobody\n\nx" % (b"1" * 40, b"2" * 40, b"3" * 40)
    assert history.parse(data) == history.Commit("1" * 40, ("2" * 40, "3" * 40), 0)


class Drawn(NamedTuple):
    """One commit of a random history: how far back its parents lie, and from which each file comes; how its clock goes
    wrong, in seconds; and what it writes, one of three contents, so that contents come back, or removes.
    """

    parents: list[int]
    picks: list[int]
    shift: int
    writes: dict[str, str]


HISTORIES = st.lists(
    st.builds(
        Drawn,
        st.lists(st.integers(1, 5), max_size=3, unique=True),
        st.lists(st.integers(0, 2), min_size=len(PATHS), max_size=len(PATHS)),
        st.integers(-200, 200),
        st.dictionaries(st.sampled_from(PATHS), st.sampled_from(["1", "2", "3", ""]), max_size=3),
    ),
    min_size=1,
    max_size=25,
)


def imported(repository: Repository, drawn: list[Drawn]) -> str:
    """Make a history; a commit without parents of its own stands on the one before."""
    stream = b""
    trees: list[dict[str, str]] = [{}]
    for number, one in enumerate(drawn, start=1):
        parents = [number - back for back in one.parents if number - back > 0] or ([number - 1] if number > 1 else [])
        picks = [parents[pick % len(parents)] if parents else 0 for pick in one.picks]
        held = {path: trees[pick].get(path, "") for path, pick in zip(PATHS, picks, strict=True)}
        trees.append(held | one.writes)
        seconds = FIRST_SECOND + 60 * number + one.shift
        stream += b"commit refs/heads/main\nmark :%d\ncommitter A <a@b> %d +0000\ndata 0\n" % (number, seconds)
        stream += b"".join(b"%b :%d\n" % (b"merge" if rank else b"from", one) for rank, one in enumerate(parents))
        stream += b"deleteall\n"
        for path, content in trees[-1].items():
            stream += b"M 644 inline %b\ndata 1\n%b\n" % (path.encode(), content.encode()) if content else b""
    repository.git("fast-import", "--quiet", "--force", data=stream)
    return repository.head("main")


@given(HISTORIES)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_finds_what_the_log_of_git_finds(tmp_path: Path, drawn: list[Drawn]) -> None:
    repository = Repository.init(tmp_path / str(next(_numbers)))
    head = imported(repository, drawn)
    held = repository.git("-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", head).splitlines()
    told = {path: repository.git("log", "-1", "--format=%H", head, "--", path) for path in held}
    assert touched(repository, *PATHS, commit=head) == told
