"""Git trees: their stored form, their entries, and names that are safe to show.

Pure. Names, sizes and counts come from whoever may push, so they are bounded and made harmless here, once; where the
bytes come from is `snapshots`' business.
"""

import functools
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from reconciler.git.faults import GitFault, RepositoryState

MAX_DEPTH = 100  # folders in folders
MAX_PATH_CHARACTERS = 4096
MAX_ENTRIES = 1_000_000  # in one walk: a tree can hold the next one ten times on every level

KIND, FOLDER, SUBMODULE = 0o170000, 0o040000, 0o160000  # bits of a mode, as in stat(2)

EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # the folder without entries, which need not be stored anywhere

Raw: TypeAlias = tuple[bytes, bytes, bytes]  # mode in octal, name, object id of 20 bytes

ENTRY = re.compile(rb"([0-7]{1,6}) ([^\0]+)\0(.{20})", re.DOTALL)
LINE = re.compile(rb"[0-7]{1,6} [^\0]+\0.{20}", re.DOTALL)  # the same without its parts, which takes half the time
LINES = re.compile(rb"(?:%b)*+" % LINE.pattern, re.DOTALL)  # as many as there are: half of that again
ENTRY_OVERHEAD_BYTES = 22  # the space, the NUL and the id
STEP_BYTES = 1 << 15  # that are compared at once: larger copies take fresh memory of the system's
BYTES_COUNTED = 128  # that are gone through in the time of one entry
# Control characters, characters that turn or break a line of text, and what separates paths on some system.
UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069/\\]")


class TreeMode(StrEnum):
    """The kind of an entry. HOSTILE: a file whose name, or the name of a folder above it, no file should have."""

    REGULAR = "regular"
    EXECUTABLE = "executable"
    SYMLINK = "symlink"
    SUBMODULE = "submodule"
    HOSTILE = "hostile"


class TreeFile(NamedTuple):
    """A file at its path from the repository's root. A hostile name is escaped, and never equals a harmless one."""

    path: str
    blob: str
    mode: TreeMode

    @property
    def readable(self) -> bool:
        """Return True if its content may be a document; anything else that is considered counts as unreadable."""
        return self.mode is TreeMode.REGULAR or self.mode is TreeMode.EXECUTABLE


class TreeChange(NamedTuple):
    """A file that differs between two trees: added (no `old_blob`), removed (no `new`), or changed."""

    path: str
    old_blob: str | None
    new: TreeFile | None


class TreeEntry(NamedTuple):
    """One line of a folder, its name made safe. `mode` is as in stat(2)."""

    name: str
    mode: int
    id: str
    hostile: bool

    @property
    def is_folder(self) -> bool:
        """Return True if it is a folder."""
        return self.mode & KIND == FOLDER


@dataclass(slots=True)
class TreePlace:
    """The place of a walk. `left` counts down the entries that the whole walk may still see; `only` has the folders to
    enter, by their prefixes: None enters all but those that begin with a dot.
    """

    prefix: str
    depth: int = 0
    hostile: bool = False
    left: list[int] = field(default_factory=lambda: [MAX_ENTRIES])
    only: Collection[str] | None = None

    def enters(self, entry: TreeEntry) -> bool:
        """Return True if the walk goes into an entry: a folder, and one that counts."""
        if self.only is None:
            return entry.is_folder and not entry.name.startswith(".")
        return entry.is_folder and f"{self.prefix}{entry.name}/" in self.only

    def below(self, entry: TreeEntry) -> "TreePlace":
        """Return the place inside a folder."""
        prefix = f"{self.prefix}{entry.name}/"
        if self.depth >= MAX_DEPTH or len(prefix) > MAX_PATH_CHARACTERS:
            raise GitFault(
                RepositoryState.UNSUPPORTED_FORMAT,
                f"the folder {self.prefix[:200]} has more than {MAX_DEPTH} levels or too long a path; make it flatter",
            )
        return TreePlace(prefix, self.depth + 1, self.hostile or entry.hostile, self.left, self.only)

    def count(self, entries: int) -> None:
        """Refuse to go on when the walk has seen too much."""
        self.left[0] -= entries
        if self.left[0] < 0:
            raise GitFault(
                RepositoryState.UNSUPPORTED_FORMAT,
                f"the tree holds more than {MAX_ENTRIES} files; configure a folder of it",
            )

    def file(self, entry: TreeEntry) -> TreeFile:
        """Return the file that an entry is, here."""
        mode = TreeMode.HOSTILE if self.hostile or entry.hostile else _mode(entry.mode)
        path = self.prefix + entry.name
        if len(path) > MAX_PATH_CHARACTERS:
            raise GitFault(
                RepositoryState.UNSUPPORTED_FORMAT,
                f"the path {path[:200]}… has more than {MAX_PATH_CHARACTERS} characters; shorten it",
            )
        return TreeFile(path, entry.id, mode)


