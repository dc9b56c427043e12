"""Looking into an answer: the JSON of the service as plain values, whatever is or is not in it."""

from reconciler.model.values import Value


def answer_objects(value: Value) -> list[dict[str, Value]]:
    """The objects of a list; whatever else an answer holds there is left out."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def answer_strings(value: Value) -> list[str]:
    """The strings of a list."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def answer_at(value: Value, *path: str) -> Value:
    """What is inside nested objects; None where there is nothing."""
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def answer_text(value: Value, *path: str) -> str:
    """What is inside nested objects, as text; nothing is the empty text."""
    found = answer_at(value, *path)
    if found is None or isinstance(found, dict | list):
        return ""
    return str(found).lower() if isinstance(found, bool) else str(found)


def answer_number(value: Value, *path: str) -> int:
    """A whole number inside nested objects; 0 where there is none."""
    found = answer_at(value, *path)
    return found if isinstance(found, int) else 0


def answer_lines(value: Value, *path: str) -> list[str]:
    """The lines of a text inside nested objects. LF alone ends one, whatever else Python takes for an end."""
    found = answer_text(value, *path)
    return found.split("\n") if found else []


def answer_identity(resource: Value) -> str:
    """`Kind/name`, as every command prints it."""
    return f"{answer_text(resource, 'kind') or '?'}/{answer_text(resource, 'metadata', 'name') or '?'}"


def place(value: Value) -> str:
    """`path:line` of what has a path and a line; empty when it has none."""
    path, line = answer_text(value, "path"), answer_text(value, "line")
    return f"{path}:{line}" if path and line else path
