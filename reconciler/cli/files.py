"""Resources from files, folders and standard input."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from reconciler.cli import output
from reconciler.git import file_selection
from reconciler.model import documents, positions, resource
from reconciler.model.errors import Refused
from reconciler.model.positions import DocumentError
from reconciler.model.values import Document, Value

# Reading resources from files, folders and standard input: which files count, and what is in them.
#
# The rules are those of a repository: the same suffixes, the same `.serviceignore`, no link followed inside a folder.
# Judging what was read is in `validate`, sending it in `apply`.

STDIN = "-"
UNREAD = "says which files count and cannot be read"


@dataclass(frozen=True, slots=True)
class SourceText:
    """One file's bytes, and how to name it to a person."""

    path: str
    data: bytes
    syntax: documents.Syntax

    def documents(self) -> list[Document]:
        """What is in it; DocumentError for what cannot be read."""
        return documents.read(self.data, syntax=self.syntax, limits=positions.FILE_LIMITS)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that could not be opened or read, and why."""

    path: str
    message: str


def read_texts(paths: tuple[str, ...]) -> Iterator[SourceText | Unreadable]:
    """Every file that the paths stand for, once, in the order of the paths and then of the names."""
    seen: set[str] = set()
    for path in paths:
        for name in (STDIN,) if path == STDIN else _names(Path(path)):
            if os.path.realpath(name) not in seen:
                seen.add(os.path.realpath(name))
                yield _standard_input() if name == STDIN else _text(name)


def _names(path: Path) -> Iterator[str]:
    if not path.is_dir():
        if documents.syntax_of(path.name) is None:
            raise Refused(f"{path} is no .yaml, .yml or .json file")
        yield str(path)
        return
    found = sorted(_below(path), key=os.fsencode)
    ignore = file_selection.IgnoreRules({_folder(name): _rules(path / name) for name in found if _is_rules(name)})
    yield from (str(path / name) for name in found if file_selection.is_considered(name, ignore))


def _below(root: Path) -> Iterator[str]:
    """Every regular file below a folder, as `/`-separated relative paths; a link is not followed."""
    for folder, folders, names in os.walk(root, followlinks=False):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(folder, name)
            if path.is_symlink() and name == file_selection.FILE_NAME:
                raise Refused(f"{path} {UNREAD}: it is a link")
            if path.is_file() and not path.is_symlink():
                yield path.relative_to(root).as_posix()


def _is_rules(name: str) -> bool:
    return name.rpartition("/")[2] == file_selection.FILE_NAME


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _rules(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(file_selection.MAX_IGNORE_BYTES + 1)
    if len(data) > file_selection.MAX_IGNORE_BYTES:
        raise Refused(f"{path} holds more than {file_selection.MAX_IGNORE_BYTES} bytes; use wildcards")
    try:
        return file_selection.decoded_ignore_file(data)
    except Refused as refused:
        raise Refused(f"{path} {UNREAD}: {refused.message}") from None


def _text(name: str) -> SourceText | Unreadable:
    try:
        with Path(name).open("rb") as file:
            data = file.read(positions.FILE_LIMITS.bytes + 1)  # one byte more is enough for the reader to refuse it
    except OSError as problem:
        return Unreadable(name, f"cannot be read: {(problem.strerror or 'unknown reason').lower()}")
    return SourceText(path=name, data=data, syntax=documents.syntax_of(name) or documents.Syntax.YAML)


def _standard_input() -> SourceText:
    data = sys.stdin.buffer.read(positions.FILE_LIMITS.bytes + 1)
    syntax = documents.Syntax.JSON if data.lstrip()[:1] in (b"{", b"[") else documents.Syntax.YAML
    return SourceText(path="<stdin>", data=data, syntax=syntax)


def unwrapped(value: Value) -> list[Value]:
    """The resources of a document: itself, or those in the list that `get -o json` and the API's bodies have."""
    if isinstance(value, list):
        return list(value)
    if isinstance(value, dict) and value.keys() == {"resources"} and isinstance(value["resources"], list):
        return list(value["resources"])
    return [value]


# What `apply` and `delete` share: resources from files. What comes back is told in `apply`.


class UnreadableFiles(Refused):
    """Some files cannot be read, so nothing is sent: half of what someone meant is something else."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class FoundResources(NamedTuple):
    """A resource to send."""

    value: Value
    place: str  # path:line; empty for one that was named on the command line


def read_resources(paths: tuple[str, ...]) -> list[FoundResources]:
    """The resources in the files; what is something else (a Kubernetes manifest, say) is left out and counted."""
    found: list[FoundResources] = []
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
        values = [(value, document) for document in documents for value in unwrapped(document.value)]
        mine = [(value, document) for value, document in values if _is_resource(value)]
        others += len(values) - len(mine)
        found.extend(FoundResources(value, f"{file.path}:{document.line}") for value, document in mine)
    if problems:
        raise UnreadableFiles((*problems, "error: nothing was sent"))
    if others:
        skipped = output.counted(others, "document")
        output.note(f"{skipped} skipped, of no kind that this service has")
    if not found:
        raise Refused("there is no resource in what was given")
    return found


def _is_resource(value: Value) -> bool:
    # The server knows which other identifiers it accepts; here a kind of ours is enough.
    classification = resource.classify(value, api_versions=frozenset({"service/v1"}))
    return classification is resource.Classification.RESOURCE