def check_size(entries: int, depth: int) -> None:
    """Refuse a tree with too many entries, its folders' included, or too many folders in folders."""
    if entries > MAX_ENTRIES or depth > MAX_DEPTH:
        raise GitFault(
            RepositoryState.UNSUPPORTED_FORMAT,
            f"a tree holds more than {MAX_ENTRIES} files, or folders more than {MAX_DEPTH} levels deep; split it",
        )


def place(path: str) -> TreePlace:
    """Return where a walk of the folder `path` starts."""
    return TreePlace("".join(f"{part}/" for part in parts(path)))


def parts(path: str) -> list[str]:
    """Return the names in a configured path: `/teams/./a/` is `teams/a`."""
    return [part for part in path.split("/") if part not in {"", "."}]


def parse(data: bytes) -> list[Raw]:
    """A stored folder: `mode SP name NUL id`, again and again. Raises ValueError for anything else."""
    entries: list[Raw] = ENTRY.findall(data)
    parsed = sum(len(mode) + len(name) for mode, name, _ in entries) + ENTRY_OVERHEAD_BYTES * len(entries)
    if parsed != len(data):
        raise ValueError("not a well-formed tree")
    return entries


def differing(old: bytes, new: bytes) -> tuple[list[Raw], list[Raw]]:
    """Return the entries of two stored folders without those that both begin with and those that both end with.

    Raises ValueError for what is no folder. Only the entries that are returned are taken apart: that is fast.
    """
    most = min(len(old), len(new))
    begin = _lines_end(old, 0, _alike(old, new, most))
    alike = _alike(old, new, most - begin, at_end=True)
    old_end, new_end = _through(old, begin, len(old) - alike), _through(new, begin, len(new) - alike)
    if len(old) - old_end != len(new) - new_end or _lines_end(old, old_end, len(old)) != len(old):
        return parse(old[begin:]), parse(new[begin:])  # what is alike is the end of an entry in one, not in the other
    return parse(old[begin:old_end]), parse(new[begin:new_end])


def _alike(one: bytes, other: bytes, most: int, *, at_end: bool = False) -> int:
    """Return the number of bytes that both begin with, or end with, up to `most`."""
    low, high = 0, most
    while low < high:
        middle = min(low + STEP_BYTES, (low + high + 1) // 2)
        left, right = (
            data[len(data) - middle : len(data) - low] if at_end else data[low:middle] for data in (one, other)
        )
        low, high = (middle, high) if left == right else (low, middle - 1)
    return low


def _lines_end(data: bytes, begin: int, end: int) -> int:
    """Return where the last entry ends that ends at `end` or before."""
    found = LINES.match(data, begin, end)
    return found.end() if found else begin


def _through(data: bytes, begin: int, end: int) -> int:
    """Return where the first entry ends that ends at `end` or after; of what is no folder, anything."""
    before = _lines_end(data, begin, end)
    found = LINE.match(data, before) if before < end else None
    return found.end() if found else before


def _lines(data: bytes) -> list[bytes]:
    """Return the entries of a stored folder, not taken apart: that is fast."""
    lines = LINE.findall(data)
    if sum(map(len, lines)) != len(data):
        raise ValueError("not a well-formed tree")
    return lines


def compared(old: bytes, new: bytes) -> int:
    """Return the entries of a walk that comparing two folders counts as, beside those in which they differ: whoever
    may push decides how often it is done.
    """
    return (len(old) + len(new)) // BYTES_COUNTED


def find(data: bytes, name: bytes) -> Raw | None:
    """Return the first entry of this name in a stored folder. Raises ValueError for what is no folder."""
    text = b" %b\0" % name  # which may stand in another name, or in an id
    likely = [line for line in _lines(data) if text in line]
    return next((entry for entry in parse(b"".join(likely)) if entry[1] == name), None)


def named(entries: Iterable[Raw]) -> Iterator[TreeEntry]:
    """Yield entries with their names as text."""
    for mode, raw, entry in entries:
        name = escaped(raw)
        yield TreeEntry(name, int(mode, 8), entry.hex(), hostile=name.encode("utf-8") != raw)


def escaped(raw: bytes) -> str:
    """Return a name fit to be shown: the same for a harmless one, and different for different ones."""
    text = ""
    for part in re.split(rb"(\\)", raw):  # the backslash first: all others written below are ours
        text += "\\\\" if part == b"\\" else UNSAFE.sub(_escape, part.decode("utf-8", "surrogateescape"))
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def escaped_path(raw: bytes) -> str:
    """Return a path whose names are fit to be shown."""
    return "/".join(map(escaped, raw.split(b"/")))


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


@functools.cache  # a handful of modes, asked for every file
def _mode(mode: int) -> TreeMode:
    kind = mode & KIND
    if kind == 0o100000:
        return TreeMode.EXECUTABLE if mode & 0o111 else TreeMode.REGULAR
    return {0o120000: TreeMode.SYMLINK, SUBMODULE: TreeMode.SUBMODULE}.get(kind, TreeMode.HOSTILE)
