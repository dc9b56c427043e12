"""Git trees: their stored form, their entries, and names that are safe to show.

Pure. Anybody who may push chooses names, sizes and counts, so they are bounded and made harmless here. `snapshots`
reads the bytes.
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
MAX_ENTRIES = 1_000_000  # in one walk: a tree can contain the next one ten times on every level

KIND, FOLDER, SUBMODULE = 0o170000, 0o040000, 0o160000  # bits of a mode, as in stat(2)

EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # the folder without entries, which need not be stored anywhere

Raw: TypeAlias = tuple[bytes, bytes, bytes]  # mode in octal, name, object id of 20 bytes

ENTRY = re.compile(rb"([0-7]{1,6}) ([^\0]+)\0(.{20})", re.DOTALL)
LINE = re.compile(rb"[0-7]{1,6} [^\0]+\0.{20}", re.DOTALL)  # an entry without its parts, which takes half the time
LINES = re.compile(rb"(?:%b)*+" % LINE.pattern, re.DOTALL)  # all lines at once: half of that again
ENTRY_OVERHEAD_BYTES = 22  # the space, the NUL and the id
STEP_BYTES = 1 << 15  # compared at once: larger copies need new memory from the system
BYTES_COUNTED = 128  # compared in the time of one entry
# Control characters, characters that reverse or break a line of text, and path separators of any system.
UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069/\\]")


class TreeMode(StrEnum):
    """The kind of an entry. HOSTILE: the name of the file, or of a folder above it, is not harmless."""

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
        """True if its content may be a document. Any other considered file counts as unreadable."""
        return self.mode is TreeMode.REGULAR or self.mode is TreeMode.EXECUTABLE


class TreeChange(NamedTuple):
    """A file that differs between two trees: added (no `old_blob`), removed (no `new`), or changed."""

    path: str
    old_blob: str | None
    new: TreeFile | None


class TreeEntry(NamedTuple):
    """An entry of a folder, with a safe name. `mode` is as in stat(2)."""

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
    """The position of a walk. `left` is the number of entries that the whole walk may still read. `only` has the
    folders to enter, by their prefixes; None: all except those that begin with a dot.
    """

    prefix: str
    depth: int = 0
    hostile: bool = False
    left: list[int] = field(default_factory=lambda: [MAX_ENTRIES])
    only: Collection[str] | None = None

    def enters(self, entry: TreeEntry) -> bool:
        """Return True if the walk enters an entry: a folder that counts."""
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
        """Count entries that are read. Raises GitFault above the limit."""
        self.left[0] -= entries
        if self.left[0] < 0:
            raise GitFault(
                RepositoryState.UNSUPPORTED_FORMAT,
                f"the tree holds more than {MAX_ENTRIES} files; configure a folder of it",
            )

    def file(self, entry: TreeEntry) -> TreeFile:
        """Return an entry as a file at this place."""
        mode = TreeMode.HOSTILE if self.hostile or entry.hostile else _mode(entry.mode)
        path = self.prefix + entry.name
        if len(path) > MAX_PATH_CHARACTERS:
            raise GitFault(
                RepositoryState.UNSUPPORTED_FORMAT,
                f"the path {path[:200]}… has more than {MAX_PATH_CHARACTERS} characters; shorten it",
            )
        return TreeFile(path, entry.id, mode)


def check_size(entries: int, depth: int) -> None:
    """Refuse a tree with too many entries in all folders, or with folders nested too deeply."""
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
    """Parse a stored folder: `mode SP name NUL id`, repeated. Raises ValueError for anything else."""
    entries: list[Raw] = ENTRY.findall(data)
    parsed = sum(len(mode) + len(name) for mode, name, _ in entries) + ENTRY_OVERHEAD_BYTES * len(entries)
    if parsed != len(data):
        raise ValueError("not a well-formed tree")
    return entries


def differing(old: bytes, new: bytes) -> tuple[list[Raw], list[Raw]]:
    """Return the entries of two stored folders without their common beginning and end. Raises ValueError if one is no
    folder. Only the returned entries are parsed, which is fast.
    """
    most = min(len(old), len(new))
    begin = _lines_end(old, 0, _alike(old, new, most))
    alike = _alike(old, new, most - begin, at_end=True)
    old_end, new_end = _through(old, begin, len(old) - alike), _through(new, begin, len(new) - alike)
    if len(old) - old_end != len(new) - new_end or _lines_end(old, old_end, len(old)) != len(old):
        return parse(old[begin:]), parse(new[begin:])  # the common bytes are the end of an entry in only one of them
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
    """Return the end of the last entry that ends at `end` or before."""
    found = LINES.match(data, begin, end)
    return found.end() if found else begin


def _through(data: bytes, begin: int, end: int) -> int:
    """Return the end of the first entry that ends at `end` or after. The result is undefined if this is no folder."""
    before = _lines_end(data, begin, end)
    found = LINE.match(data, before) if before < end else None
    return found.end() if found else before


def _lines(data: bytes) -> list[bytes]:
    """Return the unparsed entries of a stored folder, which is fast."""
    lines = LINE.findall(data)
    if sum(map(len, lines)) != len(data):
        raise ValueError("not a well-formed tree")
    return lines


def compared(old: bytes, new: bytes) -> int:
    """Return the cost of comparing two folders as a number of entries, beside those that differ. A person who may push
    decides how often folders are compared, so the cost must be counted.
    """
    return (len(old) + len(new)) // BYTES_COUNTED


def find(data: bytes, name: bytes) -> Raw | None:
    """Return the first entry with this name in a stored folder, or None. Raises ValueError if this is no folder."""
    text = b" %b\0" % name  # these bytes may also be in another name, or in an id
    likely = [line for line in _lines(data) if text in line]
    return next((entry for entry in parse(b"".join(likely)) if entry[1] == name), None)


def named(entries: Iterable[Raw]) -> Iterator[TreeEntry]:
    """Yield entries with their names as text."""
    for mode, raw, entry in entries:
        name = escaped(raw)
        yield TreeEntry(name, int(mode, 8), entry.hex(), hostile=name.encode("utf-8") != raw)


def escaped(raw: bytes) -> str:
    """Return a name that is safe to show. A harmless name stays the same, and different names stay different."""
    text = ""
    for part in re.split(rb"(\\)", raw):  # the backslash first: all backslashes that are added below are ours
        text += "\\\\" if part == b"\\" else UNSAFE.sub(_escape, part.decode("utf-8", "surrogateescape"))
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def escaped_path(raw: bytes) -> str:
    """Return a path whose names are safe to show."""
    return "/".join(map(escaped, raw.split(b"/")))


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


@functools.cache  # a handful of modes, asked for every file
def _mode(mode: int) -> TreeMode:
    kind = mode & KIND
    if kind == 0o100000:
        return TreeMode.EXECUTABLE if mode & 0o111 else TreeMode.REGULAR
    return {0o120000: TreeMode.SYMLINK, SUBMODULE: TreeMode.SUBMODULE}.get(kind, TreeMode.HOSTILE)
