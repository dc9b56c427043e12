"""What is told of an audit event beside who did what, on one line: `name=coll, role=user, scopes=logs metrics`.

Belongs here: the text of any detail, whatever its members. Does not: which members there are (the service).
"""

from collections.abc import Iterator, Mapping

from reconciler.cli.answers import answer_at
from reconciler.model.values import Value

SENTENCE = "text"  # the one member that says all by itself


def detail_line(event: Value) -> str:
    """The detail of an event; empty for one without."""
    detail = answer_at(event, "detail")
    return ", ".join(_parts("", detail)) if isinstance(detail, dict) else ""


def _parts(path: str, members: Mapping[str, Value]) -> Iterator[str]:
    for name, value in members.items():
        if isinstance(value, dict):
            yield from _parts(f"{path}{name}.", value)
        else:
            yield _text(value) if path + name == SENTENCE else f"{path}{name}={_text(value)}"


def _text(value: Value) -> str:
    if isinstance(value, list):
        return " ".join(map(_text, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value)
