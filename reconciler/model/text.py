r"""Text for people: escaping of text from outside, numbers with their nouns, and bounded lists.

A person who can push chooses the names of files, and the authors and subjects of commits. The operator of a remote
chooses its errors. Such text is escaped in every output (terminal, log lines, sentences), so that it cannot control a
terminal, forge a line or hide. For a format with quoting of its own (Markdown, HTML) escape first, then quote: escapes
are ASCII letters, digits and backslashes. Text that programs read is data and keeps its characters; in JSON and YAML
the format's own escapes write them.

Escaped are the controls of C0 and C1 and DEL, controls of the writing direction, characters without a shape (zero-width
space, soft hyphen, fillers, tags), ends of lines and paragraphs beyond LF, surrogates, noncharacters and private use.
The list is fixed, so that it does not change with Python's Unicode tables.

Joiners and variation selectors have no shape either, but Persian, Indic scripts, Mongolian and emoji need them. A
single one stays after a visible character beyond ASCII. Elsewhere, and if there are several in a row, they are escaped.

A backslash stays as it is: escaping text twice (file names in `git/trees`) shows no second backslash. So `\x1b` may
also be four typed characters; those are harmless, and `-o json` shows the difference.
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
_NO_BASE: Final = rf"\x00-\x7f{_CONTROLS}{_SHAPELESS}{_NO_TEXT}{_JOINERS}{_VARIATIONS}"  # never need one
# It begins with one class of characters, for which `re` searches several times faster than for alternatives.
_ESCAPED: Final = (
    rf"[{_CONTROLS}{_SHAPELESS}{_NO_TEXT}{_JOINERS}{_VARIATIONS}{_EMOJI_STYLE}]"
    rf"(?<![^{_NO_BASE}{_EMOJI_STYLE}][{_VARIATIONS}{_EMOJI_STYLE}])"
    rf"(?<![^{_NO_BASE}][{_JOINERS}])"  # emoji are also joined after their style
    rf"(?!(?<={_EMOJI_STYLE})\u20e3)"  # the two make a keycap of an ASCII digit
)


def escaped(character: str) -> str:
    r"""Return a character as Python writes it: `\n`, `\x1b`, `\u202e`, `\U000e0041`."""
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def visible(text: str) -> str:
    """Return the text on one line, escaped. Harmless text stays the same, and a second call changes nothing. For texts
    without a backslash this is reversible.
    """
    return visible_lines(text).replace("\n", "\\n")


def visible_lines(text: str, escape: Callable[[str], str] = escaped) -> str:
    """Return the text with its lines; `escape` replaces characters that cannot be shown."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return _pattern().sub(lambda found: escape(found[0]), text)


def visible_block(text: str) -> str:
    """Return the text with its lines indented, so that none can pass for a line at the margin."""
    return "\n".join("  " + line for line in visible_lines(text).split("\n"))


def visible_json(document: str) -> str:
    """Return the same JSON document for people, with JSON's escapes for characters that cannot be shown."""
    return visible_lines(document, lambda character: json.dumps(character)[1:-1])


@cache  # not at import: most commands only handle ASCII
def _pattern() -> re.Pattern[str]:
    return re.compile(_ESCAPED)


def counted(number: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun: `1 file`, `2 files`. `nouns` is an irregular plural."""
    return f"{number} {noun}" if number == 1 else f"{number} {nouns or noun + 's'}"


MOST_LINES = 1000  # lines of one reason, then a count: nobody reads more, and reasons are stored
MOST_CHARACTERS = 64 * 1024  # of one reason, likewise


def bounded(found: Iterable[str]) -> list[str]:
    """Return the first lines within the limits, then a line with the number of further ones."""
    told: list[str] = []
    size = left = 0
    for line in found:
        size += len(line)
        if len(told) < MOST_LINES and size <= MOST_CHARACTERS and not left:
            told.append(line)
        else:
            left += 1
    return [*told, f"and {left} more"] if left else told


MOST_LISTED = 40  # entries of a list in one sentence; anybody who may push writes the lists
LONGEST_LISTED = 100  # characters of each


def listed(values: Sequence[object]) -> str:
    """Return the quoted values with commas; of many, the first ones and the number of the others."""
    told = ", ".join(
        f"`{_cut(value if isinstance(value, str) else json.dumps(value))}`" for value in values[:MOST_LISTED]
    )
    return f"{told} and {len(values) - MOST_LISTED} more" if len(values) > MOST_LISTED else told


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_LISTED else text[:LONGEST_LISTED] + "…"
