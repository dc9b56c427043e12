"""`reconciler export`: resources as the files of a repository, each written whole or not at all, and nowhere else."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import click

from reconciler.cli import client, output
from reconciler.cli.client import NOT_OURS, Client
from reconciler.cli.options import complete_kind, connected, known_kind
from reconciler.model import masking, names, yaml_documents
from reconciler.model.components import MASK
from reconciler.model.desired import SERVER_KEYS
from reconciler.model.errors import Refused
from reconciler.model.names import Kind
from reconciler.model.values import Value

SUFFIX = ".yaml"
TOP = ("apiVersion", "kind", "metadata", "spec")
LEADING = ("id", "name", "displayName", "type", "value")  # keys before all others, which keep their order
GIT = ".git"  # in a new repository
PAGE = 100  # resources in memory at a time
MOST_TOLD = 20  # files named in one remark
DAMAGED = "is not written: the resource is damaged in the store; apply it anew, or restore a backup"
MASKED = f"holds `{MASK}` in place of a secret"
HIDDEN = f"holds `{MASK}` in place of its text, which a viewer may not read; it cannot be applied"
INCOMPLETE = (
    "is incomplete: apply it with --accept-invalid, or correct and add its parameters, or complete what it names"
)
OTHER = "belongs to no resource that was exported, and stays; delete it unless it is wanted"
REMARKS = (MASKED, HIDDEN, INCOMPLETE, DAMAGED, OTHER)  # in the order in which they are printed
IN_GIT = (
    f"applied to this service, `{MASK}` keeps the secret that is stored; in Git it is a violation: before a commit, "
    "write a reference such as ${env:NAME} in its place"
)


def file_name(name: str, folded: Counter[str]) -> str:
    """Return the file of the next resource of a kind, in the order of names; `folded` counts the names before it.

    Names that differ in case alone get a number, as some disks would take them for one; no resource has `~` in its
    name.
    """
    folded[name.lower()] += 1
    number = folded[name.lower()]
    return f"{name}~{number}{SUFFIX}" if number > 1 else name + SUFFIX


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


def _remarks_of(resource: dict[str, Value]) -> Iterator[str]:
    """Yield the remarks about the file of a resource."""
    spec = resource.get("spec")
    if masking.find_placeholders({"spec": None, **resource}):
        yield MASKED
    if resource.get("kind") == "Configuration" and isinstance(spec, dict) and spec.get("raw") == MASK:
        yield HIDDEN
    if client.at(resource, "status", "incomplete"):
        yield INCOMPLETE


def _write(path: Path, data: bytes) -> None:
    """Put a file in place of one that is there, whole or not at all; a link is replaced, not followed."""
    fresh = path.with_name(f".{path.name}.new")  # begins with a dot, so that nobody takes it for a resource
    fresh.unlink(missing_ok=True)
    with fresh.open("xb") as file:
        file.write(data)
    fresh.replace(path)


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
    folder = directory / kind.plural
    if folder.is_symlink():
        raise Refused(f"{folder} is a link, and links are not followed; move it away")
    folded: Counter[str] = Counter()
    mine: set[str] = set()
    for page in _pages(service, kind):
        for resource in page:
            if client.text(resource, "status", "source", "type") == "builtin":
                continue  # the service brings it along by itself
            folder.mkdir(parents=True, exist_ok=True)
            name = file_name(client.text(resource, "metadata", "name"), folded)
            mine.add(name)
            found = [DAMAGED]
            if not client.text(resource, "status", "error"):
                _write(folder / name, file_contents(resource))
                counts[kind.plural] += 1
                found = list(_remarks_of(resource))
            for remark in found:
                remarks[remark].append(f"{kind.plural}/{name}")
    if folder.is_dir():
        others = sorted(path.name for path in folder.iterdir() if path.name not in mine)
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
