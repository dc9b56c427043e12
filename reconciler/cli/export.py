"""`reconciler export`."""

import os
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import click

from reconciler.cli import output
from reconciler.cli import session as cli_session
from reconciler.cli.client import NOT_OURS, Client
from reconciler.cli.options import complete_kind, known_kind
from reconciler.cli.session import Session, connected
from reconciler.cli.tables import answer_at, answer_text
from reconciler.model import masking, names, positions, yaml_documents
from reconciler.model.components import MASK
from reconciler.model.errors import Refused
from reconciler.model.names import Kind
from reconciler.model.resource import SERVER_KEYS
from reconciler.model.values import Value

# Resources as the files of a repository: what each file is called, and what stands in it. Pure.

SUFFIX = ".yaml"
TOP = ("apiVersion", "kind", "metadata", "spec")
LEADING = ("id", "name", "displayName", "type", "value")
"""Keys that come before all others, which keep their order."""


class FileNames:
    """The files of one kind's resources, in the order in which their names come.

    A file is called like its resource, unless an earlier one differs from it in case alone: some disks would take the
    two for one. Such a name is followed by `~` and, in hexadecimal, which of its letters are capitals, the first letter
    being the lowest bit; no resource has `~` in its name.
    """

    def __init__(self) -> None:
        self._folded: set[str] = set()

    def of(self, name: str) -> str:
        """The file of this resource, which is a new one."""
        folded = name.lower()
        if folded not in self._folded:
            self._folded.add(folded)
            return name + SUFFIX
        capitals = sum(1 << position for position, letter in enumerate(name) if letter.isupper())
        return f"{name}~{capitals:x}{SUFFIX}"


def file_path(kind: Kind, file: str) -> str:
    """Where a file stands, from the repository's root."""
    return f"{kind.plural}/{file}"


def file_document(resource: dict[str, Value]) -> dict[str, Value]:
    """What a user owns of a resource, in an order to be read."""
    owned = {key: resource[key] for key in TOP if key in resource}
    metadata = owned.get("metadata")
    if isinstance(metadata, dict):
        owned["metadata"] = {key: value for key, value in metadata.items() if key not in SERVER_KEYS}
    return {key: _ordered(value) for key, value in owned.items()}


def file_contents(resource: dict[str, Value]) -> bytes:
    """The file of a resource."""
    return yaml_documents.to_yaml([file_document(resource)]).encode()


def is_built_in(resource: Value) -> bool:
    """Whether the service brings it along by itself."""
    return answer_text(resource, "status", "source", "type") == "builtin"


def is_damaged(resource: Value) -> bool:
    """Whether something else stands for a resource that is damaged in the store."""
    return bool(answer_text(resource, "status", "error"))


def is_incomplete(resource: Value) -> bool:
    """Whether parameters are missing or bad, in it or in what it names."""
    return bool(answer_at(resource, "status", "incomplete"))


def holds_placeholder(resource: dict[str, Value]) -> bool:
    """Whether `(sensitive)` stands in it for a secret."""
    return bool(masking.find_placeholders({"spec": None, **resource}))


def hides_text(resource: dict[str, Value]) -> bool:
    """Whether `(sensitive)` stands in it for a Configuration's own text, which a viewer may not read."""
    spec = resource.get("spec")
    return resource.get("kind") == "Configuration" and isinstance(spec, dict) and spec.get("raw") == MASK


def _ordered(value: Value) -> Value:
    if isinstance(value, list):
        return [_ordered(each) for each in value]
    if not isinstance(value, dict):
        return value
    leading = [key for key in LEADING if key in value]
    return {key: _ordered(value[key]) for key in dict.fromkeys((*leading, *value))}


# Writing files into a folder, each whole or not at all, and nowhere else.
#
# Every step goes through the open folder, so that a link put in its place meanwhile leads nowhere.

FOLDER = os.O_RDONLY | os.O_DIRECTORY
GIT = ".git"  # what a new repository holds


