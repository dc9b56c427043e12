"""Real Git repositories for tests, made with the git program: the same names, dates and configuration everywhere.

    repository = Repository.init(tmp_path / "source")
    repository.write("teams/a.yaml", "kind: Destination")
    first = repository.commit("Add a")

The same calls give the same commit ids on every machine.
"""

import atexit
import contextlib
import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pygit2

from reconciler.git.snapshots import ignore_configuration_of_others

AUTHOR = "Ada Lovelace"
ADDRESS = "ada@example.com"
FIRST_SECOND = 1_700_000_000  # 2023-11-14T22:13:20Z; every commit is a minute later than the one before


class Repository:
    """A repository with a working tree, or a bare one (for which only what needs no working tree works)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._second = FIRST_SECOND

    @classmethod
    def init(cls, path: Path, branch: str = "main", *, bare: bool = False, object_format: str = "sha1") -> "Repository":
        """A new repository without a commit."""
        empty = _empty(branch, object_format, bare=bare)
        shutil.copytree(empty, path if bare else path / ".git", dirs_exist_ok=True)
        return cls(path)

    def git(self, *arguments: str, data: bytes | None = None, statuses: tuple[int, ...] = (0,)) -> str:
        """Run git here and give back what it wrote, without the last line's end. A failure shows git's words."""
        done = subprocess.run(
            ["git", *arguments], cwd=self.path, env=self._environment(), input=data, capture_output=True, check=False
        )
        assert done.returncode in statuses, done.stderr.decode("utf-8", "replace")
        return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")

    def write(self, path: str, content: str | bytes, *, executable: bool = False) -> None:
        """Write a file, with the folders above it; in place of a link, and never through one that leads elsewhere."""
        file = self.path / path
        assert file.parent.resolve().is_relative_to(self.path.resolve()), f"{path} would be written outside"
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.is_symlink():
            file.unlink()
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        file.chmod(0o755 if executable else 0o644)

    def link(self, path: str, target: str) -> None:
        """Write a symbolic link."""
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(target)

    def remove(self, path: str) -> None:
        """Remove a file or a folder."""
        self.git("rm", "-r", "--quiet", "--force", "--ignore-unmatch", "--", path)

    def move(self, old: str, new: str) -> None:
        """Rename a file or a folder."""
        (self.path / new).parent.mkdir(parents=True, exist_ok=True)
        self.git("mv", "--", old, new)

    def commit(self, message: str = "Change") -> str:
        """Commit everything there is, changed or not, and give back the commit's id."""
        self._second += 60
        if self._is_plain(message):
            with contextlib.suppress(pygit2.GitError):  # folders that are nested too deep for it, for instance
                return self._commit(message)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", f"--message={message}")
        return self._tip() or self.head()

    def prepared(self, *, upon: str) -> str:
        """A commit of everything there is upon another one, at which no ref is yet: whoever watches sees nothing."""
        self._second += 60
        self.git("add", "--all")
        return self.git("commit-tree", "-m", "Change", "-p", upon, self.git("write-tree"))

    def lead_to(self, commit: str, *, branch: str = "main") -> str:
        """Have the branch at a commit, in one step; the commit's id."""
        self.git("update-ref", f"refs/heads/{branch}", commit)
        return commit

    def commit_tree(self, tree: str, *, branch: str = "main") -> str:
        """Let the branch name a new commit with exactly this tree, which no working tree need be able to hold."""
        self._second += 60
        parents = [
            f"-p{parent}"
            for parent in self.git("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}").split()
        ]
        commit = self.git("commit-tree", "-m", "Change", *parents, tree)
        self.git("update-ref", f"refs/heads/{branch}", commit)
        return commit

    def blob(self, content: bytes) -> str:
        """Store a file's content alone."""
        return self.git("hash-object", "-w", "--stdin", data=content)

    def tree(self, *entries: tuple[str, bytes, str]) -> str:
        """Store a folder of (mode, name, id) exactly as it is given, whatever git thinks of it."""
        data = b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(entry) for mode, name, entry in entries)
        return self.git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", data=data)

    def head(self, branch: str = "HEAD") -> str:
        """The commit that HEAD or a branch is at."""
        return self.git("rev-parse", "--verify", branch)

    def branch(self, name: str, at: str = "HEAD") -> None:
        """Make a branch, without switching to it."""
        self.git("branch", "--quiet", name, at)

    def switch(self, name: str) -> None:
        """Switch to a branch that exists."""
        self.git("switch", "--quiet", name)

    def delete_branch(self, name: str) -> None:
        """Delete a branch, even the one that HEAD names."""
        self.git("update-ref", "-d", f"refs/heads/{name}")

    def rewind(self, commit: str) -> None:
        """Set the branch and the files back, as a force-push does."""
        self.git("reset", "--quiet", "--hard", commit)

    def restart(self) -> None:
        """Let the next commit be a new root of the branch, without any history in common."""
        self.git("update-ref", "-d", "HEAD")

    def pack(self) -> None:
        """Keep every object in one pack, as a mirror does, whether or not a ref leads to it."""
        objects = self.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)", "--unordered")
        self.git("pack-objects", "--quiet", ".git/objects/pack/pack", data=objects.encode() + b"\n")
        self.git("prune-packed", "--quiet")

    def worktree(self, path: Path, branch: str) -> "Repository":
        """A linked working tree on a new branch."""
        self.git("worktree", "add", "--quiet", "-b", branch, str(path))
        return self.at(path)

    def bare(self, path: Path) -> "Repository":
        """A bare clone, which `push` then keeps up to date."""
        self.git("clone", "--quiet", "--bare", "--no-local", ".", str(path))
        self.git("remote", "add", "origin", str(path))
        return self.at(path)

    def push(self, branch: str = "main") -> None:
        """Push to the bare clone, forced."""
        self.git("push", "--quiet", "--force", "origin", f"{branch}:{branch}")

    def at(self, path: Path) -> "Repository":
        """The repository at another place, a clone of this one for instance, whose commits come after these."""
        other = Repository(path)
        other._second = self._second
        return other

    def _is_plain(self, message: str) -> bool:
        """Return True when there is nothing here in which the library might not do what git does."""
        git = self.path / ".git"
        return (
            git.is_dir()
            and (git / "config").read_bytes() == (_empty("main", "sha1", bare=False) / "config").read_bytes()
            and (git / "HEAD").read_bytes().startswith(b"ref: refs/heads/")
            and not any((git / name).exists() for name in ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "shallow"))
            and not any((git / "hooks").iterdir())
            and not any(".git" in folders or ".gitattributes" in files for _, folders, files in self._below())
            and re.fullmatch(r"[A-Za-z0-9][\x20-\x7e]*[\x21-\x7e]", message) is not None
        )

    def _below(self) -> Iterator[tuple[str, list[str], list[str]]]:
        """As os.walk, less git's own folder."""
        walk = os.walk(self.path)
        for folder, folders, files in walk:
            if folder == str(self.path):
                folders.remove(".git")
            yield folder, folders, files

    def _commit(self, message: str) -> str:
        """The same commit as git makes, without two processes, of which there would be thousands in all."""
        ignore_configuration_of_others()
        repository = pygit2.Repository(str(self.path))
        repository.index.add_all()
        repository.index.write()
        parents = [] if repository.head_is_unborn else [repository.head.target]
        signature = pygit2.Signature(AUTHOR, ADDRESS, self._second, 0)
        tree = repository.index.write_tree()
        return str(repository.create_commit("HEAD", signature, signature, f"{message}\n", tree, parents))

    def _tip(self) -> str | None:
        """The commit that HEAD is at, where a file says so: a run of git less."""
        git = self.path / ".git"
        if not git.is_dir():
            return None
        kind, _, ref = (git / "HEAD").read_text().strip().partition(": ")
        file = git / ref
        return file.read_text().strip() if kind == "ref" and file.is_file() else None

    def _environment(self) -> dict[str, str]:
        date = f"{self._second} +0000"
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": "/nonexistent",
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            # No commit looks whether there is anything to clean up, which is a process of its own.
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "maintenance.auto",
            "GIT_CONFIG_VALUE_0": "false",
            "GIT_AUTHOR_NAME": AUTHOR,
            "GIT_AUTHOR_EMAIL": ADDRESS,
            "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_NAME": AUTHOR,
            "GIT_COMMITTER_EMAIL": ADDRESS,
            "GIT_COMMITTER_DATE": date,
        }


@functools.cache
def _empty(branch: str, object_format: str, *, bare: bool) -> Path:
    """Return what git makes of a new repository, without samples of hooks; made once in a process, and copied."""
    folder = _folder() / f"{branch.replace('/', '-')}-{object_format}-{bare}"
    folder.mkdir()
    kind = ["--bare"] if bare else []
    options = [*kind, f"--initial-branch={branch}", f"--object-format={object_format}"]
    Repository(folder).git("init", "--quiet", *options, ".")
    git = folder if bare else folder / ".git"
    for sample in (git / "hooks").glob("*.sample"):
        sample.unlink()
    return git


@functools.cache
def _folder() -> Path:
    made = tempfile.TemporaryDirectory(prefix="repositories-")
    atexit.register(made.cleanup)
    return Path(made.name)
