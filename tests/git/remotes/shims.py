"""A `git` in front of the real one, which writes down what it is told, and can wait or change what it does."""

import os
import stat
from pathlib import Path

import pytest

from tests.needs import require


class Shim:
    """The arguments of the git programs of a test, one line each."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._git = require("git")
        self._log = folder / "log"
        self._program = folder / "bin/git"
        self._program.parent.mkdir(parents=True)
        self.act("")
        monkeypatch.setenv("PATH", f"{self._program.parent}{os.pathsep}{os.environ['PATH']}")

    def act(self, script: str) -> None:
        """Have every git that starts from now on run this first; `GIT` is the real one."""
        temporary = self._program.with_name("new")
        temporary.write_text(f'#!/bin/sh\nGIT={self._git}\necho "$@" >> {self._log}\n{script}\nexec $GIT "$@"\n')
        temporary.chmod(temporary.stat().st_mode | stat.S_IXUSR)
        temporary.replace(self._program)

    def act_on(self, command: str, script: str, *, about: str = "") -> None:
        """The same for every git that is told this command, and names what it is `about`."""
        self.act(f'case " $* " in *" {command} "*{about}*) {script};; esac')

    def kill(self, command: str) -> None:
        """Have every git that is told this command end by a signal from now on, as if the system had no memory left."""
        self.act_on(command, "kill -KILL $$")

    def count(self, command: str) -> int:
        """How many git programs were told this command."""
        return sum(command in line.split() for line in self.lines())

    def lines(self) -> list[str]:
        """Return the arguments of each, oldest first."""
        return self._log.read_text().splitlines() if self._log.exists() else []

    def commands(self) -> list[str]:
        """The command that each was told, oldest first: what comes behind the options of git itself."""
        return [_command(line.split()) for line in self.lines()]

    def counts(self) -> tuple[int, int]:
        """How often a remote was asked: looks, and fetches."""
        return self.count("ls-remote"), self.count("fetch")


def _command(words: list[str]) -> str:
    takes_value = False
    for word in words:
        if not takes_value and not word.startswith("-"):
            return word
        takes_value = word in {"-c", "-C"}
    return ""
