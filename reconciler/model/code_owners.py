"""CODEOWNERS files, as GitHub and GitLab read them.

The last matching line counts; a line without owners means that nobody owns these files. Patterns are those of
`.gitignore` without `[`, which GitHub does not support: such a line is ignored. GitLab's sections are supported: each
counts separately, and its default owners apply to lines without owners; `!` excludes files from a section.

The regular expressions of Gitea and Forgejo are not supported: everybody who may push writes them, and an expression
can run for ever. Paths that only those forges use are not read.

The size is limited by `MAX_CHARACTERS` and `MAX_LINES`. For lines without wildcards, a file costs one look-up for each
folder above it. Of the others only `MAX_WILDCARDS` count, and their results for a folder are cached.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from reconciler.model import gitignore
from reconciler.model.gitignore import Pattern

PLACES = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS")
"""The paths of such a file, in the order in which forges look; the first one counts."""

MAX_CHARACTERS = 3 << 20  # GitHub does not read a file of more than 3 MB either
MAX_LINES = 20_000
MAX_WILDCARDS = 500
MAX_PATTERN = 1_000  # characters
MAX_OWNERS = 50  # of a line, and of a file

_SECTION = re.compile(r"\^?\[([^\]\n]{1,200})\](?:\[\d+\])?(.*)")
_OWNER = re.compile(r"@{0,2}[^\s@]{1,200}(?:@[^\s@]{1,200})?")
_WORDS = re.compile(r"(?:\\.|[^\s\\]|\\$)+")
_WILD = re.compile(r"[*?\\]")


@dataclass(slots=True)
class _Section:
    """The lines of one section. A line is identified by its number; `owners` has the owners of each line."""

    default: tuple[str, ...] = ()
    owners: list[tuple[str, ...]] = field(default_factory=list)
    plain: dict[str, int] = field(default_factory=dict)  # `/a/b` from the root, `b` at any depth, `b/` for folders
    wild: list[tuple[int, Pattern, bool]] = field(default_factory=list)  # and True if it includes files below
    known: dict[str, int] = field(default_factory=dict)  # the last matching line for each folder

    def of(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the owners of a file, given the names of its path."""
        line = max(self._folders(names[:-1]), self._itself(names, is_folder=False))
        return self.owners[line] if line >= 0 else ()

    def add(self, pattern: str, owners: tuple[str, ...]) -> None:
        """Add a line, which overrides earlier ones."""
        self.owners.append(owners)
        line = len(self.owners) - 1
        if _WILD.search(pattern):
            if (compiled := gitignore.parse(pattern)) is not None:
                self.wild.append((line, compiled, not pattern.endswith("/*")))
            return
        root = "/" if "/" in pattern.removesuffix("/") else ""
        self.plain[f"{root}{pattern.strip('/')}{'/' if pattern.endswith('/') else ''}"] = line

    def _folders(self, names: Sequence[str]) -> int:
        """Return the last line that includes a folder or one above it; -1 for none."""
        found = -1
        for depth in range(1, len(names) + 1):
            path = "/".join(names[:depth])
            if path not in self.known:
                self.known[path] = max(found, self._itself(names[:depth], is_folder=True))
            found = self.known[path]
        return found

    def _itself(self, names: Sequence[str], *, is_folder: bool) -> int:
        """Return the last line that matches exactly this path."""
        called = [f"/{'/'.join(names)}", names[-1]]
        if is_folder:
            called += [f"{one}/" for one in called]
        found = max(self.plain.get(one, -1) for one in called)
        for line, pattern, takes_in in reversed(self.wild):
            if line <= found:
                break
            if (takes_in or not is_folder) and pattern.matches(names, is_folder=is_folder):
                return line
        return found


@dataclass(frozen=True, slots=True)
class CodeOwners:
    """A parsed file of owners."""

    sections: tuple[_Section, ...]

    def of(self, path: str) -> tuple[str, ...]:
        """Return the owners of the file at this path from the repository's root, in the order of the file."""
        names = path.split("/")
        found = dict.fromkeys(owner for section in self.sections for owner in section.of(names))
        return tuple(found)[:MAX_OWNERS]


def parse(text: str) -> CodeOwners:
    """Parse a CODEOWNERS file. Meaningless lines are left out; a file that is too long is ignored."""
    if len(text) > MAX_CHARACTERS:
        return CodeOwners(())
    section = _Section()
    sections = {"": section}
    wildcards = 0
    for line in text.split("\n", MAX_LINES)[:MAX_LINES]:
        if heading := _SECTION.fullmatch(line.strip()):
            section = sections.setdefault(heading[1].strip().casefold(), _Section())
            section.default = _owners(heading[2].split()) or section.default
        elif rule := _rule(line, section.default):
            wildcards += bool(_WILD.search(rule[0]))
            if wildcards <= MAX_WILDCARDS or not _WILD.search(rule[0]):
                section.add(*rule)
    return CodeOwners(tuple(sections.values()))


def _rule(line: str, default: tuple[str, ...]) -> tuple[str, tuple[str, ...]] | None:
    """Parse a line into pattern and owners; None if it is no rule."""
    words = _WORDS.findall(line)
    if not words or words[0].startswith("#") or "[" in words[0] or len(words[0]) > MAX_PATTERN:
        return None
    comment = next((at for at, word in enumerate(words) if at and word.startswith("#")), len(words))
    named = _owners(words[1:comment])
    if words[0].startswith("!"):
        return words[0][1:], ()
    if comment > 1 and not named:
        return None  # no owner, as in GitHub
    return words[0], named or default


def _owners(words: Sequence[str]) -> tuple[str, ...]:
    found = (word for word in words if "@" in word and _OWNER.fullmatch(word))
    return tuple(dict.fromkeys(found))[:MAX_OWNERS]
