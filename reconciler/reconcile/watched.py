"""A watched repository: its settings made plain, and when to poll it again."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from reconciler.git import refs
from reconciler.git.refs import Followed
from reconciler.git.remotes.credentials import Credentials
from reconciler.git.remotes.sources import Source
from reconciler.model.secret_references import AvailableSecrets

# A watched repository as the reconciler sees it: settings made plain, and the fingerprint of what shapes a read.

READING_VERSION = 2  # grows when this program reads the same bytes in another way: then everything is read again


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedRepository:
    """One entry of `repositories` in the settings, whole: a default would hide what was forgotten. Times are seconds.

    At most one of `branch`, `tag`, `commit` and `ref`, any other full name, is given.
    """

    name: str
    url: str
    branch: str | None
    path: str
    project: str
    interval: float
    full_interval: float
    timeout: float
    prune: bool
    atomic: bool
    suspended: bool
    prune_min_count: int
    prune_max_percent: int
    allowed_kinds: tuple[str, ...]
    allowed_names: tuple[str, ...]
    accept_invalid: bool
    tag: str | None
    commit: str | None
    ref: str | None
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    credentials: Credentials
    signers_file: Path | None
    hook_secret_file: Path | None

    @property
    def follows(self) -> Followed:
        """What of the remote is followed."""
        return refs.following(branch=self.branch, tag=self.tag, commit=self.commit, ref=self.ref)

    @property
    def source(self) -> Source:
        """What it asks of its remote."""
        return Source(url=self.url, follows=self.follows, credentials=self.credentials, timeout=self.timeout)


def watched_origin(watched: WatchedRepository) -> str:
    """A digest of where commits come from: as long as it is the same, a head continues the history before it.

    With which credentials they come does not matter.
    """
    return hashlib.sha256(msgspec.json.encode([watched.url, _followed(watched)])).hexdigest()


def settings_fingerprint(
    watched: WatchedRepository,
    *,
    api_versions: frozenset[str],
    refuse_unknown: bool,
    schemas: str,
    secrets: AvailableSecrets,
) -> str:
    """A digest of all that decides what a commit means: when it changes, the same commit is read again, whole.

    `schemas` is the digest of the schemas that documents are judged by, `secrets` what they may refer to now.
    """
    shaping: list[Any] = [
        READING_VERSION,
        schemas,
        sorted(api_versions),
        refuse_unknown,
        watched.url,
        _followed(watched),
        watched.path,
        watched.include,
        watched.exclude,
        watched.project,
        watched.prune,
        watched.prune_min_count,
        watched.prune_max_percent,
        watched.atomic,
        watched.allowed_kinds,
        watched.allowed_names,
        watched.accept_invalid,
        sorted(secrets.env),
        sorted(secrets.files),
        secrets.flat,
    ]
    return hashlib.sha256(msgspec.json.encode(shaping)).hexdigest()


def _followed(watched: WatchedRepository) -> tuple[str | None, ...]:
    return watched.branch, watched.tag, watched.commit, watched.ref


# When to look again: pure decisions from what is known; waiting is in `loop`. Times are seconds on a monotonic clock.
#
# A run of failures is bounded twice. By itself a repository looks ever more rarely. And whatever happens to it (pushes,
# file events, files with credentials that are written again and again), at most LOOKS looks fall into any WINDOW, so
# that a remote that fails is asked fewer than ten times a minute: one look asks it at most twice. Each time is up to
# four requests over HTTP, so that fewer looks fall into it where a remote answers and only a person can mend what it
# answers. Only a person is not held.

FIRST_RETRY = 2.0
LONGEST_RETRY = 600.0  # jitter included
JITTER = 0.1  # of a delay, so that many repositories do not ask together
LOOKS = 4
LASTING_LOOKS = 3  # of remotes where only a person can mend it: three requests each
UNFIT_LOOKS = 1  # of remotes with a head that no fetch can bring: the look that finds out makes seven requests
WINDOW = 60.0
DOUBLINGS = 20  # more make no difference, and would end beyond what a float holds


@dataclass(frozen=True, slots=True, kw_only=True)
class PollFailure:
    """How a look failed. `may_pass`: without a person's doing. `retry_after`: how long the remote wants to be left.
    `most`: so many such looks in a WINDOW.
    """

    may_pass: bool
    retry_after: float | None = None
    most: int = LOOKS


@dataclass(frozen=True, slots=True, kw_only=True)
class PollPace:
    """How a repository has been doing since its loop began."""

    interval: float
    full_due: float
    is_spread: bool = False  # it was polled at a moment of its own, so that its polls are not with all the others'
    failures: int = 0  # in a row
    last: PollFailure | None = None
    ended: tuple[float, ...] = ()  # when the last looks of this run of failures ended, at most LOOKS
    left_until: float = 0.0  # the remote asked not to be asked sooner


def most_polls(*, may_pass: bool, of_head: bool, is_local: bool) -> int:
    """How many looks that fail like this may fall into a WINDOW; `of_head`: no fetch can bring the head."""
    if may_pass or is_local:
        return LOOKS
    return UNFIT_LOOKS if of_head else LASTING_LOOKS


def after_poll(pace: PollPace, failure: PollFailure | None, *, now: float, asked: bool = False) -> PollPace:
    """The pace after a look that ended now; a success ends a run of failures.

    One that a person `asked` for makes no other look come later: who tries again and again waits no longer for it.
    """
    if failure is None:
        return PollPace(interval=pace.interval, full_due=pace.full_due, is_spread=pace.is_spread)
    return replace(
        pace,
        is_spread=False,  # many may have failed together, and recover together
        failures=max(1, pace.failures + (not asked)),
        last=failure,
        ended=(*pace.ended, now)[-LOOKS:],
        left_until=now + (failure.retry_after or 0.0),
    )


def at_poll(pace: PollPace) -> PollPace:
    """The pace when the delay has passed and a poll is due."""
    return replace(pace, is_spread=not pace.failures)


def poll_delay(pace: PollPace, *, now: float, randomness: float) -> float:
    """Seconds until the next look when nothing happens, at least 0; `randomness` is from 0 up to 1.

    After a failure that may pass it doubles from two seconds to ten minutes, however short the interval; after one that
    only a person can mend, from the interval to ten minutes, or it stays the interval when that is longer. It is never
    less than what the remote asked for. Otherwise it is the interval, give or take a tenth, or what is left until
    everything is to be read again. The first poll after a start or a failure comes anywhere within the interval:
    repositories that were all looked at when the service started would otherwise be polled together for hours.
    """
    if pace.last is not None:
        wait = max(_backoff(pace, pace.last), pace.left_until - now)
        return max(wait + JITTER * randomness * min(wait, LONGEST_RETRY), held_delay(pace, now=now))
    spread = 1 + JITTER * (2 * randomness - 1) if pace.is_spread else randomness
    return max(0.0, min(pace.interval * spread, pace.full_due - now))


def held_delay(pace: PollPace, *, now: float) -> float:
    """Seconds for which whatever happens waits, but for a person's wish: 0 unless looks fail."""
    # From its end: whatever the first of them asked, it asked before.
    most = LOOKS if pace.last is None else pace.last.most
    window_ends = pace.ended[-most] + WINDOW if len(pace.ended) >= most else now
    return max(0.0, window_ends - now, pace.left_until - now)


def _backoff(pace: PollPace, failure: PollFailure) -> float:
    first = FIRST_RETRY if failure.may_pass else max(FIRST_RETRY, pace.interval)
    longest = LONGEST_RETRY / (1 + JITTER) if failure.may_pass else max(LONGEST_RETRY / (1 + JITTER), pace.interval)
    return min(first * float(2 ** min(pace.failures - 1, DOUBLINGS)), longest)
