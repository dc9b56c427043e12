"""One remote, shared by all repositories that follow it with the same credentials."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from reconciler.git.faults import GitFault
from reconciler.git.refs import Followed, RefHead
from reconciler.git.remotes import polls, verification
from reconciler.git.remotes.concurrency import ConcurrencyLimit, RemoteCall, RemoteTally, SharedAnswer, SharedCalls
from reconciler.git.remotes.credentials import Credentials
from reconciler.git.remotes.local_repositories import Inspector
from reconciler.git.remotes.mirrors import Mirror
from reconciler.git.remotes.polls import FetchBounds, RejectedHeads, RetryAfter
from reconciler.git.remotes.program import GitProgram
from reconciler.git.remotes.sources import Source, host_of
from reconciler.git.remotes.verification import AllowedSigners
from reconciler.model.errors import ReconcilerError

Address: TypeAlias = tuple[str, Credentials]


class RemotePlace(NamedTuple):
    """The folders of a remote: its mirror, and the home of the git program that fills it. Nobody else's.

    Both are in `state`, where no repository on this machine may lead.
    """

    mirror: Path
    home: Path
    state: Path


class Remote:
    """One URL with one set of credentials: the mirror, and the calls that all who follow it share.

    `slots` bounds what asks the remotes, those of one host too, `own_slots` what looks into mirrors alone; `clock` is
    in seconds; `tally` counts what is asked of all remotes.
    """

    def __init__(
        self,
        address: Address,
        place: RemotePlace,
        *,
        slots: ConcurrencyLimit,
        own_slots: ConcurrencyLimit,
        clock: Callable[[], float],
        tally: RemoteTally,
    ) -> None:
        self.place = place
        self.sources: frozenset[Source] = frozenset()  # whoever follows something of it
        self.generation = 0  # grows when the mirror is made anew
        self.clock = clock
        self._address = address
        host = host_of(self.url)
        self._polls = SharedCalls(tally.counted(RemoteCall.LOOK, self._poll), slots=slots, host=host, clock=clock)
        self._fetches = SharedCalls(tally.counted(RemoteCall.FETCH, self._fetch), slots=slots, host=host, clock=clock)
        self._checks = SharedCalls(self._check, slots=own_slots, clock=clock)
        self._known: dict[Followed, SharedAnswer[RefHead]] = {}  # what the last looks told
        self._unfetched: set[Followed] = set()  # what they told counts for the next poll too: the fetch failed
        self._unfit = RejectedHeads()
        self._probe = polls.PollProbe(clock)
        self.rest = RetryAfter(clock)
        self._writing = asyncio.Lock()  # whoever writes the mirror
        self._mirror: Mirror | None = None
        self._inspector: Inspector | None = None  # of a repository on this machine
        self.is_ready = False  # whether the mirror is there
        self._heads: dict[str, RefHead] = {}  # where our refs are

    @property
    def url(self) -> str:
        """Return where it is."""
        return self._address[0]

    async def poll(self, followed: Followed, *, since: float, insists: bool) -> SharedAnswer[RefHead]:
        """Return where a ref is, by a poll that began after `since`.

        A remote that asked to be left alone is not asked again until then, unless somebody `insists`: raises GitFault.
        """
        if insists:
            self._probe.forget()
        with self.rest.waiting(insists=insists):
            known = self._known.get(followed)
            is_unfetched = followed in self._unfetched
            self._unfetched.discard(followed)
            if known is not None and (known.began > since or (is_unfetched and not insists)):
                return known
            answer = await self._polls.ask(followed, since=since, insists=insists)
        if not polls.asks_to_retry_later(answer.result):  # how long still, `rest` knows
            self._known[followed] = answer
        return answer

    async def fetch(self, followed: Followed, head: RefHead, *, insists: bool) -> RefHead:
        """Fetch a head with all its history into the mirror; return the head that it holds, maybe a newer one.

        One that cannot be fetched is not fetched again, unless somebody `insists`: raises the same GitFault.
        """
        if head.is_held_as(self._heads.get(followed.private_ref)):
            return head
        if not insists:
            self._unfit.check(followed, head, self._bounds())
        with self.rest.waiting(insists=insists):
            try:
                return (await self._fetches.ask((followed, head), since=self.clock(), insists=insists)).value()
            except GitFault as fault:
                if fault.transient:  # a server that refuses each second run of git would refuse each fetch
                    self._unfetched.add(followed)
                raise

    def has_head(self, commit: str) -> bool:
        """Return whether the mirror is known to hold a commit, since one of our refs leads to it."""
        return commit in {held.commit for held in self._heads.values()}

    def seen(self) -> list[tuple[float, RefHead]]:
        """Return where what is followed was at the last look of each, and when that began."""
        return [(known.began, known.result) for known in self._known.values() if isinstance(known.result, RefHead)]

    async def ready(self) -> Mirror:
        """The mirror, made once per process and free of what a killed one left; tried again after a fault.

        Raises GitFault.
        """
        mirror = self._opened()
        if not self.is_ready:
            async with self._writing:
                if not self.is_ready:
                    await mirror.ensure()
                    self._heads = await mirror.heads()
                    self.is_ready = True
        return mirror

    def source(self) -> Source:
        """The remote with the widest limits of all who follow something of it."""
        url, credentials = self._address
        every = self.sources or {Source(url=url, credentials=credentials)}
        return Source(
            url=url,
            credentials=credentials,
            timeout=max(source.timeout for source in every),
            max_bytes=max(source.max_bytes for source in every),
            max_objects=max(source.max_objects for source in every),
        )

    async def rebuild(self, generation: int) -> None:
        """Make the mirror anew, unless that happened after `generation`: many meet the same damage."""
        async with self._writing:
            if self.generation == generation:
                self.generation += 1
                self.is_ready = False
                self._heads.clear()
                await self._opened().rebuild()
                self.is_ready = True

    async def verify(self, head: RefHead, allowed: AllowedSigners) -> None:
        """Return when a head that the mirror holds is signed by one of these. Raises GitFault, Transient."""
        (await self._checks.ask((head, allowed), since=self.clock())).value()

    def follow(self, sources: Iterable[Source]) -> None:
        """From now on exactly these follow something of it."""
        self.sources = frozenset(sources)
        kept = {source.follows for source in self.sources}
        self._known = {followed: answer for followed, answer in self._known.items() if followed in kept}
        self._unfit.keep(kept)

    async def close(self) -> None:
        """Nobody follows it any more, and nobody waits for it."""
        await asyncio.gather(self._polls.close(), self._fetches.close(), self._checks.close())
        if self._mirror is not None:
            await self._mirror.program.close()

    # Called by the shared calls, and under the lock where they write

    async def _poll(self, followed: frozenset[Followed]) -> Mapping[Followed, RefHead | Exception]:
        mirror = await self.ready()
        names = {one.full for one in followed}
        await self._inspect(names)
        with self.rest.asking():
            found = await polls.poll(mirror, self.source(), followed, probe=self._probe)
        if any(one not in self._known or self._known[one].result != head for one, head in found.items()):
            await self._inspect(names)  # what is new may come from elsewhere, if it was changed under git's eyes
        return found

    async def _check(
        self, asked: frozenset[tuple[RefHead, AllowedSigners]]
    ) -> Mapping[tuple[RefHead, AllowedSigners], Exception | None]:
        mirror = await self.ready()
        return {(head, allowed): await _verdict(mirror, head, allowed) for head, allowed in asked}

    async def _fetch(
        self, asked: frozenset[tuple[Followed, RefHead]]
    ) -> Mapping[tuple[Followed, RefHead], RefHead | Exception]:
        mirror = await self.ready()
        wanted: dict[Followed, set[RefHead]] = {}
        for followed, head in sorted(asked):
            wanted.setdefault(followed, set()).add(head)
        async with self._writing:
            came = await self._fetch_lacking(mirror, wanted)
            await self._drop(mirror)  # not before: what was followed until now may be where the new one is
        return {(followed, head): came[followed] for followed, head in asked}

    async def _fetch_lacking(
        self, mirror: Mirror, wanted: Mapping[Followed, Collection[RefHead]]
    ) -> Mapping[Followed, RefHead | Exception]:
        came: dict[Followed, RefHead | Exception] = {}
        lacking: dict[Followed, RefHead] = {}
        for followed, heads in wanted.items():
            head = self._newest(followed, heads)
            # Which of several is the newest, the remote knows: the one that the mirror holds may be the oldest.
            is_held = len(heads) == 1 and await self._holds(mirror, followed, head)
            (came if is_held else lacking)[followed] = head
        if lacking:
            await self._inspect({one.full for one in lacking} | {head.ref for head in lacking.values()})
            fetched = await self._fetched(mirror, lacking)
            await self._inspect({one.full for one in lacking})
            self._unfit.note(lacking, fetched, self._bounds())
            came |= fetched
        for followed, result in came.items():
            if isinstance(result, RefHead):
                self._heads[followed.private_ref] = result
        return came

    async def _fetched(
        self, mirror: Mirror, lacking: Mapping[Followed, RefHead]
    ) -> Mapping[Followed, RefHead | Exception]:
        try:
            with self.rest.asking():
                return await mirror.fetch(self.source(), lacking)
        except GitFault as fault:
            if fault.of_head and len(lacking) == 1:
                return dict.fromkeys(lacking, fault)
            raise

    def _newest(self, followed: Followed, heads: Collection[RefHead]) -> RefHead:
        """The head to fetch, of which the ref counts: that of the last look, should the remote's HEAD name another."""
        known = self._known.get(followed)
        return next((head for head in heads if known is not None and head == known.result), min(heads))

    async def _holds(self, mirror: Mirror, followed: Followed, head: RefHead) -> bool:
        """Return whether the mirror holds a head, of which our ref may not know yet."""
        if head.is_held_as(self._heads.get(followed.private_ref)):
            return True
        is_known = followed.is_fixed or self.has_head(head.commit)
        return is_known and not head.tag and await mirror.adopt(followed, head.commit)

    async def _inspect(self, refs: Collection[str]) -> None:
        """Judge what git is about to open, which whoever owns the repository may have changed since the last time."""
        if self._inspector is not None:
            await self._inspector.inspect(sorted(refs), seconds=self.source().timeout)

    async def _drop(self, mirror: Mirror) -> None:
        """Drop our refs that none of the sources follows any more, those of a former process included."""
        kept = {source.follows.private_ref for source in self.sources}
        dropped = self._heads.keys() - kept
        await mirror.drop(dropped)
        for ref in dropped:
            del self._heads[ref]

    def _opened(self) -> Mirror:
        if self._mirror is None:
            url, credentials = self._address
            folder = self.source().folder
            safe = [] if folder is None else [folder]
            self._inspector = None if folder is None else Inspector(url, folder, state=self.place.state)
            program = GitProgram(self.place.home, safe_directories=safe, url=url, credentials=credentials)
            self._mirror = Mirror(self.place.mirror, program, url=url)
        return self._mirror

    def _bounds(self) -> FetchBounds:
        source = self.source()
        return FetchBounds(source.max_bytes, source.max_objects)


async def _verdict(mirror: Mirror, head: RefHead, allowed: AllowedSigners) -> Exception | None:
    """Return what a head that is not good has against it, which is nobody else's fault."""
    try:
        await verification.verify_head(head, allowed, mirror=mirror.path, program=mirror.program)
    except ReconcilerError as fault:
        return fault
    return None
