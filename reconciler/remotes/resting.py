"""Until when a remote wants to be left alone: what it said with `Retry-After`, to whoever asked it; and how it fared
when it was asked last.

Belongs here: remembering it, for all who would ask the same remote. Does not: reading the answer (`http_answers`), and
when each repository looks again.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from reconciler.git.faults import GitFault, RepositoryState

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
    """Whether it is a fault with which a remote asks to be left alone."""
    return isinstance(result, GitFault) and result.retry_after is not None
