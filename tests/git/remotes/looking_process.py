"""A look at a repository in a process of its own, so that it can be another user's: prints the fault, or the branch.

python -m tests.git.remotes.looking_process STATE URL [USER]

USER is a number. The process becomes that user after it has imported everything, because the interpreter and the
project may lie where only their owner may read.
"""

import asyncio
import concurrent.futures.thread  # noqa: F401  (asyncio's executor would import it late, when nothing may be read any more)
import os
import sys
import time
from pathlib import Path

from reconciler.git.faults import GitFault
from reconciler.git.remotes.following import Remotes
from reconciler.git.remotes.remote import RemotePlace
from reconciler.git.remotes.sources import Source


async def look(state: Path, url: str) -> str:
    """Poll a repository and return the ref, or the error that a person reads."""
    remotes = Remotes(lambda _: RemotePlace(state / "one.git", state / "git", state), clock=time.monotonic)
    try:
        return (await remotes.follow(Source(url=url)).poll()).ref
    except GitFault as fault:
        return f"{fault.state.value}: {fault.message}"


def become(user: int) -> None:
    """Gives up every privilege for good."""
    os.chdir("/")  # where we are may be closed to the user, and git starts from here
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)


if __name__ == "__main__":
    for number in sys.argv[3:]:
        become(int(number))
    print(asyncio.run(look(Path(sys.argv[1]), sys.argv[2])))
