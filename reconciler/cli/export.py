"""`reconciler export`: resources as the files of a repository, each written whole or not at all, and nowhere else."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import click

from reconciler.cli import client, output
from reconciler.cli.client import NOT_OURS, Client
from reconciler.cli.options import complete_kind, connected, known_kind
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


def file_name(name: str, folded: set[str]) -> str:
    """Return the file of the next resource of a kind, in the order of names; `folded` are the names before it.

    The name of a file is that of its resource, unless an earlier one differs from it in case alone: some disks would
    take the two for one. Such a name is followed by `~` and, in hexadecimal, the letters that are capitals, the first
    letter being the lowest bit; no resource has `~` in its name.
    """
    if name.lower() not in folded:
        folded.add(name.lower())
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


@contextmanager
def _kind_folder(directory: Path, kind: Kind) -> Iterator[int]:
    """Open the folder of a kind, made when there is none. Raises Refused for a link or a file.

    Every step goes through the open folder, so that a link put in its place leads nowhere.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as opened:
        target = os.open(directory, FOLDER)
        opened.callback(os.close, target)
        with suppress(FileExistsError):
            os.mkdir(kind.plural, dir_fd=target)
        try:
            folder = os.open(kind.plural, FOLDER | os.O_NOFOLLOW, dir_fd=target)
        except NotADirectoryError as problem:  # of a link, too
            where = directory / kind.plural
            raise Refused(f"{where} is not a folder, and links are not followed; move it away") from problem
        opened.callback(os.close, folder)
        yield folder


def _write(folder: int, path: Path, data: bytes) -> None:
    """Put a file into the open folder, in place of one that is there; a link is replaced, not followed."""
    fresh = f".{path.name}.new"  # begins with a dot, so that nobody takes it for a resource
    with suppress(FileNotFoundError):
        os.unlink(fresh, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(fresh, flags, 0o666, dir_fd=folder), "wb") as file:
            file.write(data)
        os.rename(fresh, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException as problem:
        with suppress(OSError):
            os.unlink(fresh, dir_fd=folder)
        if isinstance(problem, IsADirectoryError):
            raise Refused(f"{path} is a folder, and a file has to stand there; move it away") from problem
        raise


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
def export(service: Client, *, directory: Path, chosen: tuple[str, ...], force: bool) -> None:
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
    folded: set[str] = set()
    mine: set[str] = set()
    for page in _pages(service, kind):
        # The service brings along the built-in ones by itself.
        kept = [one for one in page if client.text(one, "status", "source", "type") != "builtin"]
        if not kept:
            continue
        with _kind_folder(directory, kind) as folder:
            for resource in kept:
                name = file_name(client.text(resource, "metadata", "name"), folded)
                mine.add(name)
                found = [DAMAGED]
                if not client.text(resource, "status", "error"):
                    data = file_contents(resource)
                    _write(folder, directory / kind.plural / name, data)
                    counts[kind.plural] += 1
                    found = list(_remarks_of(resource, data))
                for remark in found:
                    remarks[remark].append(f"{kind.plural}/{name}")
    if (directory / kind.plural).is_dir():
        with _kind_folder(directory, kind) as folder, os.scandir(folder) as entries:
            others = sorted(entry.name for entry in entries if entry.name not in mine)
        remarks[OTHER] += [f"{kind.plural}/{name}" for name in others]


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
