"""`reconciler export`: resources as the files of a repository, each written whole or not at all, and nowhere else."""

import os
import stat
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from reconciler.cli import client, output
from reconciler.cli.client import NOT_OURS, Client
from reconciler.cli.options import Session, complete_kind, connected, known_kind
from reconciler.model import masking, names, positions, yaml_documents
from reconciler.model.components import MASK
from reconciler.model.errors import Refused
from reconciler.model.names import Kind
from reconciler.model.resource import SERVER_KEYS
from reconciler.model.values import Value

SUFFIX = ".yaml"
TOP = ("apiVersion", "kind", "metadata", "spec")
LEADING = ("id", "name", "displayName", "type", "value")  # keys before all others, which keep their order
FOLDER = os.O_RDONLY | os.O_DIRECTORY
GIT = ".git"  # in a new repository
PAGE = 100  # resources in memory at a time
MOST_TOLD = 20  # files named in one remark
DAMAGED = "is not written: the resource is damaged in the store; apply it anew, or restore a backup"
MASKED = f"holds `{MASK}` in place of a secret"
HIDDEN = f"holds `{MASK}` in place of its text, which a viewer may not read; it cannot be applied"
INCOMPLETE = (
    "is incomplete: apply it with --accept-invalid, or correct and add its parameters, or complete what it names"
)
LARGE = f"is larger than {positions.FILE_LIMITS.bytes >> 20} MiB, which is the most that is read from a file"
OTHER = "belongs to no resource that was exported, and stays; delete it unless it is wanted"
REMARKS = (MASKED, HIDDEN, INCOMPLETE, LARGE, DAMAGED, OTHER)  # in the order in which they are printed
IN_GIT = (
    f"applied to this service, `{MASK}` keeps the secret that is stored; in Git it is a violation: before a commit, "
    "write a reference such as ${env:NAME} in its place"
)


class FileNames:
    """The files of one kind's resources, in the order of their names.

    The name of a file is that of its resource, unless an earlier one differs from it in case alone: some disks would
    take the two for one. Such a name is followed by `~` and, in hexadecimal, the letters that are capitals, the first
    letter being the lowest bit; no resource has `~` in its name.
    """

    def __init__(self) -> None:
        self._folded: set[str] = set()

    def of(self, name: str) -> str:
        """Return the file of a new resource."""
        folded = name.lower()
        if folded not in self._folded:
            self._folded.add(folded)
            return name + SUFFIX
        capitals = sum(1 << position for position, letter in enumerate(name) if letter.isupper())
        return f"{name}~{capitals:x}{SUFFIX}"


def file_contents(resource: dict[str, Value]) -> bytes:
    """Return the file of a resource: the part that a user owns, in an order to be read."""
    owned = {key: resource[key] for key in TOP if key in resource}
    metadata = owned.get("metadata")
    if isinstance(metadata, dict):
        owned["metadata"] = {key: value for key, value in metadata.items() if key not in SERVER_KEYS}
    return yaml_documents.to_yaml([{key: _ordered(value) for key, value in owned.items()}]).encode()


def _ordered(value: Value) -> Value:
    if isinstance(value, list):
        return [_ordered(each) for each in value]
    if not isinstance(value, dict):
        return value
    leading = [key for key in LEADING if key in value]
    return {key: _ordered(value[key]) for key in dict.fromkeys((*leading, *value))}


def _remarks_of(resource: dict[str, Value], data: bytes) -> Iterator[str]:
    """Yield the remarks about the file of a resource."""
    spec = resource.get("spec")
    if masking.find_placeholders({"spec": None, **resource}):
        yield MASKED
    if resource.get("kind") == "Configuration" and isinstance(spec, dict) and spec.get("raw") == MASK:
        yield HIDDEN
    if client.at(resource, "status", "incomplete"):
        yield INCOMPLETE
    if len(data) > positions.FILE_LIMITS.bytes:
        yield LARGE


