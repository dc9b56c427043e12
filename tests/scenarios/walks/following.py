"""Following a page word by word: every command of its blocks runs, and what it prints is what stands there.

A `sh` block is commands, each of which must succeed. A `console` block is a session: after `$ ` a command, beneath it
what it says; a line `...` there stands for any number of lines. Blocks in other languages are files, where their first
line is a comment with the name. A comment before a block says what a reader is told in words:

    <!-- walk: terminal service, stays -->   it is another terminal, and its command does not end; its lines come
    <!-- walk: terminal service, Ctrl-C -->  it is interrupted, and says this last
    <!-- walk: terminal service -->          without a `$`: these lines come there
    <!-- walk: again -->                     look again until it says so: what is shown comes a moment later
    <!-- walk: fails -->                     the commands end with another code than 0

Belongs here: from a page to commands and comparisons. Does not: running them (`terminals`).
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests import daemons
from tests.scenarios.walks.terminals import SECONDS, Terminal

MAIN = "main"
LOOKS_SECONDS = 20.0
ANYTHING = "..."

_BLOCK = re.compile(
    r"^(?:<!-- walk: (?P<told>[^\n]+) -->\n\n?)?(?P<fence>`{3,})(?P<language>\w*)\n(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
_HEREDOC = re.compile(r"<<'?(\w+)'?")
# What is another in every walk: ids of commits, runs and keys, moments, keys, ports, and folders with made-up names.
_CHANGING = re.compile(
    r"\b(?:[0-9a-f]{12}|[0-9a-f]{40}|[0-9A-HJKMNP-TV-Z]{26}|[0-9]{4}-[0-9-]{5}T[0-9:]{8}(?:\.[0-9]{3})?Z)\b"
    r"|(?<=\()[0-9a-f]{7}(?=\))|(?<=^Plan for )[0-9a-f]{7}"
    r"|^[0-9]{2}:[0-9]{2}:[0-9]{2}(?= )",
    re.MULTILINE,
)
_NAMED = (
    (re.compile(r"(?<=127\.0\.0\.1:)\d+"), "PORT"),
    (re.compile(r"(?<=^Key         )\S+$|(?<=SERVICE_API_KEY=)\S+$", re.MULTILINE), "KEY"),
    (re.compile(r"(?<=with the password )\S+$", re.MULTILINE), "PASSWORD"),
    (re.compile(r"/\S*/reconciler-demo-\w+"), "FOLDER"),
    (re.compile(r"(?<=Commit )[0-9a-f]{12}"), "COMMIT"),
)


class Block(NamedTuple):
    """A fenced block, and what the comment before it says."""

    language: str
    text: str
    told: tuple[str, ...]

    @property
    def terminal(self) -> str:
        return next((word.removeprefix("terminal ") for word in self.told if word.startswith("terminal ")), MAIN)


class Step(NamedTuple):
    """A command, and the lines that it says on the page; None where none stand there."""

    command: str
    expected: str | None


@dataclass
class Walk:
    """A reader with a folder, some terminals, and a page before them."""

    folder: Path
    transcripts: Path
    environment: Mapping[str, str]
    instead: Mapping[str, str] = field(default_factory=dict)  # what stands on the page, and what it is here
    seconds: float = SECONDS  # for one command
    ran: list[str] = field(default_factory=list)
    terminals: dict[str, Terminal] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict)  # of each terminal, how much was compared

    def follow(self, page: str) -> None:
        """Do all that the page says, from its first block to its last."""
        for block in blocks(page):
            self.do(block)

    def do(self, block: Block) -> None:
        """Do what one block says."""
        if block.language == "sh":
            for command in commands(block.text):
                self._run(block, Step(command, None))
        elif block.language == "console":
            self._session(block)
        elif (name := file_name(block.text)) is not None:
            self._file(name).write_text(self._here(block.text), encoding="utf-8")

    def close(self) -> None:
        for terminal in self.terminals.values():
            terminal.close()

    def terminal(self, name: str) -> Terminal:
        if name not in self.terminals:
            self.put(name, Terminal(self.folder, self.transcripts / name, self.environment))
        return self.terminals[name]

    def put(self, name: str, terminal: Terminal) -> None:
        """A terminal that is in another place."""
        self.terminals[name] = terminal
        self._seen[name] = 0

    def _session(self, block: Block) -> None:
        told = steps(block.text)
        if "Ctrl-C" in block.told:
            self.terminal(block.terminal).interrupt()
        if not told or "stays" in block.told:
            (step,) = told or [Step("", block.text)]
            self._wait_for(block, step)
            return
        for step in told:
            self._run(block, step)

    def _wait_for(self, block: Block, step: Step) -> None:
        terminal = self.terminal(block.terminal)
        if step.command:
            self.ran.append(step.command)
            terminal.begin(self._here(step.command))
        expected, known = self._here(step.expected or ""), self._seen[block.terminal]

        def come() -> bool:
            return fits(terminal.text()[known:], f"{ANYTHING}\n{expected}{ANYTHING}\n")

        try:
            daemons.until(come, "these lines come", seconds=LOOKS_SECONDS)
        except AssertionError:
            compare(terminal.text()[known:], expected)
        self._seen[block.terminal] = len(terminal.text())

    def _run(self, block: Block, step: Step) -> None:
        terminal = self.terminal(block.terminal)
        self.ran.append(step.command)
        succeeds = "fails" not in block.told

        def said() -> str:
            code, text = terminal.run(self._here(step.command), seconds=self.seconds)
            assert (code == 0) is succeeds, f"`{step.command}` ended with {code}: {text}"
            return text

        found = said()
        if step.expected is None:
            return
        expected = self._here(step.expected)
        if "again" in block.told and not fits(found, expected):
            found = daemons.until(
                lambda: next((text for text in [said()] if fits(text, expected)), None),
                f"`{step.command}` says what the page says; at first it said {found}",
                seconds=LOOKS_SECONDS,
            )
        compare(found, expected)

    def _here(self, text: str) -> str:
        for there, here in self.instead.items():
            text = text.replace(there, here)
        return text

    def _file(self, name: str) -> Path:
        path = self.folder / self._here(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [
        Block(found["language"], found["text"], tuple((found["told"] or "").split(", ")))
        for found in _BLOCK.finditer(page)
    ]


def commands(text: str) -> list[str]:
    """The commands of a script: each with the lines that it goes on in."""
    found, waiting = [], ""
    for line in text.splitlines():
        waiting = f"{waiting}\n{line}" if waiting else line
        if not waiting.strip() or waiting.startswith("#"):
            waiting = ""
        elif _is_whole(waiting):
            found.append(waiting)
            waiting = ""
    assert not waiting, f"this command has no end: {waiting}"
    return found


def _is_whole(command: str) -> bool:
    document = _HEREDOC.search(command)
    if document is not None:
        return command.endswith(f"\n{document[1]}")
    try:
        shlex.split(command, comments=True)
    except ValueError:  # a quotation that goes on
        return False
    return not command.endswith("\\")


def steps(text: str) -> list[Step]:
    """The commands of a session, each with what it says."""
    lines = text.splitlines(keepends=True)
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    if not starts:
        return []
    assert starts[0] == 0, f"something stands before the first command: {text}"
    found = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        end_of_command = start + 1
        while not _is_whole("".join(lines[start:end_of_command])[2:].rstrip("\n")):
            end_of_command += 1
        command = "".join(lines[start:end_of_command])[2:].rstrip("\n")
        found.append(Step(command, "".join(lines[end_of_command:end])))
    return found


def file_name(text: str) -> str | None:
    """The name that a file says in its first line."""
    found = re.match(r"(?:#|//) ([\w./~-]+\.\w+)\n", text)
    return None if found is None else found[1]


def still(text: str) -> str:
    """The text with everything made alike that differs between walks, of the same length where tables align."""
    text = "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
    for expression, word in _NAMED:
        text = expression.sub(word, text)
    return _CHANGING.sub(lambda found: "#" * len(found[0]), text)


def fits(said: str, expected: str) -> bool:
    """Return True when a text is what a page shows, where `...` is any lines."""
    return _fit(still(said).splitlines(), still(expected).splitlines())


def _fit(said: Sequence[str], expected: Sequence[str]) -> bool:
    if not expected:
        return not said
    if expected[0] == ANYTHING:
        return any(_fit(said[skipped:], expected[1:]) for skipped in range(len(said) + 1))
    return bool(said) and said[0] == expected[0] and _fit(said[1:], expected[1:])


def compare(said: str, expected: str) -> None:
    """Fail with both texts where one is not what the page shows."""
    if not fits(said, expected):
        assert still(said) == still(expected), said
