"""One remote, shared by all repositories that follow it with the same credentials.

Limits on the calls of all remotes, and their counts, are here too.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import Followed, RefHead
from reconciler.git.remotes.commit_facts import CommitFacts
from reconciler.git.remotes.credentials import Credentials
from reconciler.git.remotes.local_repositories import check_repository
from reconciler.git.remotes.mirrors import SLOW_DISK, Mirror
from reconciler.git.remotes.program import GitProgram
from reconciler.git.remotes.sources import Source, host_of
from reconciler.git.remotes.verification import AllowedSigners, Verification
from reconciler.model.errors import ReconcilerError
from reconciler.settings.bounded_io import BoundedIO, DiskHangs


class ConcurrencyLimit:
    """Allows `at_once` calls to all remotes together, and at most `each` to one host (None: no other limit).

    If a person waits for a call and no slot is free, the call gets one of `beyond` additional slots.
    """

    def __init__(self, at_once: int, *, each: int | None = None, beyond: int = 0) -> None:
        self._all = asyncio.Semaphore(at_once)
        self._hosts = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(each or at_once))
        self._beyond = asyncio.Semaphore(beyond)

    @asynccontextmanager
    async def slot(self, host: str, *, insists: bool = False) -> AsyncIterator[None]:
        """Wait for a slot, in the order of arrival, and hold it. `insists`: a person waits."""
        of_host = self._hosts[host]
        if insists and (of_host.locked() or self._all.locked()):
            async with self._beyond:
                yield
        else:
            async with of_host, self._all:  # in this order: a wait for one host takes no slot from others
                yield


class RemoteCall(StrEnum):
    """The kinds of calls to a remote."""

    LOOK = "look"
    FETCH = "fetch"


@dataclass(slots=True)
class RemoteTally:
    """Calls since the start, and failures by the state of the repository after them; empty for failures without one."""

    calls: dict[RemoteCall, int] = field(default_factory=lambda: dict.fromkeys(RemoteCall, 0))
    failures: Counter[tuple[RemoteCall, str]] = field(default_factory=Counter)

    @contextmanager
    def counting(self, call: RemoteCall) -> Iterator[None]:
        """Count a call, and its failure."""
        self.calls[call] += 1
        try:
            yield
        except Exception as fault:
            self.failed(call, fault)
            raise

    def failed(self, call: RemoteCall, fault: Exception) -> None:
        """Count a failure."""
        self.failures[call, fault.state.value if isinstance(fault, GitFault) else ""] += 1


Address: TypeAlias = tuple[str, Credentials]

MOST_REJECTED = 1000  # heads that are remembered
MOST_FACTS = 1000  # commits whose facts are remembered


class RemotePlace(NamedTuple):
    """The folders of a remote: its mirror, and the home of the git program that fills it.

    Both are in `state`, where no repository on this machine may lead.
    """

    mirror: Path
    home: Path
    state: Path


class PollAnswer(NamedTuple):
    """The commits of refs, or the fault of each. `began`: when the remote was asked, in seconds on the clock."""

    began: float
    found: Mapping[Followed, RefHead | Exception]


class RetryAfter:
    """The time until which one remote must not be called, from `Retry-After`. `clock` is in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until = float("-inf")
        self._fault: GitFault | None = None

    def check(self, *, insists: bool = False) -> None:
        """Raise a GitFault with the remaining time while the remote must not be called, unless a person `insists`."""
        left = self._until - self._clock()
        if self._fault is not None and left > 0 and not insists:
            fault = self._fault
            raise GitFault(fault.state, fault.message, retry_after=left, lasting=fault.lasting)

    @contextmanager
    def asking(self, *, insists: bool = False) -> Iterator[None]:
        """Wrap each call to the remote, to learn its `Retry-After`. Raises what `check` raises.

        After a person's call succeeded, the remote is called normally again.
        """
        self.check(insists=insists)
        try:
            yield
        except GitFault as fault:
            if fault.retry_after is not None:
                self._until, self._fault = self._clock() + fault.retry_after, fault
            raise
        self._fault = None


