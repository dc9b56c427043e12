"""The remotes that are followed, and by which repositories."""

import asyncio
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from reconciler.git import refs as git_refs
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import OBJECT_ID, Followed, RefHead, RefKind
from reconciler.git.remotes import mirrors
from reconciler.git.remotes.commit_facts import CommitFacts
from reconciler.git.remotes.proposals import Proposal, Proposals
from reconciler.git.remotes.remote import Address, ConcurrencyLimit, Remote, RemotePlace, RemoteTally
from reconciler.git.remotes.sources import Source
from reconciler.git.remotes.verification import AllowedSigners

AT_ONCE = 64  # concurrent git programs for remotes, and as many for repositories and mirrors on this machine
OF_ONE_HOST = 8  # of these for one host: a host that does not answer must not take all
INSISTING = 8  # in addition to either, for a person's request when none is free
PROPOSED = 8  # remotes that are called for proposals at the same time, and as many repositories on this machine
PROPOSED_OF_ONE_HOST = 4
RECALLS = 3  # attempts for one mirror: the server may refuse with an unknown phrase, and this must end
REFUSED = frozenset(
    {RepositoryState.BRANCH_MISSING, RepositoryState.UNSUPPORTED_FORMAT}
)  # for a commit that is fetched by its id


class Following:
    """One repository's side of a remote."""

    def __init__(self, remote: Remote, source: Source, proposals: Proposals) -> None:
        self._remote = remote
        self._proposals = proposals
        self._follows = source.follows
        self._taken = float("-inf")  # the beginning of the last poll that it got
        self._recalled_to: int | None = None  # the generation of the mirror that needs no further recall
        self._recalls_failed = 0  # failures since the last success

    @property
    def path(self) -> Path:
        """The mirror's folder."""
        return self._remote.place.mirror

    @property
    def is_ready(self) -> bool:
        """Return True if the mirror was made, or found, by this process."""
        return self._remote.is_ready

    @property
    def generation(self) -> int:
        """The number of the present mirror, for `rebuild`."""
        return self._remote.generation

    async def poll(self, *, patience: float = 0.0, insists: bool = False) -> RefHead:
        """Return the present commit of the followed ref. Raises GitFault.

        A poll that another repository began less than `patience` seconds ago counts too, but each only once. A call
        that `insists` ignores a Retry-After of the remote. A followed commit needs no poll.
        """
        if self._follows.is_fixed:
            return RefHead(self._follows.full, self._follows.name)
        since = max(self._remote.clock() - patience, self._taken) if patience else self._remote.clock()
        self._taken, found = await self._remote.poll(self._follows, since=since, insists=insists)
        head = found[self._follows]
        if isinstance(head, Exception):
            raise head.with_traceback(None)  # several callers raise the same error
        return head

    async def fetch(self, head: RefHead, *, insists: bool = False) -> RefHead:
        """Fetch the head with all its history into the mirror; return the head that it holds. Raises GitFault."""
        return await self._remote.fetch(self._follows, head, insists=insists)

    async def recall(self, commit: str, *, insists: bool = False) -> None:
        """Fetch the applied commit into a new mirror, even if no ref leads to it any more. Raises GitFault.

        It is tried once for each mirror, since a mirror never drops commits. If the remote no longer has the commit, or
        serves none by its id, that is no fault: then the mirror lacks it.
        """
        generation = self._remote.generation
        if self._recalled_to == generation:
            return
        if not self._remote.has_head(commit):
            wanted = Followed(RefKind.COMMIT, commit)
            try:
                await self._remote.fetch(wanted, RefHead(wanted.full, wanted.name), insists=insists)
            except GitFault as fault:
                self._recalls_failed += fault.retry_after is None
                is_gone = fault.state in REFUSED or fault.of_head
                if not is_gone and self._recalls_failed < RECALLS:
                    raise
        self._recalled_to, self._recalls_failed = generation, 0

    async def verify(self, head: RefHead, allowed: AllowedSigners) -> None:
        """Check that a fetched head is signed by one of these. Raises GitFault, Transient."""
        await self._remote.verify(head, allowed)

    async def read_facts(self, *commits: str | None) -> None:
        """Read the facts of commits in the mirror, once for each. Raises nothing."""
        for commit in commits:
            if commit is not None and commit not in self._remote.facts:
                await self._remote.read_facts(commit)

    def facts(self, commit: str | None) -> CommitFacts | None:
        """Return the facts of a commit; None as long as they are not read."""
        return None if commit is None else self._remote.facts.get(commit)

    async def rebuild(self, generation: int) -> None:
        """Make the mirror of `generation` again, once for all repositories that share it. Raises GitFault."""
        await self._remote.rebuild(generation)

    async def propose(self, head: str | None, *, base: str | None = None) -> Proposal:
        """Fetch `head` and `base` and return their commits. Each is a full ref, a commit's id, or None for the ref that
        the repository follows.

        It takes at most the repository's `timeout`. Raises Refused for a malformed name, NotFound for a ref that does
        not exist or may not be proposed, GitFault. A cancelled call ends its git.
        """
        head_wanted, base_wanted = (
            self._follows if name is None else git_refs.wanted_refs(name, follows=self._follows, url=self._remote.url)
            for name in (head, base)
        )
        found = await self._proposals.find(head_wanted, base_wanted, follows=self._follows)
        head_held, base_held = found[head_wanted], found[base_wanted]
        return Proposal(
            base_held.ref,
            base_held.commit,
            head_held.ref,
            head_held.commit,
            mirror=self.path,
            proposals=head_held.folder or base_held.folder,
            is_followed=base_wanted == self._follows,
        )

    async def tips(self, refs: Collection[str]) -> dict[str, str | None]:
        """Return the commits of refs, as seen in the last half a minute; None for a ref that does not exist.

        An unknown ref is left out: the remote could not be polled, or was polled for other refs just before. The id of
        a commit is its own commit. Raises nothing.
        """
        wanted = {ref for ref in refs if ref == self._follows.full or git_refs.is_allowed_proposal(ref)}
        told = await self._proposals.tips(wanted)
        fixed = {ref: ref for ref in refs if OBJECT_ID.fullmatch(ref)}
        return dict(sorted({**told, **fixed}.items()))


