"""Text of the contract as pieces for a page: paragraphs, what is code in them, and where a word leads.

Belongs here: cutting text. Does not: other markup, which the contract does not use.
"""

import re
from typing import NamedTuple

_CODE = re.compile(r"`([^`]+)`")


class Piece(NamedTuple):
    """Some text; code where it is an identifier, and a link where `place` is not empty."""

    text: str
    code: bool = False
    place: str = ""


def prose_pieces(text: str) -> tuple[Piece, ...]:
    """One paragraph, cut at its backticks."""
    cut = enumerate(_CODE.split(" ".join(text.split())))
    return tuple(Piece(piece, code=place % 2 == 1) for place, piece in cut if piece)


def paragraphs(text: str) -> tuple[tuple[Piece, ...], ...]:
    """A text, cut at its empty lines and backticks."""
    return tuple(prose_pieces(paragraph) for paragraph in re.split(r"\n\s*\n", text.strip()) if paragraph)
