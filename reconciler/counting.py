"""Numbers with their nouns, wherever a sentence or a line of the log counts."""


def counted(number: int, noun: str, nouns: str = "") -> str:
    """`1 file`, `2 files`; `nouns` where more than one is not the noun with an `s`."""
    return f"{number} {noun}" if number == 1 else f"{number} {nouns or noun + 's'}"
