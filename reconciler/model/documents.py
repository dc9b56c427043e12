"""Bytes in either syntax to documents, and to where things are in them."""

from enum import StrEnum

from reconciler.model import json_documents, positions, yaml_documents
from reconciler.model.positions import DocumentError, Locations, Position, TextLimits
from reconciler.model.values import Document

__all__ = ["Document", "DocumentError", "Locations", "Position", "Syntax", "locate", "read", "syntax_of"]


class Syntax(StrEnum):
    """How a text is written."""

    YAML = "yaml"
    JSON = "json"


_SUFFIXES = {".yaml": Syntax.YAML, ".yml": Syntax.YAML, ".json": Syntax.JSON}


def syntax_of(path: str) -> Syntax | None:
    """Return the syntax that a path's ending names, in upper or lower case; None for any other file."""
    return _SUFFIXES.get(f".{path.rpartition('.')[2].lower()}") if "." in path else None


def read(data: bytes, *, syntax: Syntax, limits: TextLimits) -> list[Document]:
    """The documents of the text that are not empty; raises DocumentError, and nothing else, for what it cannot read.

    No text at all, or only space, gives an empty list in either syntax: who needs a document has to check.
    """
    text = positions.decode_text(data, limits=limits)
    if syntax is Syntax.YAML:
        return yaml_documents.documents(text, limits=limits)
    return json_documents.documents(text, limits=limits)


def locate(data: bytes, *, syntax: Syntax, limits: TextLimits) -> Locations:
    """The positions in a text that `read` has accepted.

    A second parse, so it is for texts with something to report. A text that `read` refuses gives a DocumentError or
    the positions of what could be made out.
    """
    text = positions.decode_text(data, limits=limits)
    if syntax is Syntax.YAML:
        return yaml_documents.locate(text, limits=limits)
    return json_documents.locate(text, limits=limits)
