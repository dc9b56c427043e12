"""A text with an upper limit, filled piece by piece.

Belongs here: what still fits. Does not: what the pieces say, which of them comes first.
"""


def sheet_size(text: str) -> int:
    """Bytes of UTF-8; never less than its characters, as any forge counts them."""
    return len(text) if text.isascii() else len(text.encode())


class Sheet:
    """Pieces that fit into so many bytes of UTF-8 together."""

    def __init__(self, limit: int) -> None:
        """`limit`: bytes."""
        self.left = limit
        self._pieces: list[str] = []

    def add(self, piece: str, *, keep: int = 0) -> bool:
        """Add the piece if it fits and leaves so many bytes to others; whether it did."""
        needed = sheet_size(piece)
        if needed + keep > self.left:
            return False
        self._pieces.append(piece)
        self.left -= needed
        return True

    def __str__(self) -> str:
        """What was added."""
        return "".join(self._pieces)
