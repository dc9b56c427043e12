"""A worktree as a commit."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.git import checkouts
from reconciler.git.checkouts import Checkout
from reconciler.git.snapshots import Snapshot
from reconciler.model import positions
from reconciler.model.errors import Refused
from tests.needs import require_root
from tests.repositories import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository.init(tmp_path / "origin")
    for name in "abcdefgh":
        repository.write(f"{name}.yaml", name)
    repository.write("folder/in.yaml", "x")
    repository.write(".gitignore", "*.ignored\n")
    repository.link("link", "a.yaml")
    Repository.init(repository.path / "inner").commit()
    repository.git("-c", "advice.addEmbeddedRepo=false", "add", "inner")
    repository.commit()
    return repository


def tree(repository: Repository) -> str:
    with Checkout.open(repository.path) as checkout:
        head, commit = checkout.resolve("HEAD")[1], checkout.worktree_commit()
        merged = checkout.merge(head, commit)
        assert (merged.merge_base, merged.behind, merged.ahead) == (head, 0, 1)
        return merged.head.tree("")


def of_git(repository: Repository) -> str:
    """Return the tree that git makes of the worktree; this changes its index."""
    repository.git("-c", "advice.addEmbeddedRepo=false", "add", "--all")
    return repository.git("write-tree")


def files(snapshot: Snapshot) -> dict[str, int]:
    return {file.path: snapshot.size(file.blob) if file.readable else -1 for file in snapshot.files("")}


def refusal(repository: Repository) -> str:
    with Checkout.open(repository.path) as checkout, pytest.raises(Refused) as found:
        checkout.worktree_commit()
    return found.value.message


def test_without_changes_is_the_tree_of_head(repository: Repository) -> None:
    assert tree(repository) == repository.git("rev-parse", "HEAD^{tree}")


def test_has_what_git_would_commit(repository: Repository) -> None:
    root = repository.path
    repository.write("a.yaml", "changed")
    (root / "b.yaml").chmod(0o755)
    (root / "c.yaml").unlink()
    (root / "d.yaml").unlink()
    repository.link("d.yaml", "/etc/passwd")
    (root / "e.yaml").unlink()
    repository.write("e.yaml/in.yaml", "a folder where a file was")
    shutil.rmtree(root / "folder")
    repository.link("folder", "/etc")  # which also has files, and none of them counts
    repository.write("new/untracked.yaml", "new")
    repository.write("z.ignored", "ignored")
    repository.write("staged.yaml", "staged")
    repository.git("add", "staged.yaml")
    repository.write("staged.yaml", "and changed again")
    repository.git("rm", "-q", "--cached", "f.yaml")
    repository.write("intended.yaml", "x")
    repository.git("add", "--intent-to-add", "intended.yaml")
    repository.write("inner/untracked.yaml", "of the submodule")
    (root / os.fsdecode(b"odd\xff\n.yaml")).write_text("odd")
    os.mkfifo(root / "pipe.yaml")
    found = tree(repository)
    assert found != repository.git("rev-parse", "HEAD^{tree}")
    assert found == of_git(repository)


def test_has_no_pipe_in_the_place_of_a_file(repository: Repository) -> None:
    (repository.path / "a.yaml").unlink()
    os.mkfifo(repository.path / "a.yaml")
    found = tree(repository)
    (repository.path / "a.yaml").unlink()
    assert found == of_git(repository)


def test_has_no_repository_that_stands_in_it(repository: Repository) -> None:
    before = tree(repository)
    Repository.init(repository.path / "another").commit()
    repository.write("another/a.yaml", "x")
    assert tree(repository) == before


def test_leaves_the_folder_of_git_as_it_is(repository: Repository) -> None:
    def listing() -> dict[Path, tuple[int, int]]:
        inside = sorted((repository.path / ".git").rglob("*"))
        return {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in inside}

    repository.write("a.yaml", "b")  # which is stored already
    repository.write("new.yaml", "new")
    os.utime(repository.path / "b.yaml", (1, 1))  # so that the index no longer knows it to be unchanged
    before = listing()
    tree(repository)
    assert listing() == before


def test_has_large_files_that_cannot_be_read(repository: Repository) -> None:
    limit = positions.FILE_LIMITS.bytes
    repository.write("a.yaml", b"x" * limit)
    repository.write("b.yaml", b"x" * (limit + 1))
    with (repository.path / "huge.yaml").open("wb") as file:
        file.truncate(1 << 40)  # 1 TiB, of which nothing is on the disk
    with Checkout.open(repository.path) as checkout:
        merged = checkout.merge(checkout.resolve("HEAD")[1], checkout.worktree_commit())
        for snapshot in (merged.head, merged.merged):
            sizes = files(snapshot)
            assert (sizes["a.yaml"], sizes["b.yaml"], sizes["huge.yaml"]) == (limit, limit + 1, 1 << 40)
            blob = snapshot.blob("huge.yaml")
            assert blob is not None
            with pytest.raises(Refused, match="the file has 1099511627776 bytes"):
                snapshot.read(blob, limit)


def test_is_refused_when_it_is_too_large_altogether(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkouts, "MAX_BYTES", 1000)
    repository.write("a.yaml", b"x" * 600)
    tree(repository)
    repository.write("b.yaml", b"x" * 600)
    assert "of files that are not committed; commit them, or let git ignore" in refusal(repository)


@pytest.mark.parametrize("path", [".gitignore", ".git/info/exclude", "folder/.gitignore"])
def test_has_nothing_that_git_ignores(repository: Repository, path: str) -> None:
    repository.write(path, "scratch*\n!scratch-kept.yaml\n")
    repository.write("folder/scratch.yaml", "x")
    repository.write("folder/scratch-kept.yaml", "x")
    with Checkout.open(repository.path) as checkout:
        found = checkout.merge(checkout.resolve("HEAD")[1], checkout.worktree_commit()).head
        assert found.blob("folder/scratch-kept.yaml")
        assert found.blob("folder/scratch.yaml") is None


@pytest.mark.parametrize("own", [".config/git/ignore", ".gitconfig", ".config/git/config"])
def test_has_nothing_that_the_person_ignores(repository: Repository, tmp_path: Path, own: str) -> None:
    home = tmp_path / "home"
    (home / own).parent.mkdir(parents=True, exist_ok=True)
    excludes = tmp_path / "excludes"
    excludes.write_text("*~.yaml\n")
    (home / own).write_text("*~.yaml\n" if own.endswith("ignore") else f"[core]\nexcludesFile = {excludes}\n")
    repository.write("a~.yaml", "x")
    code = (
        "import sys; from pathlib import Path; from reconciler.git.checkouts import Checkout\n"
        "with Checkout.open(Path(sys.argv[1])) as checkout:\n"
        "    head = checkout.worktree_commit()\n"
        "    found = checkout.merge(head, head).head\n"
        "    assert found.blob('a.yaml')\n"
        "    sys.exit(found.blob('a~.yaml') is not None)\n"
    )
    for place, status in ((home, 0), (tmp_path, 1)):
        done = subprocess.run(
            [sys.executable, "-c", code, str(repository.path)], env={"HOME": str(place)}, timeout=60, check=False
        )
        assert done.returncode == status


def test_takes_a_file_that_the_index_knows_from_there(repository: Repository) -> None:
    """So what a filter made of it at checkout is no change; one that is changed is taken as it stands."""
    repository.write(".gitattributes", "*.yaml eol=crlf\n")
    repository.commit()
    for name in "ab":
        (repository.path / f"{name}.yaml").unlink()
    repository.write("a.yaml", "one\ntwo\n")
    repository.write("b.yaml", "one\ntwo\n")
    commit = repository.commit()
    for name in "ab":
        (repository.path / f"{name}.yaml").unlink()
    repository.git("reset", "-q", "--hard", commit)
    assert (repository.path / "a.yaml").read_bytes() == b"one\r\ntwo\r\n"
    assert tree(repository) == repository.git("rev-parse", "HEAD^{tree}")
    repository.write("a.yaml", "one\r\nthree\r\n")
    with Checkout.open(repository.path) as checkout:
        head = checkout.worktree_commit()
        found = checkout.merge(head, head).head
        contents = {
            file.path: found.read(file.blob, 100) for file in found.files("") if file.path in ("a.yaml", "b.yaml")
        }
    assert contents == {"a.yaml": b"one\r\nthree\r\n", "b.yaml": b"one\ntwo\n"}


@pytest.mark.parametrize(
    "command",
    [
        ("update-index", "--index-version=4"),
        ("update-index", "--untracked-cache"),
        ("sparse-checkout", "set", "folder"),
    ],
)
def test_understands_the_index(repository: Repository, command: tuple[str, ...]) -> None:
    repository.git(*command)
    assert tree(repository) == repository.git("rev-parse", "HEAD^{tree}")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("update-index", "--split-index"), "unsupported mandatory extension: 'link'"),
        (("sparse-checkout", "set", "--sparse-index", "folder"), "unsupported mandatory extension: 'sdir'"),
    ],
)
def test_says_which_index_it_cannot_read(repository: Repository, command: tuple[str, ...], told: str) -> None:
    repository.write("other/a.yaml", "x")
    repository.commit()
    repository.git(*command)
    assert told in refusal(repository)


def test_is_refused_while_a_merge_is_not_resolved(repository: Repository) -> None:
    repository.branch("other")
    repository.write("a.yaml", "one")
    repository.commit()
    repository.switch("other")
    repository.write("a.yaml", "other")
    repository.commit()
    repository.git("merge", "-q", "main", statuses=(1,))
    assert refusal(repository) == (
        "a merge in the worktree is not resolved: a.yaml; resolve it, and `git add` the files"
    )


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("new.yaml", "new.yaml cannot be read (Permission denied)"),
        ("a.yaml", "a.yaml"),
        ("folder", "folder cannot be read (Permission denied)"),
        (".git/index", "cannot be read"),
    ],
)
def test_names_what_it_may_not_read(repository: Repository, tmp_path: Path, path: str, told: str) -> None:
    require_root()  # to be somebody who may not
    repository.write("new.yaml", "new")
    repository.write("a.yaml", "changed")
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    (repository.path / path).chmod(0)
    code = (
        "import os, sys; from pathlib import Path\n"
        "from reconciler.model.errors import Refused\n"
        "from reconciler.git.checkouts import Checkout\n"
        "os.setuid(12345)\n"
        "with Checkout.open(Path(sys.argv[1])) as checkout:\n"
        "    try:\n"
        "        checkout.worktree_commit()\n"
        "    except Refused as refused:\n"
        "        print(refused.message)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(repository.path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert told in done.stdout, done.stderr
