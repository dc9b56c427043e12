"""The limits of one commit: over a limit, nothing of it is applied, and the repository says so."""

import itertools
from pathlib import Path

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.snapshots import Snapshot
from reconciler.model.errors import Refused
from reconciler.worker.messages import Exhausted
from reconciler.worker.trees import ASIDE, MEBIBYTE, Allowance, CommitLimits
from tests import worlds
from tests.repositories import Repository
from tests.worlds import Following

REMEDY = (
    "configure a folder of it with `path`, leave files out with `include`, `exclude` or a .serviceignore, or split the"
    " repository"
)
FEWER = "use wildcards, and fewer ignore files"
SMALL = CommitLimits(files=2, bytes=3 * MEBIBYTE, documents=10, patterns=5, seconds=7.0)


def told(exhausted: pytest.ExceptionInfo[Exhausted]) -> str:
    assert exhausted.value.state is RepositoryState.UNSUPPORTED_FORMAT
    return exhausted.value.message.removeprefix("the commit ").replace(", and nothing of it is applied; ", " | ")


def test_files_are_counted_one_by_one_and_the_same_content_each_time() -> None:
    allowance = Allowance(SMALL)
    allowance.file("b", MEBIBYTE)
    allowance.file("b", MEBIBYTE)
    with pytest.raises(Exhausted) as caught:
        allowance.file("b", 0)
    assert told(caught) == f"holds more than 2 files to read | {REMEDY}"
    with pytest.raises(Exhausted) as caught:
        Allowance(SMALL).file("b", 3 * MEBIBYTE + 1)
    assert told(caught) == f"holds more than 3 MiB of files to read | {REMEDY}"


def test_what_is_known_before_is_refused_before() -> None:
    allowance = Allowance(SMALL)
    allowance.known(3 * MEBIBYTE, files=2)
    for size, files in ((3 * MEBIBYTE + 1, 2), (0, 3)):
        with pytest.raises(Exhausted):
            allowance.known(size, files=files)


def test_documents_and_patterns_are_counted_over_all() -> None:
    allowance = Allowance(SMALL)
    allowance.documents(10)
    with pytest.raises(Exhausted) as caught:
        allowance.documents(1)
    assert told(caught) == f"holds more than 10 documents | {REMEDY}"
    allowance.ignore_file(3)
    with pytest.raises(Exhausted) as caught:
        allowance.ignore_file(3)
    assert told(caught) == f"holds more than 5 patterns in its ignore files | {FEWER}"


def test_time_is_that_of_the_processor_and_counts_from_the_beginning() -> None:
    seconds = itertools.count(100.0, 3.5)
    allowance = Allowance(SMALL, clock=lambda: next(seconds))
    allowance.time()
    allowance.file("b", 1)
    with pytest.raises(Exhausted) as caught:
        allowance.file("b", 1)
    assert told(caught) == f"takes more than 7 s of processor time to read | {REMEDY}"


def test_a_file_that_is_set_aside_is_not_read_and_the_others_are_told_of() -> None:
    read: list[str] = []
    allowance = Allowance(aside=frozenset({"bad"}), at=read.append)
    allowance.file("good", 1)
    with pytest.raises(Refused, match=ASIDE):
        allowance.file("bad", 1)
    allowance.at("")
    assert read == ["good", ""]


def planned_of(folder: Path, blob: bytes, *, names: int, folders: int) -> None:
    """Plan a commit in which one blob stands under many names in many folders: four objects in all."""
    source = Repository.init(folder / "source")
    file = source.blob(blob)
    inner = source.tree(*(("100644", b"%06d.yaml" % number, file) for number in range(names)))
    outer = source.tree(*(("40000", b"%06d" % number, inner) for number in range(folders)))
    commit = source.commit_tree(outer)
    source.pack()
    with worlds.world({"a": Following()}) as world:
        world.mirrors["a"].path = source.path / ".git"
        world.heads["a"] = commit
        world.plan("a", full=True)


def test_a_gibibyte_of_one_file_under_many_paths_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with pytest.raises(Exhausted) as caught:
        planned_of(tmp_path, b"#" * (5 * MEBIBYTE), names=205, folders=1)
    assert told(caught) == f"holds more than 1,024 MiB of files to read | {REMEDY}"


@pytest.mark.slow
def test_a_tree_of_too_many_files_is_refused_before_any_is_read(tmp_path: Path) -> None:
    with pytest.raises(Exhausted) as caught:
        planned_of(tmp_path, b"", names=1_000, folders=251)
    assert told(caught) == f"holds more than 250,000 files to read | {REMEDY}"


def test_a_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    source = Repository.init(tmp_path / "source")
    commit = source.commit_tree(source.tree(("100644", b"n" * 5_000 + b".yaml", source.blob(b""))))
    source.pack()
    with Snapshot.open(source.path / ".git", commit) as snapshot, pytest.raises(GitFault) as caught:
        list(snapshot.files(""))
    assert (caught.value.state, "has more than 4096 characters; shorten it" in caught.value.message) == (
        RepositoryState.UNSUPPORTED_FORMAT,
        True,
    )
