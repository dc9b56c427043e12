"""How git gets to a repository: what a run needs for that, beside what every run has.

Belongs here: what a transport is, and the simplest one, which has no credentials. Does not: `https` and `ssh`, which
have modules of their own, and choosing among them (`program`).
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from reconciler.remotes.http_answers import HttpAnswers


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What one run gets: variables, open files that these name, and texts that must not leave the run.

    `answers` fills while git runs, and is whole once the context that gave this has ended. When `halt` comes to be
    set, git must not go on.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    descriptors: tuple[int, ...] = ()
    secrets: frozenset[bytes] = frozenset()
    answers: HttpAnswers | None = None
    halt: asyncio.Event | None = None


class Transport:
    """One way to a repository, for as long as its URL and credentials are in the settings: here `file` and `git`.

    `protocol` is what GIT_ALLOW_PROTOCOL calls it.
    """

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol

    def install(self) -> str:
        """Write what every run needs into the program's own folder; the answer goes into git's configuration file."""
        return ""

    @asynccontextmanager
    async def access(self) -> AsyncIterator[Access]:
        """What a run needs, from the files as they are now. Raises GitFault for a file that is of no use."""
        yield Access()

    async def close(self) -> None:
        """End what was kept for later runs. A later run begins it again."""


def quoted_path(text: str) -> str:
    """Text as a value, or the name of a section's part, in git's configuration. It holds no control character."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
