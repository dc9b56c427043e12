"""`reconciler export`: each resource as a file in a new folder, to be kept in Git or applied again."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from reconciler.cli import client, output
from reconciler.cli.client import NOT_OURS, Client
from reconciler.cli.options import connected
from reconciler.model import masking, names, yaml_documents
from reconciler.model.components import MASK
from reconciler.model.desired import SERVER_KEYS
from reconciler.model.errors import Refused
from reconciler.model.names import Kind
from reconciler.model.values import Value

SUFFIX = ".yaml"
TOP = ("apiVersion", "kind", "metadata", "spec")
LEADING = ("id", "name", "displayName", "type", "value")  # these keys come first; the others keep their order
GIT = ".git"  # in a new repository
PAGE = 100  # resources in memory at a time
DAMAGED = "is not written: the resource is damaged in the store; apply it anew, or restore a backup"
MASKED = f"holds `{MASK}` in place of a secret"
HIDDEN = f"holds `{MASK}` in place of its text, which a viewer may not read; it cannot be applied"
INCOMPLETE = (
    "is incomplete: apply it with --accept-invalid, or correct and add its parameters, or complete what it names"
)
IN_GIT = (
    f"applied to this service, `{MASK}` keeps the secret that is stored; in Git it is a violation: before a commit, "
    "write a reference such as ${env:NAME} in its place"
)


def file_name(name: str, folded: Counter[str]) -> str:
    """Return the name of the file of a kind's next resource, in the order of names. `folded` counts the names so far.

    Names that differ only in case get a number, because some disks treat them as equal. No resource has `~` in its
    name.
    """
    folded[name.lower()] += 1
    number = folded[name.lower()]
    return f"{name}~{number}{SUFFIX}" if number > 1 else name + SUFFIX


def file_contents(resource: dict[str, Value]) -> bytes:
    """Return the content of a resource's file: the parts that a user owns, in an order that is easy to read."""
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


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@connected
def export(service: Client, *, directory: Path) -> None:
    """Write every resource to a file of its own below DIR, a new or empty folder: for Git, or to be applied again.

    A file is DIR/KIND/NAME.yaml, with the kind in the plural. Built-in resources are left out.
    """
    if directory.exists() and (not directory.is_dir() or any(each.name != GIT for each in directory.iterdir())):
        raise Refused(f"{directory} is not an empty folder; choose another")
    counts: Counter[str] = Counter()  # by the plural of the kind
    is_masked = False
    for kind in names.KINDS:
        folded: Counter[str] = Counter()
        for resource in _resources(service, kind):
            if client.text(resource, "status", "source", "type") == "builtin":
                continue
            path = directory / kind.plural / file_name(client.text(resource, "metadata", "name"), folded)
            if client.text(resource, "status", "error"):
                output.note(f"{path} {DAMAGED}")
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file_contents(resource))
            counts[kind.plural] += 1
            for remark in _remarks_of(resource):
                output.note(f"{path} {remark}")
                is_masked = is_masked or remark == MASKED
    if is_masked:
        output.note(IN_GIT)
    told = ", ".join(output.counted(number, plural.removesuffix("s")) for plural, number in counts.items())
    output.line(f"{output.counted(counts.total(), 'file')} written to {directory}" + (f": {told}" if told else ""))


def _resources(service: Client, kind: Kind) -> Iterator[dict[str, Value]]:
    """Yield the resources of a kind by name. Raises Refused for names that would lead to other files."""
    last = ""
    for page in service.pages("resources", kind.name, size=PAGE):
        for resource in page:
            name = client.text(resource, "metadata", "name")
            if names.wrong_name(name) is not None or name <= last or client.text(resource, "kind") != kind.name:
                raise Refused(NOT_OURS)
            last = name
            yield resource
