r"""Text for people: escaping of text from outside, numbers with their nouns, and lists that are cut.

A person who can push chooses the names of files and commits' authors and subjects; the operator of a remote chooses its
errors. Such text is escaped where it leaves (terminal, log lines, sentences made of it), so that it cannot act on a
terminal, forge a line or hide. For a format with quoting of its own (Markdown, HTML) escape first, then quote: escapes
are ASCII letters, digits and backslashes. Text that programs read is data and keeps its characters; in JSON and YAML
the format's own escapes write them.

Escaped are the controls of C0 and C1 and DEL, controls of the writing direction, characters without a shape (zero-width
space, soft hyphen, fillers, tags), ends of lines and paragraphs beyond LF, surrogates, noncharacters and private use.
The list is fixed, so that it does not change with Python's Unicode tables.

Joiners and variation selectors have no shape either, but Persian, Indic scripts, Mongolian and emoji need them. One of
them stays where it can be needed: behind a visible character beyond ASCII. Elsewhere, and in a row, it is escaped.

A backslash stays as it is: escaping text twice (file names in `git/trees`) shows no second backslash. So `\x1b` may
also be four characters that somebody typed; those do nothing, and `-o json` tells the two apart.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Final

_CONTROLS: Final = r"\x00-\x09\x0b-\x1f\x7f-\x9f"  # all but LF
_SHAPELESS: Final = (
    r"\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    r"\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U00013430-\U0001343f"
)
_NO_TEXT: Final = (  # surrogates, private use, noncharacters; the planes from 14 on hold nothing else but tags
    r"\ud800-\uf8ff\ufdd0-\ufdef\ufffe\uffff\U000e0000-\U000e00ff\U000e01f0-\U0010ffff"
    + "".join(rf"\U{plane:04x}fffe\U{plane:04x}ffff" for plane in range(1, 14))
)
_JOINERS: Final = r"\u200c\u200d"
_EMOJI_STYLE: Final = r"\ufe0f"
_VARIATIONS: Final = r"\ufe00-\ufe0e\u180b-\u180d\u180f\U000e0100-\U000e01ef"
_NO_BASE: Final = rf"\x00-\x7f{_CONTROLS}{_SHAPELESS}{_NO_TEXT}{_JOINERS}{_VARIATIONS}"  # needs no such one behind it
# It begins with one class of characters, which `re` looks for several times faster than for alternatives.
_ESCAPED: Final = (
    rf"[{_CONTROLS}{_SHAPELESS}{_NO_TEXT}{_JOINERS}{_VARIATIONS}{_EMOJI_STYLE}]"
    rf"(?<![^{_NO_BASE}{_EMOJI_STYLE}][{_VARIATIONS}{_EMOJI_STYLE}])"
    rf"(?<![^{_NO_BASE}][{_JOINERS}])"  # emoji are joined behind their style as well
    rf"(?!(?<={_EMOJI_STYLE})\u20e3)"  # the two make a keycap of an ASCII digit
)


def escaped(character: str) -> str:
    r"""Return a character as Python writes it: `\n`, `\x1b`, `\u202e`, `\U000e0041`."""
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def visible(text: str) -> str:
    """Return the text on one line. The identity on harmless text; idempotent; of texts without a backslash,
    reversible.
    """
    return visible_lines(text).replace("\n", "\\n")


def visible_lines(text: str, escape: Callable[[str], str] = escaped) -> str:
    """Return the text with the lines that it has; `escape` writes what cannot be shown."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return _pattern().sub(lambda found: escape(found[0]), text)


def visible_block(text: str) -> str:
    """Return the text with the lines that it has, each set in: none of them can be taken for one at the margin."""
    return "\n".join("  " + line for line in visible_lines(text).split("\n"))


def visible_json(document: str) -> str:
    """Return the same JSON document for people, with JSON's escapes for characters that cannot be shown."""
    return visible_lines(document, lambda character: json.dumps(character)[1:-1])


@cache  # and not at import: most commands meet ASCII alone
def _pattern() -> re.Pattern[str]:
    return re.compile(_ESCAPED)


def counted(number: int, noun: str, nouns: str = "") -> str:
    """`1 file`, `2 files`; `nouns` where more than one is not the noun with an `s`."""
    return f"{number} {noun}" if number == 1 else f"{number} {nouns or noun + 's'}"


MOST_LINES = 1000  # lines of one reason; beyond it, a count: nobody reads more, and every reason is stored
MOST_CHARACTERS = 64 * 1024  # of one reason, for the same cause


def bounded(found: Iterable[str]) -> list[str]:
    """Return the first lines as far as there is room for them, then how many more there are."""
    told: list[str] = []
    size = left = 0
    for line in found:
        size += len(line)
        if len(told) < MOST_LINES and size <= MOST_CHARACTERS and not left:
            told.append(line)
        else:
            left += 1
    return [*told, f"and {left} more"] if left else told


MOST_LISTED = 40  # entries of a list in one sentence; whoever may push writes the lists
LONGEST_LISTED = 100  # characters of each


def listed(values: Sequence[object]) -> str:
    """Return the values one after another, each quoted; of very many, the first and how many more there are."""
    told = ", ".join(
        f"`{_cut(value if isinstance(value, str) else json.dumps(value))}`" for value in values[:MOST_LISTED]
    )
    return f"{told} and {len(values) - MOST_LISTED} more" if len(values) > MOST_LISTED else told


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_LISTED else text[:LONGEST_LISTED] + "…"
