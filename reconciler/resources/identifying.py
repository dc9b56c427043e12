"""Which resource a document names, when nothing else of it matters, as in a delete."""

from reconciler.documents.values import Value, pointer_text
from reconciler.resources import judging, kinds, names
from reconciler.resources.keys import Key


def identify(document: Value) -> tuple[Key | None, str | None]:
    """The key, or None and what is wrong with kind and name, one problem a line."""
    body = document if isinstance(document, dict) else {}
    metadata = body.get("metadata")
    kind, name = body.get("kind"), metadata.get("name") if isinstance(metadata, dict) else None
    problems = []
    if not isinstance(kind, str) or kinds.exact(kind) is None:
        problem = judging.unknown_kind(kind) if isinstance(kind, str) else "is required, a string"
        problems.append(f"{pointer_text(('kind',))}: {problem}")
    wrong = names.name(name) if isinstance(name, str) else "is required, a string"
    if wrong is not None:
        problems.append(f"{pointer_text(('metadata', 'name'))}: {wrong}")
    if problems or not isinstance(kind, str) or not isinstance(name, str):
        return None, "\n".join(problems)
    return Key(kind, name), None
