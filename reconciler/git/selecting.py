"""Which files of a tree are read as documents. Pure; whether such a file can be read is not decided here."""

from collections.abc import Sequence

from reconciler.git.ignoring import IgnoreRules
from reconciler.model import documents


def _lines(patterns: Sequence[str], root: str) -> IgnoreRules:
    return IgnoreRules({root: "\n".join(patterns)} if patterns else {}, root=root)


class FileGlobs:
    """What the settings say of files: `include` and `exclude`, gitignore(5) patterns relative to the folder `root`.

    Answers are remembered, so keep it for one read.
    """

    def __init__(self, *, include: Sequence[str] = (), exclude: Sequence[str] = (), root: str = "") -> None:
        self._include = _lines(include, root) if include else None
        self._exclude = _lines(exclude, root)

    def choose(self, path: str) -> bool:
        """Whether a file counts: it is included, by itself or with a folder above it, and not excluded."""
        return (self._include is None or self._include.ignored(path)) and not self.excluded(path)

    def excluded(self, path: str) -> bool:
        """Whether a file is excluded, by itself or with a folder above it."""
        return self._exclude.ignored(path)

    def excluded_folder(self, path: str) -> bool:
        """Whether whatever stands in a folder, or below it, is excluded with it."""
        return self._exclude.ignored_folder(path)


EVERYTHING = FileGlobs()


def is_considered(path: str, ignore: IgnoreRules, globs: FileGlobs = EVERYTHING) -> bool:
    """Whether a file counts: a document by its ending, in no folder that begins with a dot, chosen and not ignored.

    Symlinks, submodules and files with hostile names are considered by the same rule. Since their content is never
    taken (`File.readable`), one of them is a file that cannot be read, not one that is absent.
    """
    if documents.syntax_of(path) is None:
        return False
    if path.startswith(".") or "/." in path:
        folders = path.split("/")[len(ignore.root) : -1]
        if any(folder.startswith(".") for folder in folders):
            return False
    return globs.choose(path) and not ignore.ignored(path)
