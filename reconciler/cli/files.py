"""Resources from files, folders and standard input.

The rules are those of a repository: the same suffixes and `.serviceignore`, and no link inside a folder is followed.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from reconciler.cli import output
from reconciler.git import file_selection
from reconciler.model import desired, documents, positions
from reconciler.model.errors import Refused
from reconciler.model.positions import DocumentError
from reconciler.model.values import Document, Value

STDIN = "-"
UNREAD = "says which files count and cannot be read"
API_VERSION = "service/v1"


@dataclass(frozen=True, slots=True)
class SourceText:
    """The bytes of a file, and its name for a person."""

    path: str
    data: bytes
    syntax: documents.Syntax

    def documents(self) -> list[Document]:
        """Read the documents; raises DocumentError."""
        return documents.read(self.data, syntax=self.syntax, limits=positions.FILE_LIMITS)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that could not be opened or read, and why."""

    path: str
    message: str


class FoundResource(NamedTuple):
    """A resource to send."""

    value: Value
    place: str  # path:line; empty for one that was named on the command line


class UnreadableFiles(Refused):
    """Some files cannot be read, so nothing is sent: some of the files may mean something else than all."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


def read_texts(paths: tuple[str, ...]) -> Iterator[SourceText | Unreadable]:
    """Yield each file of the paths once, ordered by path and then by name."""
    seen: set[str] = set()
    for path in paths:
        for name in (STDIN,) if path == STDIN else _names(Path(path)):
            if os.path.realpath(name) not in seen:
                seen.add(os.path.realpath(name))
                yield _read(name)


def _names(path: Path) -> Iterator[str]:
    if not path.is_dir():
        if documents.syntax_of(path.name) is None:
            raise Refused(f"{path} is no .yaml, .yml or .json file")
        yield str(path)
        return
    found = sorted(_below(path), key=os.fsencode)
    ignore = ignore_rules(path, found, below="")
    yield from (str(path / name) for name in found if file_selection.is_considered(name, ignore))


def _below(root: Path) -> Iterator[str]:
    """Yield each regular file below a folder as a relative path with `/`. Links are not followed."""
    for folder, folders, names in os.walk(root, followlinks=False):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                yield path.relative_to(root).as_posix()


def ignore_rules(root: Path, names: Iterable[str], *, below: str) -> file_selection.IgnoreRules:
    """Return the ignore files of a folder that concern these files, whose names are relative to the root."""
    above = {folder for name in names for folder in _folders_above(name)}
    folders = {folder for folder in above if not below or f"{folder}/".startswith(f"{below}/")}
    texts = {}
    for folder in sorted(folders):
        path = root / folder / file_selection.FILE_NAME
        if path.is_symlink():
            raise Refused(f"{path} {UNREAD}: it is a link")
        if path.is_file():
            texts[folder] = _rules(path)
    return file_selection.IgnoreRules(texts, root=below)


def _folders_above(name: str) -> Iterator[str]:
    while name:
        name = name.rpartition("/")[0]
        yield name


def _rules(path: Path) -> str:
    data = output.read_bytes(path, file_selection.MAX_IGNORE_BYTES + 1)
    if len(data) > file_selection.MAX_IGNORE_BYTES:
        raise Refused(f"{path} holds more than {file_selection.MAX_IGNORE_BYTES} bytes; use wildcards")
    try:
        return file_selection.decoded_ignore_file(data)
    except Refused as refused:
        raise Refused(f"{path} {UNREAD}: {refused.message}") from None


def _read(name: str) -> SourceText | Unreadable:
    most = positions.FILE_LIMITS.bytes + 1  # one byte more is enough for a refusal
    if name == STDIN:
        data = sys.stdin.buffer.read(most)
        syntax = documents.Syntax.JSON if data.lstrip()[:1] in (b"{", b"[") else documents.Syntax.YAML
        return SourceText(path="<stdin>", data=data, syntax=syntax)
    try:
        data = output.read_bytes(Path(name), most)
    except OSError as problem:
        return Unreadable(name, f"cannot be read: {(problem.strerror or 'unknown reason').lower()}")
    return SourceText(path=name, data=data, syntax=documents.syntax_of(name) or documents.Syntax.YAML)


def read_resources(paths: tuple[str, ...]) -> list[FoundResource]:
    """Read the resources in the files. Other documents, such as a Kubernetes manifest, are skipped and counted."""
    found: list[FoundResource] = []
    problems: list[str] = []
    others = 0
    for file in read_texts(paths):
        if isinstance(file, Unreadable):
            problems.append(f"{file.path}: {file.message}")
            continue
        try:
            documents = file.documents()
        except DocumentError as problem:
            problems.append(f"{file.path}:{problem.line}:{problem.column}: {problem.message}")
            continue
        for document in documents:
            for value in _unwrapped(document.value):
                # Only the server knows which other `apiVersion` it accepts, so here one of our kinds is enough.
                if is_resource(value, api_versions=frozenset({API_VERSION})):
                    found.append(FoundResource(value, f"{file.path}:{document.line}"))
                else:
                    others += 1
    if problems:
        raise UnreadableFiles((*problems, "error: nothing was sent"))
    if others:
        output.note(f"{output.counted(others, 'document')} skipped, of no kind that this service has")
    if not found:
        raise Refused("the files have no resource")
    return found


def _unwrapped(value: Value) -> list[Value]:
    """Return the resources of a document: itself, or those of a list, as in `get -o json` and bodies of the API."""
    if isinstance(value, dict) and value.keys() == {"resources"} and isinstance(value["resources"], list):
        value = value["resources"]
    return list(value) if isinstance(value, list) else [value]


def is_resource(value: Value, *, api_versions: frozenset[str]) -> bool:
    """Decide if a document is a resource of ours."""
    return desired.classify(value, api_versions=api_versions) is desired.Classification.RESOURCE
