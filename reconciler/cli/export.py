"""`reconciler export`: what the service holds, as the files of a repository."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click

from reconciler.cli import connecting, folders, layout, output, words
from reconciler.cli.answers import answer_text
from reconciler.cli.client import NOT_OURS, Client
from reconciler.cli.folders import ExportFolder
from reconciler.cli.kind_argument import complete_kind, known_kind
from reconciler.cli.sessions import Session, connected
from reconciler.model import names, positions
from reconciler.model.components import MASK
from reconciler.model.errors import Refused
from reconciler.model.names import Kind
from reconciler.model.values import Value

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
    with connecting.make_client(session) as client:
        for kind in dict.fromkeys(wanted):
            _export(client, kind, directory=directory, written=written)
    for remark in _remarks(written, directory):
        output.note(remark)
    output.line(_verdict(written, directory))


def _check(directory: Path, *, force: bool) -> None:
    """Raises Refused for a folder in which something could be lost."""
    if directory.exists() and not directory.is_dir():
        raise Refused(f"{directory} is not a folder")
    if directory.exists() and not force and any(each.name != folders.GIT for each in directory.iterdir()):
        raise Refused(f"{directory} is not empty; choose another folder, or replace files in it with --force")


def _export(client: Client, kind: Kind, *, directory: Path, written: Written) -> None:
    """Every resource of a kind, page by page; folders are made once there is something to put in them."""
    files = layout.FileNames()
    mine: set[str] = set()
    for page in _pages(client, kind):
        kept = [resource for resource in page if not layout.is_built_in(resource)]
        if kept:
            with folders.open_folder(directory) as target, target.inside(kind.plural) as folder:
                mine |= {_write(each, folder=folder, kind=kind, files=files, written=written) for each in kept}
    if (directory / kind.plural).is_dir():
        with folders.open_folder(directory) as target, target.inside(kind.plural) as folder:
            written.others += [layout.file_path(kind, name) for name in folder.names() if name not in mine]


def _write(
    resource: dict[str, Value], *, folder: ExportFolder, kind: Kind, files: layout.FileNames, written: Written
) -> str:
    name = files.of(answer_text(resource, "metadata", "name"))
    if layout.is_damaged(resource):
        written.damaged.append(layout.file_path(kind, name))
        return name
    data = layout.file_contents(resource)
    folder.write(name, data)
    path = layout.file_path(kind, name)
    written.counts[kind.plural] += 1
    if layout.holds_placeholder(resource):
        written.masked.append(path)
    if layout.hides_text(resource):
        written.hidden.append(path)
    if layout.is_incomplete(resource):
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
            yield f"and {words.counted(len(paths) - MOST_TOLD, 'more file')} likewise"
    if written.masked:
        yield (
            f"applied to this service, `{MASK}` keeps the secret that is stored; in Git it is a violation: before a "
            "commit, write a reference such as ${env:NAME} in its place"
        )


def _verdict(written: Written, directory: Path) -> str:
    total = written.counts.total()
    counts = ", ".join(words.counted(number, plural.removesuffix("s")) for plural, number in written.counts.items())
    return f"{words.counted(total, 'file')} written to {directory}" + (f": {counts}" if counts else "")
