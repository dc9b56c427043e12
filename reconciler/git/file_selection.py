"""The choice of files: those of a tree that are read as documents, and those that are ignored."""

import codecs
from collections.abc import Mapping, Sequence

from reconciler.git import trees
from reconciler.model import documents, gitignore
from reconciler.model.errors import Refused
from reconciler.model.gitignore import Pattern

# The rules of `.serviceignore` files, as in gitignore(5), at any depth. Pure: the texts of the files are arguments.
# `model.gitignore` has the patterns of one line.

FILE_NAME = ".serviceignore"
MAX_IGNORE_BYTES = 64 * 1024  # of one ignore file; the reader refuses a larger one
MAX_PATTERNS = 1000  # in one ignore file: every file below is compared with each of them


def decoded_ignore_file(data: bytes) -> str:
    """Return the text of an ignore file.

    Raises Refused for text that is not UTF-8. It must not count as empty: then the ignored files would be applied.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(_wrong_text(data, f"byte 0x{data[error.start]:02X}")) from None
    if "\0" in text:  # UTF-16 without a byte order mark: with ASCII characters it is valid UTF-8
        raise Refused(_wrong_text(data, "a NUL character"))
    return text


def _wrong_text(data: bytes, found: str) -> str:
    is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in data
    told = "is UTF-16, which PowerShell writes" if is_wide else "is not UTF-8"
    return f"its text {told} ({found}); save it as UTF-8"


class IgnoreRules:
    """The ignore files below `root`, the configured folder.

    `texts` has their content by the folder's path from the repository's root ('' for the root). Raises Refused for one
    with too many patterns. Results are cached, so use one object for each read.
    """

    def __init__(self, texts: Mapping[str, str], *, root: str = "") -> None:
        self.root = tuple(trees.parts(root))
        self._patterns = {tuple(trees.parts(folder)): _parse(folder, text) for folder, text in texts.items()}
        self._folders: dict[tuple[str, ...], bool] = {}

    @property
    def count(self) -> int:
        """The number of patterns."""
        return sum(map(len, self._patterns.values()))

    def ignored(self, path: str) -> bool:
        """Return True if a file is ignored, by itself or with a folder above it."""
        if not self._patterns:
            return False
        names = tuple(path.split("/"))
        return self._folder_ignored(names[:-1]) or self._last_word(names, is_folder=False)

    def ignored_folder(self, path: str) -> bool:
        """Return True if a folder is ignored, by itself or with one above it. Then everything below is ignored too."""
        return bool(self._patterns) and self._folder_ignored(tuple(trees.parts(path)))

    def _folder_ignored(self, names: tuple[str, ...]) -> bool:
        # As in Git, nothing below an ignored folder can be included again.
        if len(names) <= len(self.root):
            return False
        known = self._folders.get(names)
        if known is None:
            known = self._folder_ignored(names[:-1]) or self._last_word(names, is_folder=True)
            self._folders[names] = known
        return known

    def _last_word(self, names: tuple[str, ...], *, is_folder: bool) -> bool:
        """Return the decision of the last matching line, in the nearest ignore file that has one."""
        for depth in range(len(names) - 1, -1, -1):
            for pattern in self._patterns.get(names[:depth], ()):
                if pattern.matches(names[depth:], is_folder=is_folder):
                    return not pattern.included
        return False


def _parse(folder: str, text: str) -> tuple[Pattern, ...]:
    """Return the patterns of one ignore file, the last line first."""
    lines = text.removeprefix("\ufeff").split("\n")
    found = [pattern for line in lines if (pattern := gitignore.parse(line)) is not None]
    if len(found) > MAX_PATTERNS:
        path = "/".join([*trees.parts(folder), FILE_NAME])
        raise Refused(f"{path} has {len(found)} patterns, and at most {MAX_PATTERNS} are allowed; use wildcards")
    return tuple(reversed(found))


# The files of a tree that are read as documents. Pure; the reader finds out if they can be read.


def _lines(patterns: Sequence[str], root: str) -> IgnoreRules:
    return IgnoreRules({root: "\n".join(patterns)} if patterns else {}, root=root)


class FileGlobs:
    """The settings `include` and `exclude`: gitignore(5) patterns relative to the folder `root`.

    Results are cached, so use one object for each read.
    """

    def __init__(self, *, include: Sequence[str] = (), exclude: Sequence[str] = (), root: str = "") -> None:
        self._include = _lines(include, root) if include else None
        self._exclude = _lines(exclude, root)

    def choose(self, path: str) -> bool:
        """Return True if a file is included, by itself or with a folder above it, and not excluded."""
        return (self._include is None or self._include.ignored(path)) and not self.excluded(path)

    def excluded(self, path: str) -> bool:
        """Return True if a file is excluded, by itself or with a folder above it."""
        return self._exclude.ignored(path)

    def excluded_folder(self, path: str) -> bool:
        """Return True if a folder is excluded, with everything below it."""
        return self._exclude.ignored_folder(path)


EVERYTHING = FileGlobs()


def is_considered(path: str, ignore: IgnoreRules, globs: FileGlobs = EVERYTHING) -> bool:
    """Return True if a file counts: it ends like a document, is in no hidden folder, and is chosen and not ignored.

    The same rule applies to symlinks, submodules and files with hostile names. Their content is never read
    (`TreeFile.readable`), so such a file counts as unreadable, not as absent.
    """
    if documents.syntax_of(path) is None:
        return False
    if path.startswith(".") or "/." in path:
        folders = path.split("/")[len(ignore.root) : -1]
        if any(folder.startswith(".") for folder in folders):
            return False
    return globs.choose(path) and not ignore.ignored(path)
