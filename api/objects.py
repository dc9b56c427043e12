"""Bodies that are one small JSON object: its members read with their types, every mistake in one answer.

Belongs here: shape. Does not: what a value means, which its handler says; resources, whose bodies the applier reads.
"""

from collections.abc import Collection, Sequence

from api import bodies, errors
from api.calls import Call
from reconciler.model import documents as model_documents
from reconciler.model import positions
from reconciler.model.values import Value, pointer_text

MAX_BYTES = 8_192  # of a body; the longest text in one has 1,024 characters, and JSON may escape each


class Members:
    """The members of a body. `mistakes` gathers what is wrong with them, for `check` to tell."""

    def __init__(self, value: dict[str, Value], *, known: Sequence[str]) -> None:
        self.value = value
        self.mistakes = [f"{_at(key)}: unknown key; {_allowed(known)}" for key in value if key not in known]

    def text(self, name: str, *, required: bool = False) -> str | None:
        """Text, or None when it is not given."""
        value = self.value.get(name)
        if isinstance(value, str):
            return value
        if name in self.value:
            self.mistake(name, "must be a string")
        elif required:
            self.mistake(name, "is required")
        return None

    def boolean(self, name: str) -> bool | None:
        """True, false, or None when it is not given."""
        value = self.value.get(name)
        if isinstance(value, bool):
            return value
        if name in self.value:
            self.mistake(name, "must be true or false")
        return None

    def choice(self, name: str, among: Collection[str], *, required: bool = False) -> str | None:
        """One of a few texts, or None when it is not given."""
        value = self.text(name, required=required)
        if value is None or value in among:
            return value
        self.mistake(name, f"must be one of {', '.join(among)}")
        return None

    def choices(self, name: str, among: Collection[str]) -> frozenset[str] | None:
        """Some of a few texts, or None when it is not given."""
        value = self.value.get(name)
        if isinstance(value, list) and value and all(isinstance(one, str) and one in among for one in value):
            return frozenset(str(one) for one in value)
        if name in self.value:
            self.mistake(name, f"must be a list of at least one of {', '.join(among)}")
        return None

    def mistake(self, name: str, sentence: str) -> None:
        """Note what is wrong with a member."""
        self.mistakes.append(f"{_at(name)}: {sentence}")

    def check(self) -> None:
        """Raises `BadRequest` when anything was wrong."""
        if self.mistakes:
            raise errors.BadRequest(*self.mistakes)


async def read_object(call: Call, *, known: Sequence[str]) -> Members:
    """The members of a request's body; where none is known, there may be no body.

    Raises `BadRequest` for what is no object, and whatever reading a body raises.
    """
    body = await bodies.read(call, limit=MAX_BYTES)
    return object_members(body, known=known) if body or known else Members({}, known=known)


def object_members(body: bytes, *, known: Sequence[str]) -> Members:
    """The members of a body. Raises `BadRequest`."""
    try:
        documents = model_documents.read(
            body, syntax=model_documents.Syntax.JSON, limits=positions.limits_of_body(len(body))
        )
    except model_documents.DocumentError as error:
        raise errors.BadRequest(f"body:{error.line}:{error.column}: {error.message}") from error
    value = documents[0].value if documents else None
    if not isinstance(value, dict):
        raise errors.BadRequest("The body must be an object.")
    return Members(value, known=known)


def _at(name: str) -> str:
    return pointer_text((name,))


def _allowed(known: Sequence[str]) -> str:
    names = [f"`{name}`" for name in known]
    if not names:
        return "there are none"
    listed = ", ".join(names[:-1])
    return f"only {listed} and {names[-1]} are allowed" if listed else f"only {names[0]} is allowed"
