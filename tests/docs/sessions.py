"""The sessions of pages: what the program really says to the commands in one."""

import re
import shlex

from tests.cli.conftest import Program


def told(program: Program, session: str) -> str:
    """The commands of a session, each with what the program says to it now, less what goes to files."""
    told = ""
    for command in re.findall(r"^\$ (.+)$", session, re.MULTILINE):
        words, _, file = command.partition(" > ")
        name, *arguments = shlex.split(words)
        assert name == "reconciler"
        outcome = program(*arguments)
        if file:
            program.write(file, outcome.out)
        told += f"$ {command}\n{'' if file else outcome.out}{outcome.err}"
    return told
