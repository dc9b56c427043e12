"""Proposals: what somebody asks to be compared with what a repository follows, found and fetched when it is asked for.

Belongs here: what one repository may ask, who waits for it together, and for how long. Does not: which names are
allowed (`proposable`), finding and fetching (`finding`), where refs were (`tips`), what is made of a proposal.

Nothing of it is the following's: it has calls, slots and a memory of faults of its own, so that a proposal that is slow
or fails delays no look and changes no state.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import HEAD, OBJECT_ID, Followed, RefKind
from reconciler.remotes import proposable
from reconciler.remotes.finding import ABSENT, Answered, FoundCommit, ProposalFinder, Question
from reconciler.remotes.rounds import SharedCalls
from reconciler.remotes.sharing import Remote
from reconciler.remotes.slots import ConcurrencyLimit
from reconciler.remotes.sources import Source, host_of


@dataclass(frozen=True, slots=True)
class Proposal:
    """Two commits to compare, and the folders that hold their whole history together.

    A ref is its full name, a commit's id where one was named by it, or `HEAD` of a remote where that names no branch.
    `proposals` is None when everything is in the mirror. `is_followed`: the base is what the repository follows.
    """

    base_ref: str
    base: str
    head_ref: str
    head: str
    mirror: Path
    proposals: Path | None
    is_followed: bool


class Proposing:
    """One repository's side: a proposal is compared with what that follows."""

    def __init__(self, proposals: "Proposals", source: Source) -> None:
        self._proposals = proposals
        self._source = source

    async def propose(self, head: str, *, base: str | None = None) -> Proposal:
        """Where `head` and `base` are now, fetched; each a ref in full or a commit's id. Without `base` what the
        repository follows.

        Takes at most the repository's `timeout`. Raises Refused for what is neither, NotFound for what is not there or
        may not be proposed, GitFault. Cancelled, it ends the git that nobody else waits for.
        """
        head_wanted = self._wanted(head)
        base_wanted = self._source.follows if base is None else self._wanted(base)
        found = await self._proposals.find(frozenset({head_wanted, base_wanted}))
        head_held, base_held = self._held(found, head_wanted), self._held(found, base_wanted)
        return Proposal(
            base_held.ref,
            base_held.commit,
            head_held.ref,
            head_held.commit,
            mirror=self._proposals.mirror,
            proposals=head_held.folder or base_held.folder,
            is_followed=base_wanted == self._source.follows,
        )

    async def tips(self, refs: Collection[str]) -> dict[str, str | None]:
        """Where refs of proposals are, by what was seen in the last half a minute; None for one that is not there.

        One is left out of which nothing is known: the remote could not be asked, or another question was asked just
        now. The commit that a commit's id is at is that commit. Raises nothing.
        """
        wanted = {ref for ref in refs if ref == self._source.follows.full or proposable.is_allowed_proposal(ref)}
        told = await self._proposals.tips(wanted)
        fixed = {ref: ref for ref in refs if OBJECT_ID.fullmatch(ref)}
        return dict(sorted({**told, **fixed}.items()))

    def _wanted(self, text: str) -> Followed:
        return proposable.wanted_refs(text, follows=self._source.follows, url=self._source.url)

    def _held(self, found: Answered, wanted: Followed) -> FoundCommit:
        result = found[wanted]
        if isinstance(result, GitFault) and result.state in ABSENT and wanted != self._source.follows:
            raise proposable.proposal_not_found(wanted.full, url=self._source.url)
        if isinstance(result, Exception):
            raise result.with_traceback(None)  # many raise the same one
        return result


class Proposals:
    """Of one remote, for all who follow something of it. `slots` bounds what asks remotes for proposals."""

    def __init__(self, remote: Remote, *, slots: ConcurrencyLimit) -> None:
        self._remote = remote
        self._slots = slots
        self._host = host_of(remote.url)
        self._finder = ProposalFinder(remote)
        self._rounds = SharedCalls(self._call, slots=slots, host=self._host, clock=remote.clock)
        self._looking = asyncio.Lock()  # whoever looks for tips alone
        self._bounds: set[asyncio.Timeout] = set()  # of all who wait
        self._is_closed = False

    @property
    def mirror(self) -> Path:
        """The first mirror's folder."""
        return self._remote.place.mirror

    @property
    def folders(self) -> list[Path]:
        """All that is to be removed with the first mirror."""
        return self._finder.folders

    async def find(self, wanted: Question) -> Answered:
        """Where these are, fetched, or the fault of each. Raises GitFault for want of time."""
        async with self._bounded():
            return (await self._rounds.ask(wanted, since=self._remote.clock())).value()

    async def tips(self, wanted: Collection[str]) -> dict[str, str | None]:
        """Where refs are, as far as that is known, by their names."""
        for began, head in self._remote.seen():
            self._finder.tips.note(head.ref, head.commit, at=began)
        if self._finder.tips.are_due(wanted):
            with contextlib.suppress(GitFault):
                async with self._bounded():
                    await self._look(wanted)
        return self._finder.tips.told(wanted)

    async def close(self) -> None:
        """Nobody may ask any more; whoever waits is told so."""
        self._is_closed = True
        for bound in self._bounds:
            if not bound.expired():
                bound.reschedule(asyncio.get_running_loop().time())
        await self._rounds.close()

    @contextlib.asynccontextmanager
    async def _bounded(self) -> AsyncIterator[None]:
        """Around waiting, for as long as the repositories allow git."""
        url, seconds = self._remote.url, self._remote.source().timeout
        gone = GitFault(RepositoryState.UNREACHABLE, f"{url} is not followed any more by these settings; ask again")
        if self._is_closed:
            raise gone
        try:
            async with asyncio.timeout(seconds) as bound:
                self._bounds.add(bound)
                try:
                    yield
                finally:
                    self._bounds.discard(bound)
        except TimeoutError:
            if self._is_closed:
                raise gone from None
            told = f"{url} did not give what was proposed within {seconds:g} seconds; ask again, or raise `timeout`"
            raise GitFault(RepositoryState.UNREACHABLE, told) from None

    async def _call(self, questions: frozenset[Question]) -> Mapping[Question, Answered | Exception]:
        """Called by the rounds, once at a time: all that is asked for together takes one look and one fetch."""
        found = await self._finder.find(frozenset().union(*questions))
        return {question: {one: found[one] for one in question} for question in questions}

    async def _look(self, wanted: Collection[str]) -> None:
        async with self._looking:
            if self._finder.tips.are_due(wanted):  # else somebody else has looked meanwhile
                names = self._finder.tips.begin(wanted)
                async with self._slots.turn(self._host):
                    await self._finder.look(
                        [HEAD if name == HEAD.full else Followed(RefKind.REF, name) for name in names]
                    )
