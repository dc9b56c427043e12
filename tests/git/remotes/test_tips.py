"""Moved proposals are known from the last polls, at most one of which happens every half a minute."""

from pathlib import Path

import pytest

from reconciler.git.remotes.following import Remotes
from reconciler.git.remotes.proposals import TIP_SECONDS
from tests.git.remotes.followings import place
from tests.git.remotes.proposals import PULL, followed, fork, propose
from tests.git.remotes.shims import Shim
from tests.repositories import Repository

MAIN = "refs/heads/main"


@pytest.mark.anyio
async def test_tells_where_refs_are_as_of_the_last_half_a_minute(
    origin: Repository, tmp_path: Path, shim: Shim
) -> None:
    now = 100.0
    remotes = Remotes(lambda source: place(tmp_path / "state", source), clock=lambda: now)
    following = await followed(remotes, origin.path)
    copy = fork(origin, tmp_path / "fork")
    head, base = propose(copy, origin), origin.head()
    await following.propose(PULL)
    looks = shim.count("ls-remote")
    later, moved = propose(copy, origin, text="c"), origin.commit()
    refs = [PULL, MAIN, head, "refs/notes/x", "x"]
    assert await following.tips(refs) == {PULL: head, MAIN: base, head: head}
    assert shim.count("ls-remote") == looks
    now += TIP_SECONDS
    assert await following.tips([PULL]) == {PULL: later}
    assert await following.tips([MAIN, "refs/heads/new"]) == {MAIN: moved}  # all are asked for together
    assert shim.count("ls-remote") == looks + 1
    origin.git("update-ref", "-d", PULL)
    now += TIP_SECONDS
    assert await following.tips([PULL, "refs/heads/new"]) == {PULL: None, "refs/heads/new": None}
    assert shim.count("ls-remote") == looks + 2
    now += TIP_SECONDS
    origin.commit()
    await following.poll()  # whoever looks tells of what is followed
    assert await following.tips([MAIN]) == {MAIN: origin.head()}
    assert shim.count("ls-remote") == looks + 3
    origin.path.rename(tmp_path / "away")
    now += TIP_SECONDS
    assert await following.tips([MAIN, PULL]) == {MAIN: origin.at(tmp_path / "away").head(), PULL: None}
    await remotes.close()
    assert await following.tips(["refs/heads/other"]) == {}
