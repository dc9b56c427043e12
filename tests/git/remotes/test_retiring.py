"""The folders of remotes that nobody follows any more."""

from pathlib import Path

import pytest

from reconciler.git.remotes.following import Remotes
from tests.git.remotes.followings import brought, source, until
from tests.repositories import Repository

pytestmark = pytest.mark.anyio


async def test_a_remote_that_is_followed_no_more_leaves_no_folder(
    remotes: Remotes, origin: Repository, tmp_path: Path
) -> None:
    other = Repository.init(tmp_path / "other")
    other.commit()
    gone, kept = remotes.follow(source(origin)), remotes.follow(source(other))
    for one in (gone, kept):
        await brought(one)
    await remotes.keep([source(other)])
    assert not gone.path.exists()
    state = tmp_path / "state"
    await until(lambda: {file.name for file in state.glob("*/*")} == {"other.git", "other"})
    assert (await brought(remotes.follow(source(origin)))).commit == origin.head()  # it may come again at any time


async def test_the_mirrors_stay_for_the_next_process(remotes: Remotes, origin: Repository) -> None:
    following = remotes.follow(source(origin))
    await brought(following)
    await remotes.close()
    assert following.path.is_dir()