class RejectedHeads:
    """Heads that cannot be fetched within the same limits: they are too large, or Git's checks refuse them."""

    def __init__(self) -> None:
        self._faults: dict[tuple[object, ...], GitFault] = {}

    def check(self, followed: Followed, head: RefHead, source: Source) -> None:
        """Raise the GitFault of the last fetch of this head, if it was rejected."""
        fault = self._faults.get(_attempt(followed, head, source))
        if fault is not None:
            raise fault.with_traceback(None)

    def note(self, followed: Followed, head: RefHead, source: Source, fault: GitFault) -> None:
        """Remember the fault of a fetch, if the head is its cause."""
        if fault.of_head:
            self._faults[_attempt(followed, head, source)] = fault
            for attempt in list(self._faults)[:-MOST_REJECTED]:
                del self._faults[attempt]


def _attempt(followed: Followed, head: RefHead, source: Source) -> tuple[object, ...]:
    return followed, head.commit, head.tag, source.max_bytes, source.max_objects


class Remote:
    """One URL with one set of credentials: the mirror, and the polls that its repositories share.

    `limit` bounds the calls to remotes, `own_limit` the local work in mirrors; `clock` is in seconds; `tally` counts
    the calls to all remotes.
    """

    def __init__(
        self,
        address: Address,
        place: RemotePlace,
        *,
        limit: ConcurrencyLimit,
        own_limit: ConcurrencyLimit,
        clock: Callable[[], float],
        tally: RemoteTally,
    ) -> None:
        self.url, self._credentials = address
        self.host = host_of(self.url)
        self.place = place
        self.sources: frozenset[Source] = frozenset()  # one for each repository that follows it
        self.generation = 0  # grows each time the mirror is made again
        self.is_ready = False  # true once the mirror is there
        self.clock = clock
        self.rest = RetryAfter(clock)
        self.rejected = RejectedHeads()
        self.polled = PollAnswer(float("-inf"), {})  # the last poll
        self._limit = limit
        self._own_limit = own_limit
        self._tally = tally
        self._polling = {insists: asyncio.Lock() for insists in (False, True)}
        self._unfetched: set[Followed] = set()  # refs whose fetch failed: their last poll counts for the next run too
        self._writing = asyncio.Lock()  # held while the mirror is written
        folder = self.source().folder
        program = GitProgram(
            place.home,
            safe_directories=[] if folder is None else [folder],
            url=self.url,
            credentials=self._credentials,
        )
        self._mirror = Mirror(place.mirror, program, url=self.url)
        self._files = BoundedIO(f"the repository {self.url}")
        self._heads: dict[str, RefHead] = {}  # the heads of our refs
        self._reading_facts = asyncio.Lock()  # so that entries with the same commit read it once
        self.facts: dict[str, CommitFacts] = {}  # by commit

    async def poll(self, followed: Followed, *, since: float, insists: bool) -> PollAnswer:
        """Return the commit of a ref, by a poll that began after `since`. Raises GitFault.

        One poll runs at a time; calls that arrive meanwhile share the next one. A person's call, which `insists`, does
        not wait for the other polls. While a Retry-After lasts, only people's calls poll the remote.
        """
        self.rest.check(insists=insists)
        async with self._polling[insists]:
            is_unfetched = followed in self._unfetched
            self._unfetched.discard(followed)
            is_known = followed in self.polled.found
            if is_known and (self.polled.began > since or (is_unfetched and not insists)):
                return self.polled
            return await self._poll(followed, insists=insists)

    async def _poll(self, followed: Followed, *, insists: bool) -> PollAnswer:
        asked = {followed, *(source.follows for source in self.sources if not source.follows.is_fixed)}
        found: Mapping[Followed, RefHead | Exception]
        async with self._limit.slot(self.host, insists=insists):
            await asyncio.sleep(0)  # so that all calls in this turn of the loop share the poll
            began = self.clock()
            try:
                with self._tally.counting(RemoteCall.LOOK):
                    mirror = await self.ready()
                    await self.inspect()
                    with self.rest.asking(insists=insists):
                        found = await mirror.poll(self.source(), asked)
                for result in found.values():
                    if isinstance(result, Exception):
                        self._tally.failed(RemoteCall.LOOK, result)
            except (ReconcilerError, OSError) as fault:
                if isinstance(fault, GitFault) and fault.retry_after is not None:  # `rest` knows the remaining time
                    raise
                found = dict.fromkeys(asked, fault)
        answer = PollAnswer(began, found)
        if began >= self.polled.began:
            self.polled = answer
        return answer

    async def fetch(self, followed: Followed, head: RefHead, *, insists: bool) -> RefHead:
        """Fetch a head with its whole history into the mirror; return the fetched head, maybe a newer one.

        A rejected head is not fetched again, unless a person `insists`: this raises the same GitFault.
        """
        if head.is_held_as(self._heads.get(followed.private_ref)):
            return head
        if not insists:
            self.rejected.check(followed, head, self.source())
        self.rest.check(insists=insists)
        mirror = await self.ready()
        async with self._writing:
            known = self.polled.found.get(followed)
            if isinstance(known, RefHead):
                head = known  # another call polled since, and HEAD may name another branch
            if not head.is_held_as(self._heads.get(followed.private_ref)):
                head = await self._fetch(mirror, followed, head, insists=insists)
            self._heads[followed.private_ref] = head
            await self._drop(mirror)  # only now, because a former ref may lead to the new head
        return head

    async def _fetch(self, mirror: Mirror, followed: Followed, head: RefHead, *, insists: bool) -> RefHead:
        source = self.source()
        async with self._limit.slot(self.host, insists=insists):
            try:
                with self._tally.counting(RemoteCall.FETCH):
                    await self.inspect()
                    with self.rest.asking(insists=insists):
                        came = await mirror.fetch(source, followed, head)
                    await self.inspect()  # it may have been changed during the fetch
            except GitFault as fault:
                self.rejected.note(followed, head, source, fault)
                if fault.transient:  # if a server refuses every second run of git, it would refuse every fetch
                    self._unfetched.add(followed)
                raise
        return came

    def has_head(self, commit: str) -> bool:
        """Return True if one of our refs leads to a commit, so that the mirror holds it."""
        return commit in {held.commit for held in self._heads.values()}

    async def ready(self) -> Mirror:
        """Return the mirror. The first call of a process makes or cleans it; after a fault, the next call tries again.

        Raises GitFault.
        """
        if not self.is_ready:
            async with self._writing:
                if not self.is_ready:
                    await self._mirror.ensure()
                    self._heads = await self._mirror.heads()
                    self.is_ready = True
        return self._mirror

    async def read_facts(self, commit: str) -> None:
        """Read the facts of a commit, once, if the mirror has it. It does not make the mirror. Raises nothing."""
        async with self._reading_facts, self._own_limit.slot(""):
            if commit not in self.facts:
                with suppress(ReconcilerError, OSError):  # the facts stay unknown until the next call
                    self.facts[commit] = await self._mirror.facts(commit)
                for old in list(self.facts)[:-MOST_FACTS]:
                    del self.facts[old]

    def source(self) -> Source:
        """Return the remote with the largest limits of its repositories."""
        plain = Source(url=self.url, credentials=self._credentials)
        every = self.sources or {plain}
        return replace(
            plain,
            timeout=max(source.timeout for source in every),
            max_bytes=max(source.max_bytes for source in every),
            max_objects=max(source.max_objects for source in every),
        )

    async def rebuild(self, generation: int) -> None:
        """Make the mirror again, unless that happened after `generation`: others may have found the same damage."""
        async with self._writing:
            if self.generation == generation:
                self.generation += 1
                self.is_ready = False
                self._heads.clear()
                await self._mirror.rebuild()
                self.is_ready = True

    async def verify(self, head: RefHead, allowed: AllowedSigners) -> None:
        """Check that a head in the mirror is signed by one of these. Raises GitFault, Transient."""
        mirror = await self.ready()
        async with self._own_limit.slot(""):
            await Verification(allowed, mirror=mirror.path, program=mirror.program).verify(head)

    async def inspect(self) -> None:
        """Check the local repository before git opens it, because its owner may have changed it since the last time.

        Raises GitFault unreachable, even if the disk is only slow.
        """
        source = self.source()
        if source.folder is None:
            return
        check = partial(check_repository, self.url, source.folder, state=self.place.state)
        try:
            await self._files.answer(check, seconds=source.timeout)
        except DiskHangs:
            told = f"{self.url} did not answer within {source.timeout:g} seconds; {SLOW_DISK}"
            raise GitFault(RepositoryState.UNREACHABLE, told) from None

    async def _drop(self, mirror: Mirror) -> None:
        """Delete our refs that no source follows any more, even those of a former process."""
        kept = {source.follows.private_ref for source in self.sources}
        dropped = self._heads.keys() - kept
        await mirror.drop(dropped)
        for ref in dropped:
            del self._heads[ref]
