"""A `git` in front of the real one: it writes down what the daemon asks of it, and one command can be made to fail.

    git = Git.before(folder)
    with daemons.running(folder, environment=git.environment) as daemon: ...
    git.calls("fetch", source)

What git itself starts, it starts past this one.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from tests import needs

SCRIPT = """#!/bin/sh
printf '%s\\n' "$*" >> '{folder}/calls'
for word do
  if [ -e '{folder}/fail-'"$(basename -- "$word")" ]; then
    cat '{folder}/fail-'"$(basename -- "$word")" >&2
    exit 128
  fi
done
exec '{git}' "$@"
"""


SAME = {"fetch": ("fetch", "pack-objects"), "ls-remote": ("ls-remote", "upload-pack")}
"""Commands that do the same, by the one for which a test asks."""


@dataclass(frozen=True, slots=True)
class Git:
    """The folder in front of `PATH`."""

    folder: Path

    @classmethod
    def before(cls, folder: Path) -> "Git":
        """Put it there."""
        folder.mkdir(parents=True)
        program = folder / "git"
        program.write_text(SCRIPT.format(folder=folder, git=needs.require("git")))
        program.chmod(0o755)
        return cls(folder)

    @property
    def environment(self) -> dict[str, str]:
        """Return what a daemon must be started with."""
        return {"PATH": f"{self.folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}

    def calls(self, command: str, about: Path) -> list[str]:
        """Every call of a command that named a repository, oldest first."""
        return [
            line
            for line in self.lines()
            if str(about) in line and any(f" {one} " in f" {line} " for one in SAME.get(command, (command,)))
        ]

    def lines(self) -> list[str]:
        """Every call, oldest first."""
        return (self.folder / "calls").read_text().splitlines()

    def fail(self, command: str, words: str) -> None:
        """From now on a command ends with these words on its standard error, and does nothing."""
        for one in SAME.get(command, (command,)):
            (self.folder / f"fail-{one}").write_text(words)

    def work(self, command: str) -> None:
        """From now on a command works again."""
        for one in SAME.get(command, (command,)):
            (self.folder / f"fail-{one}").unlink()
