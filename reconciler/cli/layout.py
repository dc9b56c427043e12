"""Resources as the files of a repository: what each file is called, and what stands in it. Pure.

Belongs here: names and order for readers. Does not: writing (`folders`), asking the service (`export`).
"""

from reconciler.cli.answers import answer_at, answer_text
from reconciler.model import masking, yaml_documents
from reconciler.model.components import MASK
from reconciler.model.names import Kind
from reconciler.model.resource import SERVER_KEYS
from reconciler.model.values import Value

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
