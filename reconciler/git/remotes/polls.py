"""Polling a remote: `git ls-remote` tells where refs are. Nothing is fetched, nothing is written.

Here is also the memory of a remote between polls: where refs were, until when it wants to be left alone, and which
heads no fetch can get.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from reconciler.git import refs
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import Followed, Listing, RefHead, RefKind
from reconciler.git.remotes import errors
from reconciler.git.remotes.mirrors import Mirror
from reconciler.git.remotes.program import Limits
from reconciler.git.remotes.sources import Source

MOST_ASKED = 256  # names in one command line, so that it stays below what the system takes
HAS_COMMITS = "HEAD"  # asked for with all else: in most remotes it tells that they are not empty, without another call
PROBED_SECONDS = 60.0
PROBE_BYTES = 64 * 1024  # enough refs to know that there are some
SHA256_CHARACTERS = 64


class PollProbe:
    """Of one remote: whether it is empty, which is a call of its own. Its answer holds for PROBED_SECONDS, or until
    something is found; `clock` is in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: tuple[float, bool] | None = None  # until when, and whether it is

    def forget(self) -> None:
        """Ask again the next time."""
        self._known = None

    async def is_empty(self, mirror: Mirror, source: Source) -> bool:
        """Return whether it has no ref at all. Raises GitFault."""
        if self._known is None or self._clock() >= self._known[0]:
            output = await mirror.ask(source, "ls-remote", "--", source.operand, output_bytes=PROBE_BYTES)
            # To ask a folder here costs nobody anything.
            self._known = self._clock() + (0 if source.is_local else PROBED_SECONDS), not output.stdout
        return self._known[1]


async def poll(
    mirror: Mirror, source: Source, followed: Collection[Followed], *, probe: PollProbe
) -> Mapping[Followed, RefHead | Exception]:
    """Return where each is, or the fault that is its own: branch-missing, empty, unsupported-format.

    Raises GitFault for what concerns them all. `source` gives the URL and the limits.
    """
    found: dict[Followed, RefHead | Exception] = {}
    has_commits = False
    asked = sorted(followed)
    for first in range(0, len(asked), MOST_ASKED):
        part = asked[first : first + MOST_ASKED]
        listed = await _listed(mirror, source, part)
        has_commits = has_commits or bool(listed.refs)
        heads = ((one, one.found(listed)) for one in part)
        found |= {one: _judged(source, head) for one, head in heads if head is not None}
    lacking = [one for one in asked if one not in found]
    if has_commits:
        probe.forget()
    is_empty = bool(lacking) and not has_commits and await probe.is_empty(mirror, source)
    return found | {one: await _absent(mirror, source, one, is_empty=is_empty) for one in lacking}


async def _listed(mirror: Mirror, source: Source, asked: Collection[Followed]) -> Listing:
    patterns = dict.fromkeys(pattern for one in asked for pattern in (*one.patterns, HAS_COMMITS))
    output = await mirror.ask(source, "ls-remote", "--symref", "--", source.operand, *patterns)
    if output.truncated:
        raise GitFault(
            RepositoryState.UNSUPPORTED_FORMAT,
            f"{source.url} has too many refs whose names end like what is followed; remove some of them",
        )
    return refs.parse_listing(output.stdout)


def _judged(source: Source, head: RefHead) -> RefHead | Exception:
    if len(head.commit) == SHA256_CHARACTERS:
        return GitFault(
            RepositoryState.UNSUPPORTED_FORMAT,
            f"{source.url} uses SHA-256 object names, which are not supported; convert it to SHA-1",
        )
    return head


async def _absent(mirror: Mirror, source: Source, one: Followed, *, is_empty: bool) -> GitFault:
    """Why a look did not find it: there is no commit at all, or not this name."""
    if is_empty:
        return GitFault(RepositoryState.EMPTY, f"{source.url} has no commit yet; commit something to it")
    return await _no_head(mirror, source) if one.kind is RefKind.HEAD else errors.missing(source, one)


async def _no_head(mirror: Mirror, source: Source) -> GitFault:
    unborn = await _unborn(mirror, source)
    return GitFault(
        RepositoryState.BRANCH_MISSING,
        f"the HEAD of {source.url} names {unborn}, which does not exist; name another with `branch`",
    )


async def _unborn(mirror: Mirror, source: Source) -> str:
    """The branch that a HEAD without commit names: `ls-remote` does not tell, and only a folder here can be asked."""
    if source.folder is not None:
        limits = Limits(seconds=source.timeout)
        arguments = ("-C", str(source.folder), "symbolic-ref", "--short", "HEAD")
        with contextlib.suppress(TimeoutError):
            output = await mirror.program.run(*arguments, limits=limits)
            name = output.stdout.decode("utf-8", "replace").strip()
            if output.status == 0 and name.isprintable():
                return f"the branch {name}"
    return "a branch"


# Where refs were when somebody last looked, so that asking whether they moved costs a remote next to nothing.

SECONDS = 30.0  # between two looks for this alone, and how long what was seen counts
MOST = 256  # refs that are remembered and asked for in one look


