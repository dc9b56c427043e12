"""What `apply` and `delete` share: resources from files. What comes back is told in `updates`."""

from typing import NamedTuple

from reconciler.cli import files, output, words
from reconciler.model import resource
from reconciler.model.errors import Refused
from reconciler.model.positions import DocumentError
from reconciler.model.values import Value


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
    for file in files.read_texts(paths):
        if isinstance(file, files.Unreadable):
            problems.append(f"{file.path}: {file.message}")
            continue
        try:
            documents = file.documents()
        except DocumentError as problem:
            problems.append(f"{file.path}:{problem.line}:{problem.column}: {problem.message}")
            continue
        values = [(value, document) for document in documents for value in files.unwrapped(document.value)]
        mine = [(value, document) for value, document in values if _is_resource(value)]
        others += len(values) - len(mine)
        found.extend(FoundResources(value, f"{file.path}:{document.line}") for value, document in mine)
    if problems:
        raise UnreadableFiles((*problems, "error: nothing was sent"))
    if others:
        skipped = words.counted(others, "document")
        output.note(f"{skipped} skipped, of no kind that this service has")
    if not found:
        raise Refused("there is no resource in what was given")
    return found


def _is_resource(value: Value) -> bool:
    # The server knows which other identifiers it accepts; here a kind of ours is enough.
    classification = resource.classify(value, api_versions=frozenset({"service/v1"}))
    return classification is resource.Classification.RESOURCE
