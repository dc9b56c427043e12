"""The plain values that every text becomes, and pointers into them.

Belongs here: the types that the rest of the product shares with the readers. Does not: reading, rules, encoding.
"""

from typing import TypeAlias

import msgspec

Scalar: TypeAlias = bool | int | float | str | None
Value: TypeAlias = Scalar | list["Value"] | dict[str, "Value"]

# Keys and list positions from the document's root down; () is the whole document.
Pointer: TypeAlias = tuple[str | int, ...]


class Document(msgspec.Struct, frozen=True, gc=False):
    """One document of a text.

    Its value is a tree: no list or mapping appears in two places, not even where the text used an alias, so changing
    one place never changes another. A number is already in canonical form (1.0 is 1).
    """

    value: Value
    index: int  # 0-based place in the stream; empty documents count, although they are left out
    line: int  # 1-based, of the first node
    column: int  # 1-based, in characters

    def __repr__(self) -> str:
        """Without the value, which may hold secrets."""
        return f"Document({self.index}, line {self.line}, column {self.column})"


def pointer_text(pointer: Pointer) -> str:
    """The pointer as RFC 6901 writes it; '' is the whole document."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in pointer)