class RefTip(NamedTuple):
    """The commit of a ref; None when there was no such ref. `at`: when the poll began."""

    at: float
    commit: str | None


class RefCache:
    """Of one remote. `clock` is in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[str, RefTip] = {}  # those that were asked for last come last
        self._asked = float("-inf")

    def note(self, ref: str, commit: str | None, *, at: float) -> None:
        """Somebody looked."""
        known = self._known.get(ref)
        if known is None or known.at <= at:
            self._known[ref] = RefTip(at, commit)
        while len(self._known) > MOST:
            del self._known[next(iter(self._known))]

    def are_due(self, wanted: Collection[str]) -> bool:
        """Return whether to look again on behalf of these."""
        now = self._clock()
        is_old = any(ref not in self._known or now - self._known[ref].at >= SECONDS for ref in wanted)
        return is_old and now - self._asked >= SECONDS

    def begin(self, wanted: Collection[str]) -> list[str]:
        """A look begins now: the refs that it is to ask for, these and as many of all others as fit."""
        self._asked = self._clock()
        newest = [ref for ref in reversed(self._known) if ref not in wanted]
        return sorted([*sorted(wanted), *newest][:MOST])

    def told(self, wanted: Collection[str]) -> dict[str, str | None]:
        """Return where they were, in the order of their names; without those of which nothing is known."""
        found = {ref: self._known.pop(ref) for ref in sorted(wanted) if ref in self._known}
        self._known |= found  # as the newest
        return {ref: tip.commit for ref, tip in found.items()}


# Until when a remote wants to be left alone: what it said with `Retry-After`, to whoever asked it; and how it fared
# when it was asked last.

OF_ALL = frozenset(
    {RepositoryState.UNREACHABLE, RepositoryState.UNAUTHORIZED}
)  # states that say how the remote fares, not what it has


class RetryAfter:
    """Of one remote. `clock` is in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until = float("-inf")
        self._fault: GitFault | None = None
        self._met: tuple[float, GitFault] | None = None  # when it was asked last, should that have failed
        self._insisting = 0  # how many wait for an answer however much it wants to be left alone

    @contextmanager
    def waiting(self, *, insists: bool) -> Iterator[None]:
        """Around waiting for an answer. Raises GitFault as `asking` does, not to who `insists`."""
        self._insisting += insists
        try:
            self._check()
            yield
        finally:
            self._insisting -= insists

    def check(self, *, pause: float) -> None:
        """Raise the GitFault that the remote was asked in vain with less than `pause` seconds ago, or as `asking`."""
        self._check()
        if self._met is not None and self._clock() - self._met[0] < pause:
            raise self._met[1].with_traceback(None)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Around whatever asks the remote, to hear how long it wants to be left alone. While it does, and nobody who
        waits insists, raises GitFault with what is left of that. Once it gave somebody who insists what it was asked
        for, it does no more.
        """
        self._check()
        before = self._fault
        try:
            yield
        except GitFault as fault:
            if asks_to_retry_later(fault):
                self._until, self._fault = self._clock() + (fault.retry_after or 0), fault
            self._met = (self._clock(), fault) if fault.state in OF_ALL and not fault.of_head else None
            raise
        self._met = None
        if self._fault is before:  # else it was asked before it said so
            self._fault = None

    def _check(self) -> None:
        left = self._until - self._clock()
        if self._fault is not None and left > 0 and not self._insisting:
            fault = self._fault
            raise GitFault(fault.state, fault.message, retry_after=left, lasting=fault.lasting)


def asks_to_retry_later(result: object) -> bool:
    """Return whether it is a fault with which a remote asks to be left alone."""
    return isinstance(result, GitFault) and result.retry_after is not None


# Heads that a fetch cannot bring, however often it is made: too much, or what Git's checks refuse.


class FetchBounds(NamedTuple):
    """The bounds of a fetch: with wider ones, a head that was too large is fetched again."""

    bytes: int
    objects: int


class RejectedHeads:
    """Of one remote: of each that is followed the last head, should it be one."""

    def __init__(self) -> None:
        self._known: dict[Followed, tuple[RefHead, FetchBounds, GitFault]] = {}

    def check(self, followed: Followed, head: RefHead, bounds: FetchBounds) -> None:
        """Raise the GitFault that the fetch of this head within these bounds ended in, if it was one of the head."""
        known = self._known.get(followed)
        if known is not None and head.is_held_as(known[0]) and bounds == known[1]:
            raise known[2].with_traceback(None)

    def note(
        self, wanted: Mapping[Followed, RefHead], came: Mapping[Followed, RefHead | Exception], bounds: FetchBounds
    ) -> None:
        """Remember what a fetch of these heads ended in."""
        for followed, head in wanted.items():
            result = came.get(followed)
            if isinstance(result, GitFault) and result.of_head:
                self._known[followed] = head, bounds, result
            else:
                self._known.pop(followed, None)

    def keep(self, followed: Collection[Followed]) -> None:
        """Forget all but what is followed of these."""
        self._known = {one: known for one, known in self._known.items() if one in followed}