class Remotes:
    """Every followed remote. `places` returns the folders of each; `clock` is monotonic, in seconds."""

    def __init__(self, places: Callable[[Source], RemotePlace], *, clock: Callable[[], float]) -> None:
        self._places = places
        self._clock = clock
        self._remotes: dict[Address, Remote] = {}
        self.tally = RemoteTally()
        self._proposals: dict[Address, Proposals] = {}
        # Remotes and local repositories have separate limits, so slow remotes never delay local ones. Proposals have
        # other limits again, so they never delay followed refs.
        self._limits = {
            False: ConcurrencyLimit(AT_ONCE, each=OF_ONE_HOST, beyond=INSISTING),
            True: ConcurrencyLimit(AT_ONCE, beyond=INSISTING),
        }
        self._proposal_limits = {
            False: ConcurrencyLimit(PROPOSED, each=PROPOSED_OF_ONE_HOST),
            True: ConcurrencyLimit(PROPOSED),
        }

    def follow(self, source: Source) -> Following:
        """Begin to follow a ref of a remote; `keep` ends it."""
        address = source.url, source.credentials
        if address not in self._remotes:
            remote = self._remotes[address] = Remote(
                address,
                self._places(source),
                limit=self._limits[source.is_local],
                own_limit=self._limits[True],
                clock=self._clock,
                tally=self.tally,
            )
            self._proposals[address] = Proposals(remote, limit=self._proposal_limits[source.is_local])
        remote = self._remotes[address]
        remote.sources |= {source}
        return Following(remote, source, self._proposals[address])

    async def keep(self, sources: Iterable[Source]) -> None:
        """Follow exactly these from now on, and remove the mirrors of others. Nothing may wait for those."""
        kept: dict[Address, list[Source]] = {}
        for source in sources:
            kept.setdefault((source.url, source.credentials), []).append(source)
        unused = self._remotes.keys() - kept.keys()
        gone = [self._remotes.pop(address) for address in unused]
        proposals = [self._proposals.pop(address) for address in unused]
        for address, remote in self._remotes.items():
            remote.sources = frozenset(kept[address])
        await asyncio.gather(*(each.close() for each in proposals))
        folders = [folder for remote in gone for folder in (remote.place.mirror, remote.place.home)]
        folders += [folder for each in proposals for folder in each.folders]
        mirrors.remove_retired(await asyncio.to_thread(mirrors.retire_folder, folders))

    async def close(self) -> None:
        """Stop following; the mirrors stay for the next process. Nothing may wait for a remote."""
        proposals = list(self._proposals.values())
        self._remotes.clear()
        self._proposals.clear()
        await asyncio.gather(*(each.close() for each in proposals))
