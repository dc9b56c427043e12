"""Terminals for the commands of a page: a shell each, which keeps its folder and its variables from one to the next.

Belongs here: running a command, what it says, and ending what stays. Does not: which commands (`following`).
"""

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests import daemons

SECONDS = 60.0  # for one command; what takes longer hangs
END_SECONDS = 30.0
END = "\x1fended "


class Said(NamedTuple):
    """How a command ended, and what it wrote, errors too, in the order in which it came."""

    code: int
    text: str


class Terminal:
    """A shell, as a person has it before them."""

    def __init__(self, folder: Path, transcript: Path, environment: Mapping[str, str]) -> None:
        self._transcript = transcript
        with transcript.open("wb") as written:
            self._shell = subprocess.Popen(
                # A shell never heeds what was ignored when it began, as Ctrl-C is for what runs in the background.
                ["env", "--default-signal=INT", "bash", "--noprofile", "--norc"],
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=written,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a group of its own, so that Ctrl-C reaches all that runs in it
            )

    def run(self, command: str, *, seconds: float = SECONDS) -> Said:
        """Run a command to its end."""
        known = len(self.text())
        self.begin(f"{command}\nprintf '\\037ended %d\\n' $?")

        def ended() -> re.Match[str] | None:
            return re.search(f"{END}(\\d+)\\n", self.text()[known:])

        found = daemons.until(ended, f"`{command}` ends", seconds=seconds)
        return Said(int(found[1]), self.text()[known:][: found.start()])

    def begin(self, command: str) -> None:
        """Start a command, and do not wait."""
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{command}\n".encode())
        self._shell.stdin.flush()

    def text(self) -> str:
        """All that was written here so far."""
        return self._transcript.read_text(encoding="utf-8")

    def interrupt(self) -> None:
        """Ctrl-C, and the end of what ran; nothing runs in it afterwards."""
        os.killpg(self._shell.pid, signal.SIGINT)
        self._shell.communicate(timeout=END_SECONDS)

    def close(self) -> None:
        """End what is left of it."""
        try:
            os.killpg(self._shell.pid, signal.SIGTERM)  # so that a daemon ends its children too
            self._shell.communicate(timeout=END_SECONDS)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass
        finally:
            if self._shell.poll() is None:
                os.killpg(self._shell.pid, signal.SIGKILL)
            self._shell.communicate(timeout=END_SECONDS)