class _ExportFolder:
    """An open folder. Every step goes through the open folder, so that a link put in its place leads nowhere."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def names(self) -> list[str]:
        """Return the names in it, sorted."""
        with os.scandir(self._descriptor) as entries:
            return sorted(entry.name for entry in entries)

    @contextmanager
    def inside(self, name: str) -> Iterator["_ExportFolder"]:
        """Open the folder of this name in it, made when there is none. Raises Refused for a link or a file."""
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=self._descriptor)
        path = self.path / name
        try:
            descriptor = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=self._descriptor)
        except OSError as problem:
            if self._is_folder(name):
                raise
            raise Refused(f"{path} is not a folder, and links are not followed; move it away") from problem
        with _opened(path, descriptor) as folder:
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
def _opened(path: Path, descriptor: int) -> Iterator[_ExportFolder]:
    try:
        yield _ExportFolder(path, descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _kind_folder(directory: Path, kind: Kind) -> Iterator[_ExportFolder]:
    """Open the folder of a kind, made when there is none."""
    directory.mkdir(parents=True, exist_ok=True)
    with _opened(directory, os.open(directory, FOLDER)) as target, target.inside(kind.plural) as folder:
        yield folder


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
    counts: Counter[str] = Counter()  # by the plural of the kind
    remarks: dict[str, list[str]] = defaultdict(list)  # the files, relative to the folder
    if directory.exists() and not directory.is_dir():
        raise Refused(f"{directory} is not a folder")
    if directory.exists() and not force and any(each.name != GIT for each in directory.iterdir()):
        raise Refused(f"{directory} is not empty; choose another folder, or replace files in it with --force")
    with session.client() as service:
        for kind in dict.fromkeys(wanted):
            _export(service, kind, directory=directory, counts=counts, remarks=remarks)
    for remark in REMARKS:
        paths = remarks[remark]
        for path in paths[:MOST_TOLD]:
            output.note(f"{directory / path} {remark}")
        if len(paths) > MOST_TOLD:
            output.note(f"and {output.counted(len(paths) - MOST_TOLD, 'more file')} likewise")
    if remarks[MASKED]:
        output.note(IN_GIT)
    told = ", ".join(output.counted(number, plural.removesuffix("s")) for plural, number in counts.items())
    output.line(f"{output.counted(counts.total(), 'file')} written to {directory}" + (f": {told}" if told else ""))


def _export(
    service: Client, kind: Kind, *, directory: Path, counts: Counter[str], remarks: dict[str, list[str]]
) -> None:
    """Write every resource of a kind, page by page; the folder is made once there is a resource for it."""
    files = FileNames()
    mine: set[str] = set()
    for page in _pages(service, kind):
        # The service brings along the built-in ones by itself.
        kept = [one for one in page if client.text(one, "status", "source", "type") != "builtin"]
        if not kept:
            continue
        with _kind_folder(directory, kind) as folder:
            for resource in kept:
                name = files.of(client.text(resource, "metadata", "name"))
                mine.add(name)
                found = [DAMAGED]
                if not client.text(resource, "status", "error"):
                    data = file_contents(resource)
                    folder.write(name, data)
                    counts[kind.plural] += 1
                    found = list(_remarks_of(resource, data))
                for remark in found:
                    remarks[remark].append(f"{kind.plural}/{name}")
    if (directory / kind.plural).is_dir():
        with _kind_folder(directory, kind) as folder:
            remarks[OTHER] += [f"{kind.plural}/{name}" for name in folder.names() if name not in mine]


def _pages(service: Client, kind: Kind) -> Iterator[list[dict[str, Value]]]:
    """Yield a kind's resources by name. Raises Refused for an answer that would lead somewhere else, or nowhere."""
    last = ""
    for page in service.pages("resources", kind.name, size=PAGE):
        for resource in page:
            name = client.text(resource, "metadata", "name")
            if names.wrong_name(name) is not None or name <= last or client.text(resource, "kind") != kind.name:
                raise Refused(NOT_OURS)
            last = name
        yield page
