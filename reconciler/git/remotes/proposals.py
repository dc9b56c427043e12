"""Proposals: finding and fetching commits to compare, in a mirror of their own.

A commit that is named by its id must be in the history of one of our refs, or the tip of a ref that may be proposed.
An object in a mirror is not enough: forks of a repository share their objects at a forge, so a caller who knows an id
could read a commit of a private fork.

Proposals have their own calls, limits and memory of faults, so a slow or failing proposal delays no poll and changes
no state.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from reconciler.git import refs as git_refs
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import HEAD, Followed, RefHead, RefKind
from reconciler.git.remotes import mirrors
from reconciler.git.remotes.mirrors import MANY_PACKS, Mirror
from reconciler.git.remotes.remote import ConcurrencyLimit, Remote, RetryAfter
from reconciler.git.remotes.sources import Source

MOST_HELD = 50  # proposals whose commits may be named by id: the last requested ones
LISTING_BYTES = 16 << 20  # of the list of all refs that may be proposed, to find a commit in
ABSENT = frozenset({RepositoryState.BRANCH_MISSING, RepositoryState.EMPTY})  # the ref does not exist


class SecondMirror:
    """The second mirror of a remote, for proposals. One task at a time may use it.

    It borrows the objects of the first mirror, so only new ones are fetched. The first mirror never gets its objects,
    which strangers proposed. It is made again, under another number, if it is full or damaged, or if the first mirror
    was made again. Its old files stay until the next time, because somebody may still read them.
    """

    def __init__(self) -> None:
        self._generation = 0  # of the first mirror, whose objects this one borrows
        self._number = 0
        self._current: Mirror | None = None
        self._before: Path | None = None
        # The heads of our refs by name; the last requested one is last.
        self._heads: dict[str, RefHead] = {}

    @property
    def path(self) -> Path | None:
        """The folder; None before the first fetch."""
        return None if self._current is None else self._current.path

    @property
    def folders(self) -> list[Path]:
        """All that is to be removed with the first mirror."""
        return [folder for folder in (self.path, self._before) if folder is not None]

    async def prepare(self, generation: int, *, max_bytes: int) -> None:
        """Make sure that it fits this generation of the first mirror, and has room for another fetch.

        It is full if it has more bytes than one fetch may bring, or so many packs that they would be joined.
        """
        if self.path is not None:
            packs, size = await asyncio.to_thread(mirrors.measure_packs, self.path)
            if generation != self._generation or packs >= MANY_PACKS or size > max_bytes:
                await self.leave()
        self._generation = generation

    async def reaches(self, commit: str) -> bool:
        """Return True if a ref of a proposal leads to a commit. Raises GitFault."""
        return self._current is not None and await self._current.reaches(commit)

    async def hold(self, first: Mirror, source: Source, wanted: Followed, head: RefHead) -> RefHead:
        """Fetch the whole history of a head; return the fetched head, maybe a newer one. Raises GitFault.

        `source` has the URL and the limits. A failed fetch leaves nothing.
        """
        if self._current is None:
            path = first.path.with_name(f"{first.path.name}.proposals-{self._number + 1}")
            fresh = Mirror(path, first.program, url=first.url, borrows=first.path.name)
            await fresh.rebuild()
            self._number, self._current = self._number + 1, fresh
        ref = wanted.private_ref
        held = self._heads.get(ref)
        came = head if head.is_held_as(held) else await self._current.fetch(source, wanted, head)
        self._heads.pop(ref, None)  # so that it becomes the last one
        self._heads[ref] = came
        old = list(self._heads)[:-MOST_HELD]
        for ref in old:
            del self._heads[ref]
        await self._current.drop(old)
        return came

    async def leave(self) -> None:
        """Drop the present mirror, and remove the files of the one before."""
        gone, self._before = self._before, self.path or self._before
        self._current = None
        self._heads.clear()
        if gone is not None and gone != self._before:
            mirrors.remove_retired(await asyncio.to_thread(mirrors.retire_folder, [gone]))


TIP_SECONDS = 30.0  # between two polls only for tips, and the age up to which a tip counts
MOST_TIPS = 256  # refs that are remembered, and polled together


class RefTip(NamedTuple):
    """The commit of a ref; None when there was no such ref. `at`: when the poll began."""

    at: float
    commit: str | None


class FoundCommit(NamedTuple):
    """A commit that was found; `folder` is that of the second mirror, None for the first one."""

    ref: str
    commit: str
    folder: Path | None


@dataclass(frozen=True, slots=True)
class Proposal:
    """Two commits to compare, and the folders that hold their whole history together.

    A ref is a full name, the id of a commit that was named by it, or `HEAD` if the remote's HEAD names no branch.
    `proposals` is None if everything is in the mirror. `is_followed`: the base is the ref that the repository follows.
    """

    base_ref: str
    base: str
    head_ref: str
    head: str
    mirror: Path
    proposals: Path | None
    is_followed: bool


class Proposals:
    """The proposals of one remote, for all its repositories, found one at a time. `limit` bounds all calls."""

    def __init__(self, remote: Remote, *, limit: ConcurrencyLimit) -> None:
        self._remote = remote
        self._limit = limit
        self._second = SecondMirror()
        self._tips: dict[str, RefTip] = {}  # the most recently polled ones come last
        self._waiting: set[asyncio.Timeout] = set()
        self._asked = float("-inf")  # the time of the last poll only for tips
        self._rest = RetryAfter(remote.clock)
        self._finding = asyncio.Lock()
        self._looking = asyncio.Lock()  # held during a poll only for tips
        self._is_closed = False

    @property
    def folders(self) -> list[Path]:
        """All that is to be removed with the first mirror."""
        return self._second.folders

    async def find(self, *wanted: Followed, follows: Followed) -> Mapping[Followed, FoundCommit]:
        """Fetch these with their whole history and return their commits. Raises GitFault, ProposalNotFound.

        `follows` is the ref that the caller's repository follows.
        """
        # A commit that is named by its id may be in the history of a fetched ref.
        asked = sorted(dict.fromkeys(wanted), key=lambda one: one.is_fixed)
        async with self._bounded(self._finding):
            first = await self._remote.ready()
            await self._second.prepare(self._remote.generation, max_bytes=self._remote.source().max_bytes)
            try:
                return {one: await self._find(first, one, follows) for one in asked}
            except GitFault as fault:
                if fault.state is not RepositoryState.MIRROR_CORRUPT:
                    raise
            await self._second.leave()  # the second mirror may be the damaged one
            return {one: await self._find(first, one, follows) for one in asked}

    async def tips(self, wanted: Collection[str]) -> dict[str, str | None]:
        """Return the known commits of refs, by their names."""
        began, seen = self._remote.polled
        self._note(seen, at=began)
        now = self._remote.clock()
        is_old = any(ref not in self._tips or now - self._tips[ref].at >= TIP_SECONDS for ref in wanted)
        if is_old and now - self._asked >= TIP_SECONDS:
            self._asked = now
            names = sorted([*wanted, *(ref for ref in reversed(self._tips) if ref not in wanted)][:MOST_TIPS])
            with contextlib.suppress(GitFault):
                async with self._bounded(self._looking):
                    await self._poll([HEAD if name == HEAD.full else Followed(RefKind.REF, name) for name in names])
        return {ref: self._tips[ref].commit for ref in sorted(wanted) if ref in self._tips}

    def _note(self, heads: Mapping[Followed, RefHead | Exception], *, at: float) -> None:
        """Remember the commits of refs at a poll."""
        for one, head in heads.items():
            ref = head.ref if isinstance(head, RefHead) else one.full
            is_absent = isinstance(head, GitFault) and head.state in ABSENT
            if not isinstance(head, RefHead) and not is_absent:
                continue
            known = self._tips.pop(ref, None)
            tip = RefTip(at, head.commit if isinstance(head, RefHead) else None)
            self._tips[ref] = tip if known is None or known.at <= at else known
        while len(self._tips) > MOST_TIPS:
            del self._tips[next(iter(self._tips))]

    async def close(self) -> None:
        """Refuse further calls. Those that wait get an error and end their git."""
        self._is_closed = True
        for bound in self._waiting:
            if not bound.expired():
                bound.reschedule(asyncio.get_running_loop().time())
        async with self._finding, self._looking:
            pass

    @contextlib.asynccontextmanager
    async def _bounded(self, lock: asyncio.Lock) -> AsyncIterator[None]:
        """Limit the time of a call to the longest `timeout` of the repositories, and allow one call at a time."""
        url, seconds = self._remote.url, self._remote.source().timeout
        try:
            async with asyncio.timeout(0 if self._is_closed else seconds) as bound:
                self._waiting.add(bound)
                try:
                    async with lock, self._limit.slot(self._remote.host):
                        yield
                finally:
                    self._waiting.discard(bound)
        except TimeoutError:
            told = f"{url} did not give what was proposed within {seconds:g} seconds; ask again, or raise `timeout`"
            if self._is_closed:
                told = f"{url} is not followed any more by these settings; ask again"
            raise GitFault(RepositoryState.UNREACHABLE, told) from None

    # The steps of `find`: search the mirrors, then poll the remote, and fetch into the second mirror.

    async def _find(self, first: Mirror, wanted: Followed, follows: Followed) -> FoundCommit:
        if wanted.is_fixed:
            if self._remote.has_head(wanted.name) or await first.reaches(wanted.name):
                return FoundCommit(wanted.full, wanted.name, None)
            if await self._second.reaches(wanted.name):
                return FoundCommit(wanted.full, wanted.name, self._second.path)
        try:
            by, head = await self._located(first, wanted)
            if self._remote.has_head(head.commit) or await first.reaches(head.commit):
                return FoundCommit(wanted.name if wanted.is_fixed else head.ref, head.commit, None)
            came = await self._fetched(first, by, head)
        except GitFault as fault:
            if fault.state in ABSENT and wanted != follows:
                raise git_refs.proposal_not_found(wanted.full, url=self._remote.url) from None
            raise
        if not wanted.is_fixed:
            return FoundCommit(came.ref, came.commit, self._second.path)
        # The ref may have moved to a commit whose history contains the commit.
        if came.commit != wanted.name and not await self._second.reaches(wanted.name):
            raise git_refs.proposal_not_found(wanted.name, url=self._remote.url)
        return FoundCommit(wanted.name, wanted.name, self._second.path)

    async def _located(self, first: Mirror, wanted: Followed) -> tuple[Followed, RefHead]:
        """Return the ref that leads to the wanted commit, and its present head. Raises GitFault, ProposalNotFound."""
        if not wanted.is_fixed:
            result = (await self._poll([wanted]))[wanted]
            if isinstance(result, Exception):
                raise result
            return wanted, result
        source = self._remote.source()
        await self._remote.inspect()
        with self._asking():
            arguments = ("ls-remote", "--", source.operand, *git_refs.PATTERNS)
            listing = await first.ask(source, *arguments, output_bytes=LISTING_BYTES)
        ref = git_refs.proposal_tip(listing.stdout, wanted.name)
        if ref is not None:
            return Followed(RefKind.REF, ref), RefHead(ref, wanted.name)
        if any(source.follows == wanted for source in self._remote.sources):  # such a commit is fetched by its id
            return wanted, RefHead(wanted.full, wanted.name)
        raise git_refs.proposal_not_found(wanted.name, url=self._remote.url)

    async def _poll(self, wanted: Collection[Followed]) -> Mapping[Followed, RefHead | Exception]:
        """Poll refs; return their commits or faults. Raises GitFault, for a while also that of the last poll."""
        first = await self._remote.ready()
        await self._remote.inspect()
        began = self._remote.clock()
        with self._asking():
            heads = await first.poll(self._remote.source(), wanted)
        self._note(heads, at=began)
        return heads

    async def _fetched(self, first: Mirror, by: Followed, head: RefHead) -> RefHead:
        remote, source = self._remote, self._remote.source()
        remote.rejected.check(by, head, source)
        await remote.inspect()
        try:
            with self._asking():
                came = await self._second.hold(first, source, by, head)
        except GitFault as fault:
            remote.rejected.note(by, head, source, fault)
            raise
        try:
            await remote.inspect()
        except GitFault:
            await self._second.leave()  # the fetched objects may come from another place
            raise
        return came

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Wrap each call to the remote. Raises GitFault while its Retry-After lasts."""
        self._remote.rest.check()
        with self._rest.asking():
            yield
