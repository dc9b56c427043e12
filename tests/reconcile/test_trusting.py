"""What is remembered of a head's signature."""

import time
from pathlib import Path

import pytest

from reconciler.git import refs
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.remotes.following import Following, Remotes
from reconciler.git.remotes.shared import RemotePlace
from reconciler.git.remotes.sources import Source
from reconciler.reconcile.reconciler import SignatureTrust
from tests.repositories import Repository
from tests.signing import Signer, allow, sign_with

pytestmark = pytest.mark.anyio


def following(folder: Path, source: Repository, **followed: str) -> Following:
    """Something of a repository that is followed."""
    remotes = Remotes(
        lambda _: RemotePlace(folder / "mirror.git", folder / "home", folder / "home"), clock=time.monotonic
    )
    return remotes.follow(Source(url=str(source.path), follows=refs.following(**followed)))


async def test_ends_when_the_head_or_the_file_of_signers_changes(tmp_path: Path) -> None:
    ada, eve = (Signer.make(tmp_path, name) for name in ("ada", "eve"))
    file = allow(tmp_path / "signers", ada)
    source = Repository.init(tmp_path / "source")
    sign_with(source, ada)
    source.commit()
    followed = following(tmp_path, source, branch="main")
    trust = SignatureTrust(file, followed)
    head = await followed.fetch(await followed.poll())
    assert not await trust.has(head)
    await trust.check(head)
    assert await trust.has(head)
    source.commit()
    later = await followed.fetch(await followed.poll())
    assert not await trust.has(later)
    allow(file, ada, eve)
    assert not await trust.has(head)
    allow(file, eve)
    with pytest.raises(GitFault) as caught:
        await trust.check(head)
    assert caught.value.state is RepositoryState.UNSIGNED
    assert not await trust.has(head)
    file.unlink()
    with pytest.raises(GitFault, match="does not exist") as caught:
        await trust.has(head)
    assert caught.value.state is RepositoryState.UNSIGNED


async def test_needs_no_signature_without_a_file_of_signers(tmp_path: Path) -> None:
    source = Repository.init(tmp_path / "source")
    source.commit()
    followed = following(tmp_path, source)
    head = await followed.fetch(await followed.poll())
    trust = SignatureTrust(None, followed)
    await trust.check(head)
    assert await trust.has(head)


async def test_is_asked_again_of_a_tag_that_was_made_anew_for_the_same_commit(tmp_path: Path) -> None:
    ada = Signer.make(tmp_path, "ada")
    source = Repository.init(tmp_path / "source")
    source.commit()
    source.git("tag", "v1")
    followed = following(tmp_path, source, tag="v1")
    trust = SignatureTrust(allow(tmp_path / "signers", ada), followed)
    for options in ([], ["--annotate", "--message=Plain"]):
        source.git("tag", "--force", *options, "v1")
        with pytest.raises(GitFault, match="is not signed"):
            await trust.check(await followed.fetch(await followed.poll()))
    sign_with(source, ada)
    source.git("tag", "--sign", "--message=Signed", "--force", "v1")
    head = await followed.fetch(await followed.poll())
    await trust.check(head)
    assert (await trust.has(head), head.tag) == (True, source.head("v1"))
