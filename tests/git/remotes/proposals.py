"""Repositories with proposals, as forges keep them, and what tests ask of them.

proposing = await following_of(remotes, forge)
"""

from pathlib import Path

from reconciler.git.refs import HEAD, Followed
from reconciler.git.remotes.following import Following, Remotes
from reconciler.git.remotes.proposals import Proposal
from reconciler.git.remotes.sources import Source
from reconciler.git.snapshots import Snapshot
from tests.git.remotes.followings import brought
from tests.repositories import Repository

PULL = "refs/pull/7/head"


def fork(forge: Repository, folder: Path) -> Repository:
    """A clone of somebody else's, on the branch `change`."""
    forge.git("clone", "--quiet", "--no-local", str(forge.path), str(folder))
    copy = forge.at(folder)
    copy.git("switch", "--quiet", "--create", "change")
    return copy


def propose(fork: Repository, forge: Repository, *, ref: str = PULL, text: str = "b") -> str:
    """A commit of one file more in the fork, which the forge shows under a ref of its own."""
    fork.write("b.yaml", text)
    commit = fork.commit()
    fork.git("push", "--quiet", "--force", str(forge.path), f"+{commit}:{ref}")
    return commit


async def followed(
    remotes: Remotes,
    url: str | Path,
    follows: Followed = HEAD,
    *,
    timeout: float = 30,  # noqa: ASYNC109 - of the source
    max_bytes: int = 1 << 20,
    max_objects: int = 1000,
) -> Following:
    """A repository whose mirror holds what it follows."""
    following = remotes.follow(
        Source(url=str(url), follows=follows, timeout=timeout, max_bytes=max_bytes, max_objects=max_objects)
    )
    await brought(following)
    return following


def packed(folder: Path) -> set[str]:
    """The objects of a mirror's own packs, whether or not a ref leads to them."""
    found: set[str] = set()
    for index in sorted((folder / "objects/pack").glob("*.idx")):
        listing = Repository(folder).git("show-index", data=index.read_bytes())
        found |= {line.split(" ")[1] for line in listing.splitlines()}
    return found


def files_of(proposal: Proposal) -> list[str]:
    """The files of the proposed commit."""
    with Snapshot.open(proposal.proposals or proposal.mirror, proposal.head) as snapshot:
        return [file.path for file in snapshot.files("")]
