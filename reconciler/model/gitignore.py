"""One line of a `.gitignore`, compiled to a pattern with bounded cost. Pure. Everybody who may push writes these
patterns, so the time of a match is at most proportional to pattern times path. As one backtracking expression, a
pattern of ten characters could run for a minute.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

SLASH: Final = "/"
STAR: Final = "*"
ANYWHERE: Final = None  # a part `**`: any number of folders

CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t-\\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}

_TOKEN: Final = re.compile(
    r"\\(?P<escaped>.)|\[(?P<negated>[!^]?)(?P<members>\]?(?:\[:[^\]]*:\]|\\.|[^\]\\])*+)\]|(?P<wrong>[\\\[])|.",
    re.DOTALL,
)
_MEMBER: Final = re.compile(r"\[:(?P<class>[^\]]*):\]|(?P<low>\\.|.)(?:-(?P<high>\\.|.))?", re.DOTALL)

Part = re.Pattern[str] | None


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern of an ignore file. `included`: the line began with `!`, so a match is not ignored after all."""

    parts: tuple[Part, ...]
    included: bool
    folders_only: bool
    name_only: bool

    def matches(self, names: Sequence[str], *, is_folder: bool) -> bool:
        """Return True if a path matches, given as its names below the folder of the ignore file."""
        if self.folders_only and not is_folder:
            return False
        return _match(self.parts, names[-1:] if self.name_only else names)


class Malformed(Exception):
    """The line can match nothing, as Git sees it too."""


def parse(line: str) -> Pattern | None:
    """Return the pattern of one line; None for an empty line, a comment, or a line that can match nothing."""
    text = _without_trailing_spaces(line.removesuffix("\r"))
    if not text or text.startswith("#"):
        return None
    included = text.startswith("!")
    text = text.removeprefix("!") if included else text
    folders_only = text.endswith("/")
    text = text.removesuffix("/")
    try:
        parts = tuple(_parts(text.removeprefix("/")))
    except Malformed:
        return None
    return Pattern(parts, included, folders_only, name_only=SLASH not in text)


def _match(parts: tuple[Part, ...], names: Sequence[str]) -> bool:
    """Match name by name. The search only goes back to the last `**`, which suffices and bounds the time."""
    part = name = 0
    resume: tuple[int, int] | None = None
    while name < len(names):
        if part < len(parts) and parts[part] is ANYWHERE:
            if part == len(parts) - 1:
                return True  # `/**` at the end: everything below, at least one name
            resume, part = (part + 1, name + 1), part + 1
        elif part < len(parts) and _fits(parts[part], names[name]):
            part, name = part + 1, name + 1
        elif resume is not None:
            part, name = resume
            resume = (part, name + 1)
        else:
            return False
    return part == len(parts)


def _fits(part: Part, name: str) -> bool:
    return part is not None and part.fullmatch(name) is not None


def _parts(text: str) -> Iterator[Part]:
    tokens: list[str] = []
    for token in [*_tokens(text), SLASH]:
        if token is not SLASH:
            tokens.append(token)
        elif tokens == [STAR, STAR]:
            yield ANYWHERE
            tokens = []
        else:
            yield re.compile(_expression(tokens), re.DOTALL)
            tokens = []


def _expression(tokens: list[str]) -> str:
    """Translate one part to an expression. Text between asterisks has a fixed length, so its first match is good
    enough.
    """
    runs: list[list[str]] = [[]]
    for token in tokens:
        if token is STAR:
            runs.append([])
        else:
            runs[-1].append(token)
    first, *others = ["".join(run) for run in runs]
    if not others:
        return first
    return first + "".join(f"(?>.*?{run})" for run in others[:-1] if run) + f".*{others[-1]}"


def _tokens(text: str) -> Iterator[str]:
    """Yield SLASH, STAR, or an expression for one character."""
    for found in _TOKEN.finditer(text):
        character = found["escaped"] or found[0]
        if found["members"] is not None:
            yield _one_of(found["members"], negated=bool(found["negated"]))
        elif found["wrong"] is not None:
            raise Malformed
        elif character == SLASH:
            yield SLASH
        elif found[0] == STAR:
            yield STAR
        else:
            yield "." if found[0] == "?" else re.escape(character)


def _one_of(written: str, *, negated: bool) -> str:
    """Return the expression for the text between two brackets."""
    members = ""
    for member in _MEMBER.finditer(written):
        if member["class"] is not None:
            members += _class(member["class"])
            continue
        low, high = member["low"][-1], (member["high"] or member["low"])[-1]
        if low <= high:  # `[z-a]` matches nothing
            members += f"{re.escape(low)}-{re.escape(high)}"
    if not members:
        return "." if negated else "(?!)"
    return f"[{'^' if negated else ''}{members}]"


def _class(name: str) -> str:
    if name not in CLASSES:
        raise Malformed
    return CLASSES[name]


def _without_trailing_spaces(line: str) -> str:
    """Remove the spaces at the end, except those after a backslash."""
    kept = line.rstrip(" ")
    backslashes = len(kept) - len(kept.rstrip("\\"))
    return kept + " " if backslashes % 2 and kept != line else kept
