"""Proposals: finding and fetching what is to be compared, in a mirror of its own."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from reconciler.git import refs as git_refs
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import HEAD, OBJECT_ID, Followed, ProposalNotFound, RefHead, RefKind
from reconciler.git.remotes import mirrors, polls
from reconciler.git.remotes.concurrency import ConcurrencyLimit, SharedCalls
from reconciler.git.remotes.local_repositories import Inspector
from reconciler.git.remotes.mirrors import MANY_PACKS, OF_ONE, Mirror
from reconciler.git.remotes.polls import FetchBounds, RefCache, RejectedHeads, RetryAfter
from reconciler.git.remotes.remote import Remote
from reconciler.git.remotes.sources import Source, host_of

# The second mirror of a remote: what was proposed there, and is not followed.
#
# It borrows all that the first mirror holds, so that only what is new is fetched, and lends it nothing: what strangers
# proposed is never in the first. It is made anew, under another number, when it is full, is damaged, or the first one
# was made anew; of the one before, whose objects somebody may still read, the files stay until the next.

MOST_HELD = 50  # proposals whose commits may be named by their ids: those that were asked for last


class SecondMirror:
    """Of one remote. One task at a time may use it; nobody else writes there."""

    def __init__(self, first: Mirror) -> None:
        self._first = first
        self._generation = 0  # of the first mirror, which this one borrows from
        self._number = 0
        self._current: Mirror | None = None
        self._before: Path | None = None
        self._heads: dict[
            str, RefHead
        ] = {}  # where our refs are, by their names; the one that was asked for last is last

    @property
    def path(self) -> Path | None:
        """The folder; None as long as nothing was fetched."""
        return None if self._current is None else self._current.path

    @property
    def folders(self) -> list[Path]:
        """All that is to be removed with the first mirror."""
        return [folder for folder in (self.path, self._before) if folder is not None]

    async def prepare(self, generation: int, *, max_bytes: int) -> None:
        """Be of use beside this generation of the first mirror, and have room for one fetch more.

        It has none when it holds more than one fetch may bring, or so many packs that they would be joined.
        """
        path = self.path
        is_of_use = generation == self._generation
        if path is not None and not (is_of_use and await asyncio.to_thread(_has_room, path, max_bytes)):
            await self.leave()
        self._generation = generation

    async def reaches(self, commit: str) -> bool:
        """Return whether a ref of a proposal leads to a commit. Raises GitFault, never that this mirror is damaged."""
        if self._current is None:
            return False
        try:
            return await self._current.reaches(commit)
        except GitFault as fault:
            if fault.state is not RepositoryState.MIRROR_CORRUPT:
                raise
        await self.leave()
        return False

    async def hold(self, source: Source, wanted: Mapping[Followed, RefHead]) -> Mapping[Followed, RefHead | Exception]:
        """Have the whole history of each here; the answer is what came, maybe newer than the head given.

        Raises GitFault for what concerns them all. `source` gives the URL and the limits. What fails leaves nothing.
        """
        try:
            return await self._held(source, wanted)
        except GitFault as fault:
            if fault.state is not RepositoryState.MIRROR_CORRUPT:
                raise
        await self.leave()
        return await self._held(source, wanted)

    async def leave(self) -> None:
        """Hold nothing any more, and remove what was left the last time."""
        gone, self._before = self._before, self.path or self._before
        self._current = None
        self._heads.clear()
        if gone is not None and gone != self._before:
            mirrors.remove_retired(await asyncio.to_thread(mirrors.retire_folder, [gone]))

    async def _held(self, source: Source, wanted: Mapping[Followed, RefHead]) -> Mapping[Followed, RefHead | Exception]:
        mirror = await self._opened()
        lacking = {one: head for one, head in wanted.items() if not head.is_held_as(self._heads.get(one.private_ref))}
        came = {**wanted, **(await _fetched(mirror, source, lacking) if lacking else {})}
        for one, result in came.items():
            if isinstance(result, RefHead):
                self._heads.pop(one.private_ref, None)  # so that it is the last from now on
                self._heads[one.private_ref] = result
        old = list(self._heads)[: -max(MOST_HELD, len(wanted))]
        for ref in old:
            del self._heads[ref]
        await mirror.drop(old)
        return came

    async def _opened(self) -> Mirror:
        if self._current is None:
            first = self._first
            path = first.path.with_name(f"{first.path.name}.proposals-{self._number + 1}")
            fresh = Mirror(path, first.program, url=first.url, borrows=first.path.name)
            await fresh.rebuild()
            self._number, self._current = self._number + 1, fresh
        return self._current


async def _fetched(
    mirror: Mirror, source: Source, lacking: Mapping[Followed, RefHead]
) -> Mapping[Followed, RefHead | Exception]:
    try:
        return await mirror.fetch(source, lacking)
    except GitFault as fault:
        if len(lacking) == 1 and (fault.of_head or fault.state in OF_ONE):
            return dict.fromkeys(lacking, fault)
        raise


def _has_room(path: Path, max_bytes: int) -> bool:
    files = list((path / "objects/pack").glob("pack-*"))
    packs = sum(file.suffix == ".pack" for file in files)
    return packs < MANY_PACKS and sum(file.stat().st_size for file in files) <= max_bytes


# Finding what was proposed: in the mirrors, else by asking the remote, and fetched into the second one.
#
# A commit that is named by its id must be one that a ref of ours leads to, or the tip of a ref that may be proposed.
# That some mirror holds it is not enough: forks of a repository share their objects at a forge, and whoever knows an id
# would read what was never shown to him.

PAUSE_SECONDS = 30.0  # after a fault of the remote, until it is asked for a proposal again
LISTING_BYTES = 16 << 20  # of all refs that may be proposed, among which a commit is looked for
MOST_UNFIT = 50  # of the proposals that no fetch can bring, so many are remembered
ABSENT = frozenset({RepositoryState.BRANCH_MISSING, RepositoryState.EMPTY})  # states that say that there is no such ref


class FoundCommit(NamedTuple):
    """A commit that was found; `folder` is that of the second mirror, None for the first one."""

    ref: str
    commit: str
    folder: Path | None


class _Sought(NamedTuple):
    """A ref that leads to a wanted commit, and its present head."""

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
        self._probe = polls.PollProbe(remote.clock)
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
        """Return where these are, held with all their history, or the fault of each. Raises GitFault."""
        first = await self._remote.ready()
        second = self._second = self._second or SecondMirror(first)
        await second.prepare(self._remote.generation, max_bytes=self._remote.source().max_bytes)
        found = await self._found(first, second, wanted)
        if any(isinstance(held, FoundCommit) and held.folder not in (None, second.path) for held in found.values()):
            found = await self._found(first, second, wanted)  # it was damaged, and is another one since
        return found

    async def look(self, wanted: Collection[Followed]) -> Mapping[Followed, RefHead | Exception]:
        """Return where refs are by the remote, or the fault of each. Raises GitFault, also that of a moment ago."""
        first = await self._remote.ready()
        await self._inspect(one.full for one in wanted)
        began = self._remote.clock()
        with self._asking():
            heads = await polls.poll(first, self._remote.source(), wanted, probe=self._probe)
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
        """Return what is nowhere here, or may have moved."""
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
            arguments = ("ls-remote", "--", source.operand, *git_refs.PATTERNS)
            return (await first.ask(source, *arguments, output_bytes=LISTING_BYTES)).stdout

    def _by_tip(self, commit: Followed, listing: bytes) -> _Sought | Exception:
        """The ref that is at a commit. One that is followed by its id is fetched by it."""
        ref = git_refs.proposal_tip(listing, commit.name)
        if ref is not None:
            return _Sought(Followed(RefKind.REF, ref), RefHead(ref, commit.name))
        if any(source.follows == commit for source in self._remote.sources):
            return _Sought(commit, RefHead(commit.full, commit.name))
        return git_refs.proposal_not_found(commit.name, url=self._remote.url)

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
            return git_refs.proposal_not_found(wanted.name, url=self._remote.url)
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


# Proposals: what somebody asks to be compared with what a repository follows, found and fetched when it is asked for.
#
# Nothing of it is the following's: it has calls, slots and a memory of faults of its own, so that a proposal that is
# slow or fails delays no look and changes no state.


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
        """Return where `head` and `base` are now, fetched; each a ref in full or a commit's id. Without `base` what the
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
        """Return the commits of refs, as seen in the last half a minute; None for a ref that is not there.

        One is left out of which nothing is known: the remote could not be asked, or another question was asked just
        now. The commit that a commit's id is at is that commit. Raises nothing.
        """
        wanted = {ref for ref in refs if ref == self._source.follows.full or git_refs.is_allowed_proposal(ref)}
        told = await self._proposals.tips(wanted)
        fixed = {ref: ref for ref in refs if OBJECT_ID.fullmatch(ref)}
        return dict(sorted({**told, **fixed}.items()))

    def _wanted(self, text: str) -> Followed:
        return git_refs.wanted_refs(text, follows=self._source.follows, url=self._source.url)

    def _held(self, found: Answered, wanted: Followed) -> FoundCommit:
        result = found[wanted]
        if isinstance(result, GitFault) and result.state in ABSENT and wanted != self._source.follows:
            raise git_refs.proposal_not_found(wanted.full, url=self._source.url)
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
        """Return where these are, fetched, or the fault of each. Raises GitFault for want of time."""
        async with self._bounded():
            return (await self._rounds.ask(wanted, since=self._remote.clock())).value()

    async def tips(self, wanted: Collection[str]) -> dict[str, str | None]:
        """Return where refs are, as far as that is known, by their names."""
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
