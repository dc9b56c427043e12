"""When to poll a repository again: pure decisions from what is known; `loop` waits. Times are seconds on a monotonic
clock.

Failures are bounded twice. Each failure in a row doubles the delay of the next poll. And whatever happens to a
repository (pushes, file events, files with credentials that are written again and again), at most MOST failing polls
fall into any WINDOW, so that a remote that fails gets fewer than ten calls a minute: a poll makes two at most. Over
HTTP, a call is up to four requests, so fewer polls fall into it where a remote answers and only a person can correct
what it answers. Only a person's request is not delayed. After a correction, new credentials or a hook with a right
signature, a poll comes at once, at most MOST times in a WINDOW.
"""

from dataclasses import dataclass, replace

from reconciler.git.faults import GitFault
from reconciler.model.errors import ReconcilerError, Transient

FIRST_RETRY = 2.0
LONGEST_RETRY = 600.0  # jitter included
JITTER = 0.1  # of a delay, so that many repositories do not poll together
MOST = 4  # failing polls in a WINDOW
MOST_LASTING = 3  # of remotes where only a person can correct it: three requests each
MOST_OF_HEAD = 1  # of remotes with a head that no fetch can get: the poll that finds out makes seven requests
WINDOW = 60.0
DOUBLINGS = 20  # more make no difference, and would end beyond what a float holds


@dataclass(frozen=True, slots=True, kw_only=True)
class PollFailure:
    """How a poll, or what followed from it, failed.

    `may_pass`: without a person. `retry_after`: how long the remote asks not to be called. `most`: at most so many such
    polls in a WINDOW.
    """

    may_pass: bool
    retry_after: float | None = None
    most: int = MOST


@dataclass(frozen=True, slots=True, kw_only=True)
class PollPace:
    """How the polls of a repository went since its loop began."""

    interval: float
    full_due: float  # when everything is read again
    is_spread: bool = False  # its polls have a moment of their own within the interval
    failures: int = 0  # in a row
    last: PollFailure | None = None
    ended: tuple[float, ...] = ()  # when the last polls of these failures ended, at most MOST
    corrected: tuple[float, ...] = ()  # when the last corrections were acted on, at most MOST
    left_until: float = 0.0  # the remote asked not to be called sooner


def poll_failure(fault: ReconcilerError | None, *, is_local: bool) -> PollFailure | None:
    """How a run failed, or None; `is_local`: its remote is on this machine, and may be polled as often as any."""
    if not isinstance(fault, GitFault):
        return None if fault is None else PollFailure(may_pass=isinstance(fault, Transient))
    most = MOST
    if not fault.transient and not is_local:
        most = MOST_OF_HEAD if fault.of_head else MOST_LASTING
    return PollFailure(may_pass=fault.transient, retry_after=fault.retry_after, most=most)


def after_poll(pace: PollPace, failure: PollFailure | None, *, now: float, asked: bool = False) -> PollPace:
    """The pace after a poll that ended now; a success ends a run of failures.

    A poll that a person `asked` for does not lengthen the delay: to try again and again costs no waiting.
    """
    if failure is None:
        return PollPace(interval=pace.interval, full_due=pace.full_due, is_spread=pace.is_spread)
    return replace(
        pace,
        is_spread=False,  # many may have failed together, and recover together
        failures=max(1, pace.failures + (not asked)),
        last=failure,
        ended=(*pace.ended, now)[-MOST:],
        left_until=now + (failure.retry_after or 0.0),
    )


def at_poll(pace: PollPace) -> PollPace:
    """The pace when the delay has passed and a poll is due."""
    return replace(pace, is_spread=not pace.failures)


def at_correction(pace: PollPace, *, now: float) -> PollPace:
    """The pace when a poll begins because of a correction."""
    return replace(pace, corrected=(*pace.corrected, now)[-MOST:])


def poll_delay(pace: PollPace, *, now: float, randomness: float) -> float:
    """Seconds until the next poll when nothing happens, at least 0; `randomness` is from 0 up to 1.

    After a failure that may pass it doubles from two seconds to ten minutes, however short the interval; after one that
    only a person can correct, from the interval to ten minutes, or it stays the interval when that is longer. It is
    never less than what the remote asked for. Otherwise it is the interval, give or take a tenth, or what is left until
    everything is read again. The first poll after a start or a failure comes anywhere within the interval:
    repositories that were all polled when the service started would otherwise be polled together for hours.
    """
    if pace.last is not None:
        wait = max(_backoff(pace, pace.last), pace.left_until - now)
        return max(wait + JITTER * randomness * min(wait, LONGEST_RETRY), event_delay(pace, now=now))
    spread = 1 + JITTER * (2 * randomness - 1) if pace.is_spread else randomness
    return max(0.0, min(pace.interval * spread, pace.full_due - now))


def event_delay(pace: PollPace, *, now: float, is_correction: bool = False) -> float:
    """Seconds for which an event waits: 0 unless polls fail. A person's request does not wait.

    A correction waits only for other corrections, and for as long as the remote asked.
    """
    # From the end of a poll: whatever the first of them asked, it asked before.
    most = MOST if pace.last is None or is_correction else pace.last.most
    before = pace.corrected if is_correction else pace.ended
    window_ends = before[-most] + WINDOW if len(before) >= most else now
    return max(0.0, window_ends - now, pace.left_until - now)


def _backoff(pace: PollPace, failure: PollFailure) -> float:
    first = FIRST_RETRY if failure.may_pass else max(FIRST_RETRY, pace.interval)
    longest = LONGEST_RETRY / (1 + JITTER) if failure.may_pass else max(LONGEST_RETRY / (1 + JITTER), pace.interval)
    return min(first * float(2 ** min(pace.failures - 1, DOUBLINGS)), longest)
