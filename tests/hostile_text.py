"""Text that acts on terminals or hides, and a judge of what arrives that knows nothing of the product's own rule."""

from unicodedata import category

TITLE = "\x1b]0;evil\x07"  # sets a window's title
CLEAR = "\x1b[2J"
CSI = "\x9b31m"
TURNED = "\u202e"  # the rest of the line reads from the right
LINE, PARAGRAPH = "\u2028", "\u2029"
TAGS = "\U000e0041\U000e0042"
EVERYTHING = f"e{TITLE}{CLEAR}{CSI}{TURNED}\n06:12:00 forged\r{LINE}{PARAGRAPH}\x85{TAGS}\u200b\u2066\xad\ufeff\x7f"
"""All of it in one text, for whatever takes any text."""

SEEN = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
JOINERS = frozenset("\u200c\u200d")


def unseen(text: str) -> list[str]:
    """Return what of the text a person does not see or a terminal acts on; LF is no such thing."""
    return [character for character in text if character != "\n" and _is_unseen(character)]


def _is_unseen(character: str) -> bool:
    if ord(character) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(character) <= 0xFDEF:
        return True
    if category(character) == "Cf":  # signs of Arabic, Syriac and Kaithi numbers have a shape
        return character not in SEEN | JOINERS
    return category(character) in {"Cc", "Cs", "Co", "Zl", "Zp"}
