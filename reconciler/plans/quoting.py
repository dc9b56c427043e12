"""Text from outside as Markdown that says nothing but the text, on GitHub, GitLab and Gitea alike.

Belongs here: code spans, fences, links. Does not: layout, how much is shown.

Whatever comes from outside stands in code: a span or a fence. Of code these forges read no mention, no reference to an
issue or a commit, no HTML, no link and no word that closes an issue; GitLab's orders (`/approve`) count at the start
of a line alone, where nothing from outside ever stands. So owners are shown as they are written, `@team`, and nobody
is called; an unseen character in them would come along when somebody copies.
"""

import hashlib
import re
from collections.abc import Iterable
from urllib.parse import quote

_TICKS = re.compile(r"`+")
_URL = re.compile(r"https?://[^/\s]+(?:/.*)?", re.DOTALL)
_SAFE = "/:?#@!&+,;=%-._~"
_URL_MOST = 2_000  # characters
_NOT_IN_KEYS = re.compile(r"[^A-Za-z0-9._/]+")  # a row of hyphens becomes one: two could end a comment
_KEY_MOST = 64  # characters


def span(text: str) -> str:
    """The text, which is clean and on one line, as a code span."""
    ticks = "`" * (_longest(text) + 1)
    padding = " " if not text.strip() or text[0] in "` " or text[-1] in "` " else ""
    return f"{ticks}{padding}{text or ' '}{padding}{ticks}"


def cell(text: str) -> str:
    """The same inside a table, where a pipe ends the cell even in code."""
    return span(text.replace("|", r"\x7c"))


def fence(lines: Iterable[str]) -> tuple[str, str]:
    """How a block of code with these lines begins and ends; no line of it can end it."""
    ticks = "`" * max(3, max((_longest(line) for line in lines), default=0) + 1)
    return f"{ticks}diff\n", f"{ticks}\n"


def linked(shown: str, url: str | None) -> str:
    """The text as code that leads to the URL, when that is one of the web."""
    if url is None or not _URL.fullmatch(url) or len(url) > _URL_MOST:
        return span(shown)
    return f"[{span(shown)}]({quote(url, safe=_SAFE, errors='replace').replace('&', '&amp;')})"


def comment_marker(key: str) -> str:
    """The hidden first line by which a comment is found again. Another key never makes the same line."""
    kept = _NOT_IN_KEYS.sub("-", key)[:_KEY_MOST].strip("-")
    if kept != key or not key:
        kept += "-" + hashlib.sha256(key.encode(errors="backslashreplace")).hexdigest()[:8]
    return f"<!-- reconciler-plan: {kept} -->"


def _longest(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0) if "`" in text else 0
