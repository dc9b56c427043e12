"""The door of this package: bytes in either syntax to documents, and to where things stand in them.

Belongs here: which syntax, and calling its reader. Does not: what a resource is; this package knows none.
"""

from enum import StrEnum

from reconciler.documents import json_reader, texts, yaml_reader
from reconciler.documents.limits import Limits
from reconciler.documents.locations import Locations
from reconciler.documents.positions import DocumentError, Position
from reconciler.documents.values import Document

__all__ = ["Document", "DocumentError", "Locations", "Position", "Syntax", "locate", "read", "syntax_of"]


class Syntax(StrEnum):
    """How a text is written."""

    YAML = "yaml"
    JSON = "json"


_SUFFIXES = {".yaml": Syntax.YAML, ".yml": Syntax.YAML, ".json": Syntax.JSON}


def syntax_of(path: str) -> Syntax | None:
    """Return the syntax that a path's ending names, in upper or lower case; None for any other file."""
    return _SUFFIXES.get(f".{path.rpartition('.')[2].lower()}") if "." in path else None


def read(data: bytes, *, syntax: Syntax, limits: Limits) -> list[Document]:
    """The documents of the text that are not empty; raises DocumentError, and nothing else, for what it cannot read.

    No text at all, or only space, gives an empty list in either syntax: who needs a document has to check.
    """
    text = texts.decoded(data, limits=limits)
    if syntax is Syntax.YAML:
        return yaml_reader.documents(text, limits=limits)
    return json_reader.documents(text, limits=limits)


def locate(data: bytes, *, syntax: Syntax, limits: Limits) -> Locations:
    """The positions in a text that `read` has accepted.

    A second parse, so it is for texts with something to report. A text that `read` refuses gives a DocumentError or
    the positions of what could be made out.
    """
    text = texts.decoded(data, limits=limits)
    if syntax is Syntax.YAML:
        return yaml_reader.locate(text, limits=limits)
    return json_reader.locate(text, limits=limits)
