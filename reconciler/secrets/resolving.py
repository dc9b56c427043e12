"""From a text with references to secrets to the value that is used: read anew each time, so that a new secret counts.

Belongs here: resolving the text of a sensitive value, and what is said when that fails. Does not: which parameters are
sensitive, nor what the value is used for. What comes out is a secret: whoever asks for it keeps it no longer than that.
"""

from typing import NamedTuple

from reconciler.model import secret_references
from reconciler.model.errors import Refused
from reconciler.model.secret_references import SecretReference, SecretSource
from reconciler.secrets import directory
from reconciler.secrets.directory import UnusableSecretFile
from reconciler.secrets.sources import SecretSources

MOST_CHARACTERS = 1024 * 1024  # of one value; a text of references could ask for any number of files

MALFORMED = "A reference to a secret is not written as `${env:NAME}` or `${file:NAME}`; correct it."
TOO_LONG = "What a value with references to secrets stands for is longer than 1,048,576 characters; shorten it."


class UnresolvableSecret(Refused):
    """A reference that leads to nothing. The message names the reference and where to look, and never a value."""


class Resolved(NamedTuple):
    """The value that a text stands for, and what each reference in it stands for."""

    text: str
    secrets: tuple[str, ...]

    def __repr__(self) -> str:
        """Without either."""
        return "Resolved()"


def resolve_secrets(text: str, *, sources: SecretSources, project: str) -> Resolved:
    """Look up what a text refers to. What a secret holds is taken as it is, also where it looks like a reference.

    Raises Unresolvable.
    """
    values: dict[SecretReference, str] = {}
    parts: list[str] = []
    size = 0
    for piece in secret_references.text_pieces(text):
        if piece is None:
            raise UnresolvableSecret(MALFORMED)
        if isinstance(piece, SecretReference) and piece not in values:
            values[piece] = _value(piece, sources=sources, project=project)
        parts.append(values[piece] if isinstance(piece, SecretReference) else piece)
        size += len(parts[-1])
        if size > MOST_CHARACTERS:
            raise UnresolvableSecret(TOO_LONG)
    return Resolved("".join(parts), tuple(values.values()))


def _value(reference: SecretReference, *, sources: SecretSources, project: str) -> str:
    if reference.source is SecretSource.ENV:
        value = sources.variables(project).get(reference.name)
        if value is None:
            raise UnresolvableSecret(_no_variable(reference))
        return value
    try:
        return directory.read_secret_file(sources.directory, reference.name, project=project)
    except UnusableSecretFile:
        raise UnresolvableSecret(_no_file(reference, sources=sources, project=project)) from None


def _no_variable(reference: SecretReference) -> str:
    return (
        f"`{reference}` leads to nothing: give the service a variable of this name that is not empty and that "
        "`secrets.env` lets the project see, and restart it."
    )


def _no_file(reference: SecretReference, *, sources: SecretSources, project: str) -> str:
    place = sources.directory.place(reference.name, project=project)
    return (
        f"`{reference}` leads to nothing: put a file of text, not empty and of at most 64 KiB, at {place}, which the "
        "service can read and to which no link leads."
    )