class ExportFolder:
    """An open folder."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def names(self) -> list[str]:
        """What is in it, sorted."""
        with os.scandir(self._descriptor) as entries:
            return sorted(entry.name for entry in entries)

    @contextmanager
    def inside(self, name: str) -> Iterator["ExportFolder"]:
        """The folder of this name in it, made when there is none. Raises Refused for a link or a file."""
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=self._descriptor)
        path = self.path / name
        try:
            descriptor = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=self._descriptor)
        except OSError as problem:
            if self._is_folder(name):
                raise
            raise Refused(f"{path} is not a folder, and links are not followed; move it away") from problem
        with _open(path, descriptor) as folder:
            yield folder

    def write(self, name: str, data: bytes) -> None:
        """Put a file in it, in place of one that is there; a link is replaced, not followed."""
        if self._is_folder(name):
            raise Refused(f"{self.path / name} is a folder, and a file has to stand there; move it away")
        fresh = f".{name}.new"  # begins with a dot, so that nobody takes it for a resource
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=self._descriptor)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            with os.fdopen(os.open(fresh, flags, 0o666, dir_fd=self._descriptor), "wb") as file:
                file.write(data)
            os.rename(fresh, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except BaseException:
            with suppress(OSError):
                os.unlink(fresh, dir_fd=self._descriptor)
            raise

    def _is_folder(self, name: str) -> bool:
        with suppress(FileNotFoundError):
            return stat.S_ISDIR(os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mode)
        return False


@contextmanager
def open_folder(path: Path) -> Iterator[ExportFolder]:
    """The folder at a path, made when there is none."""
    path.mkdir(parents=True, exist_ok=True)
    with _open(path, os.open(path, FOLDER)) as folder:
        yield folder


@contextmanager
def _open(path: Path, descriptor: int) -> Iterator[ExportFolder]:
    try:
        yield ExportFolder(path, descriptor)
    finally:
        os.close(descriptor)


# `reconciler export`: what the service holds, as the files of a repository.

PAGE = 100  # resources in memory at a time
MOST_TOLD = 20  # files named in one remark
INCOMPLETE = (
    "is incomplete: apply it with --accept-invalid, or correct and add its parameters, or complete what it names"
)


@dataclass
class Written:
    """What an export did, for the remarks at its end. Paths are relative to the folder."""

    counts: Counter[str] = field(default_factory=Counter)  # by the plural of the kind
    masked: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    large: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)  # what is not written
    others: list[str] = field(default_factory=list)  # files beside those that were written


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--kind",
    "chosen",
    multiple=True,
    metavar="KIND",
    shell_complete=complete_kind,
    help="Only this kind; may be given more than once.",
)
@click.option("--force", is_flag=True, help="Write into a folder that is not empty, and replace files there.")
@connected
def export(session: Session, *, directory: Path, chosen: tuple[str, ...], force: bool) -> None:
    """Write every resource to a file of its own below DIR, to be kept in Git or applied again.

    A file is DIR/KIND/NAME.yaml, with the kind in the plural. What the service brings along by itself is left out.
    """
    wanted = [known_kind(word) for word in chosen] or list(names.KINDS)
    written = Written()
    _check(directory, force=force)
    with cli_session.make_client(session) as client:
        for kind in dict.fromkeys(wanted):
            _export(client, kind, directory=directory, written=written)
    for remark in _remarks(written, directory):
        output.note(remark)
    output.line(_verdict(written, directory))


def _check(directory: Path, *, force: bool) -> None:
    """Raises Refused for a folder in which something could be lost."""
    if directory.exists() and not directory.is_dir():
        raise Refused(f"{directory} is not a folder")
    if directory.exists() and not force and any(each.name != GIT for each in directory.iterdir()):
        raise Refused(f"{directory} is not empty; choose another folder, or replace files in it with --force")


def _export(client: Client, kind: Kind, *, directory: Path, written: Written) -> None:
    """Every resource of a kind, page by page; folders are made once there is something to put in them."""
    files = FileNames()
    mine: set[str] = set()
    for page in _pages(client, kind):
        kept = [resource for resource in page if not is_built_in(resource)]
        if kept:
            with open_folder(directory) as target, target.inside(kind.plural) as folder:
                mine |= {_write(each, folder=folder, kind=kind, files=files, written=written) for each in kept}
    if (directory / kind.plural).is_dir():
        with open_folder(directory) as target, target.inside(kind.plural) as folder:
            written.others += [file_path(kind, name) for name in folder.names() if name not in mine]


def _write(resource: dict[str, Value], *, folder: ExportFolder, kind: Kind, files: FileNames, written: Written) -> str:
    name = files.of(answer_text(resource, "metadata", "name"))
    if is_damaged(resource):
        written.damaged.append(file_path(kind, name))
        return name
    data = file_contents(resource)
    folder.write(name, data)
    path = file_path(kind, name)
    written.counts[kind.plural] += 1
    if holds_placeholder(resource):
        written.masked.append(path)
    if hides_text(resource):
        written.hidden.append(path)
    if is_incomplete(resource):
        written.incomplete.append(path)
    if len(data) > positions.FILE_LIMITS.bytes:
        written.large.append(path)
    return name


def _pages(client: Client, kind: Kind) -> Iterator[list[dict[str, Value]]]:
    """A kind's resources by name. Raises Refused for an answer that would lead somewhere else, or nowhere."""
    last = ""
    for page in client.pages("resources", kind.name, size=PAGE):
        for resource in page:
            name = answer_text(resource, "metadata", "name")
            if names.wrong_name(name) is not None or name <= last or answer_text(resource, "kind") != kind.name:
                raise Refused(NOT_OURS)
            last = name
        yield page


def _remarks(written: Written, directory: Path) -> Iterator[str]:
    """What is to be done about some of the files."""
    for paths, remark in (
        (written.masked, f"holds `{MASK}` in place of a secret"),
        (written.hidden, f"holds `{MASK}` in place of its text, which a viewer may not read; it cannot be applied"),
        (written.incomplete, INCOMPLETE),
        (
            written.large,
            f"is larger than {positions.FILE_LIMITS.bytes >> 20} MiB, which is the most that is read from a file",
        ),
        (written.damaged, "is not written: the resource is damaged in the store; apply it anew, or restore a backup"),
        (written.others, "belongs to no resource that was exported, and stays; delete it unless it is wanted"),
    ):
        for path in paths[:MOST_TOLD]:
            yield f"{directory / path} {remark}"
        if len(paths) > MOST_TOLD:
            yield f"and {output.counted(len(paths) - MOST_TOLD, 'more file')} likewise"
    if written.masked:
        yield (
            f"applied to this service, `{MASK}` keeps the secret that is stored; in Git it is a violation: before a "
            "commit, write a reference such as ${env:NAME} in its place"
        )


def _verdict(written: Written, directory: Path) -> str:
    total = written.counts.total()
    counts = ", ".join(output.counted(number, plural.removesuffix("s")) for plural, number in written.counts.items())
    return f"{output.counted(total, 'file')} written to {directory}" + (f": {counts}" if counts else "")
