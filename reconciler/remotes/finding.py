"""Finding what was proposed: in the mirrors, else by asking the remote, and fetched into the second one.

Belongs here: the order of these steps for what is asked for together, and what keeps a remote from being asked. Does
not: who asks and waits (`proposing`), which names are allowed (`proposable`).

A commit that is named by its id must be one that a ref of ours leads to, or the tip of a ref that may be proposed. That
some mirror holds it is not enough: forks of a repository share their objects at a forge, and whoever knows an id would
read what was never shown to him.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import Followed, RefHead, RefKind
from reconciler.remotes import looking, proposable
from reconciler.remotes.inspecting import Inspector
from reconciler.remotes.mirrors import Mirror
from reconciler.remotes.proposable import ProposalNotFound
from reconciler.remotes.resting import RetryAfter
from reconciler.remotes.second_mirrors import SecondMirror
from reconciler.remotes.sharing import Remote
from reconciler.remotes.tips import RefCache
from reconciler.remotes.unfit import FetchBounds, RejectedHeads

PAUSE_SECONDS = 30.0  # after a fault of the remote, until it is asked for a proposal again
LISTING_BYTES = 16 << 20  # of all refs that may be proposed, among which a commit is looked for
MOST_UNFIT = 50  # of the proposals that no fetch can bring, so many are remembered
ABSENT = frozenset({RepositoryState.BRANCH_MISSING, RepositoryState.EMPTY})  # states that say that there is no such ref


class FoundCommit(NamedTuple):
    """Where something was found; `folder` is that of the second mirror, None for what the first one holds."""

    ref: str
    commit: str
    folder: Path | None


class _Sought(NamedTuple):
    """What leads to something that is wanted, and where that is now."""

    by: Followed
    head: RefHead


Question: TypeAlias = frozenset[Followed]
Answered: TypeAlias = Mapping[Followed, FoundCommit | Exception]


class ProposalFinder:
    """Of one remote. One task at a time may `find`; what it remembers of faults is its own."""

    def __init__(self, remote: Remote) -> None:
        self.tips = RefCache(remote.clock)
        self._remote = remote
        self._rest = RetryAfter(remote.clock)
        self._probe = looking.PollProbe(remote.clock)
        self._unfit = RejectedHeads()
        self._tried: dict[Followed, None] = {}  # what was fetched, the newest last
        folder = remote.source().folder
        self._inspector = None if folder is None else Inspector(remote.url, folder, state=remote.place.state)
        self._second: SecondMirror | None = None

    @property
    def folders(self) -> list[Path]:
        """All that is to be removed with the first mirror."""
        return [] if self._second is None else self._second.folders

    async def find(self, wanted: Question) -> Answered:
        """Where these are, held with all their history, or the fault of each. Raises GitFault."""
        first = await self._remote.ready()
        second = self._second = self._second or SecondMirror(first)
        await second.prepare(self._remote.generation, max_bytes=self._remote.source().max_bytes)
        found = await self._found(first, second, wanted)
        if any(isinstance(held, FoundCommit) and held.folder not in (None, second.path) for held in found.values()):
            found = await self._found(first, second, wanted)  # it was damaged, and is another one since
        return found

    async def look(self, wanted: Collection[Followed]) -> Mapping[Followed, RefHead | Exception]:
        """Where refs are by the remote, or the fault of each. Raises GitFault, also that of a moment ago."""
        first = await self._remote.ready()
        await self._inspect(one.full for one in wanted)
        began = self._remote.clock()
        with self._asking():
            heads = await looking.poll(first, self._remote.source(), wanted, probe=self._probe)
        for one, head in heads.items():
            if isinstance(head, RefHead):
                self.tips.note(head.ref, head.commit, at=began)
            elif isinstance(head, GitFault) and head.state in ABSENT:
                self.tips.note(one.full, None, at=began)
        return heads

    # The steps of `find`

    async def _found(self, first: Mirror, second: SecondMirror, wanted: Question) -> Answered:
        found: dict[Followed, FoundCommit | Exception] = {}
        for one in sorted(one for one in wanted if one.is_fixed):
            if (held := await self._held(first, second, RefHead(one.full, one.name))) is not None:
                found[one] = held
        rest = wanted - found.keys()
        try:
            return {**found, **(await self._asked(first, second, rest) if rest else {})}
        except GitFault as fault:  # which is no fault of what is here
            return {**found, **dict.fromkeys(rest, fault)}

    async def _asked(self, first: Mirror, second: SecondMirror, wanted: Question) -> Answered:
        """What is nowhere here, or may have moved."""
        found: dict[Followed, FoundCommit | Exception] = {}
        sought: dict[Followed, _Sought] = {}
        for one, place in (await self._located(first, wanted)).items():
            if isinstance(place, Exception):
                found[one] = place
            elif (held := await self._held_first(first, place.head)) is not None:
                found[one] = held
            else:
                sought[one] = place
        found |= await self._brought(second, sought)
        for one, result in found.items():
            if isinstance(result, ProposalNotFound) and await second.reaches(one.name):  # by what came just now
                found[one] = FoundCommit(one.full, one.name, second.path)
        return found

    async def _located(self, first: Mirror, wanted: Question) -> Mapping[Followed, _Sought | Exception]:
        found: dict[Followed, _Sought | Exception] = {}
        if named := [one for one in wanted if not one.is_fixed]:
            for one, head in (await self.look(named)).items():
                found[one] = head if isinstance(head, Exception) else _Sought(one, head)
        if unnamed := [one for one in wanted if one.is_fixed]:
            listing = await self._listing(first)
            found |= {one: self._by_tip(one, listing) for one in unnamed}
        return found

    async def _listing(self, first: Mirror) -> bytes:
        source = self._remote.source()
        await self._inspect(())
        with self._asking():
            arguments = ("ls-remote", "--", source.operand, *proposable.PATTERNS)
            return (await first.ask(source, *arguments, output_bytes=LISTING_BYTES)).stdout

    def _by_tip(self, commit: Followed, listing: bytes) -> _Sought | Exception:
        """The ref that is at a commit. One that is followed by its id is fetched by it."""
        ref = proposable.proposal_tip(listing, commit.name)
        if ref is not None:
            return _Sought(Followed(RefKind.REF, ref), RefHead(ref, commit.name))
        if any(source.follows == commit for source in self._remote.sources):
            return _Sought(commit, RefHead(commit.full, commit.name))
        return proposable.proposal_not_found(commit.name, url=self._remote.url)

    async def _brought(self, second: SecondMirror, sought: Mapping[Followed, _Sought]) -> Answered:
        source = self._remote.source()
        bounds = FetchBounds(source.max_bytes, source.max_objects)
        came: dict[Followed, RefHead | Exception] = {}
        lacking = dict(sought.values())
        for by, head in list(lacking.items()):
            try:
                self._unfit.check(by, head, bounds)
            except GitFault as fault:
                came[by] = fault
                del lacking[by]
        if lacking:
            fetched = await self._fetched(second, lacking)
            self._unfit.note(lacking, fetched, bounds)
            self._remember(lacking)
            came |= fetched
        return {one: self._result(second, one, came[by]) for one, (by, _) in sought.items()}

    async def _fetched(
        self, second: SecondMirror, lacking: Mapping[Followed, RefHead]
    ) -> Mapping[Followed, RefHead | Exception]:
        names = {one.full for one in lacking} | {head.ref for head in lacking.values()}
        await self._inspect(names)
        with self._asking():
            came = await second.hold(self._remote.source(), lacking)
        try:
            await self._inspect(names)
        except GitFault:
            await second.leave()  # what came may come from elsewhere
            raise
        return came

    def _result(self, second: SecondMirror, wanted: Followed, came: RefHead | Exception) -> FoundCommit | Exception:
        if isinstance(came, Exception):
            return came
        if wanted.is_fixed and wanted.name != came.commit:  # the ref has moved
            return proposable.proposal_not_found(wanted.name, url=self._remote.url)
        return FoundCommit(wanted.name if wanted.is_fixed else came.ref, came.commit, second.path)

    async def _held(self, first: Mirror, second: SecondMirror, head: RefHead) -> FoundCommit | None:
        held = await self._held_first(first, head)
        if held is None and await second.reaches(head.commit):
            return FoundCommit(head.ref, head.commit, second.path)
        return held

    async def _held_first(self, first: Mirror, head: RefHead) -> FoundCommit | None:
        is_held = self._remote.has_head(head.commit) or await first.reaches(head.commit)
        return FoundCommit(head.ref, head.commit, None) if is_held else None

    # What keeps a remote from being asked

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Around whatever asks the remote. Raises GitFault when it failed a moment ago, whoever asked."""
        for rest in (self._remote.rest, self._rest):
            rest.check(pause=PAUSE_SECONDS if self._inspector is None else 0.0)  # to ask a folder costs nobody anything
        with self._rest.asking():
            yield

    async def _inspect(self, names: Iterable[str]) -> None:
        """Judge what git is about to open, as for what is followed."""
        if self._inspector is not None:
            await self._inspector.inspect(sorted(names), seconds=self._remote.source().timeout)

    def _remember(self, tried: Iterable[Followed]) -> None:
        """Keep in mind of which heads the last fetches failed, and of no others."""
        for one in tried:
            self._tried.pop(one, None)
            self._tried[one] = None
        self._tried = dict.fromkeys(list(self._tried)[-MOST_UNFIT:])
        self._unfit.keep(self._tried)
