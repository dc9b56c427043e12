"""What the ends of reader children teach: which files, commits and proposals end one, and how long to wait with the
next.

Belongs here: remembering, in memory and bounded; nothing is asked of a clock. Does not: processes (`children`), nor
what is done with a job (`client`).
"""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from msgspec.structs import replace

from reconciler.reading.messages import CommitJob, ReviewJob

TWICE = 2  # ends of a child over one file, until the file is set aside
MOST_FILES = 1_000  # remembered, each by its blob: a file that changed is another one
MOST_COMMITS = 1_000
REFUSED_SECONDS = 3600.0  # until a commit that took more than one may is tried again, which may take minutes

WINDOW_SECONDS = 60.0
FIRST_PAUSE = 0.25
LONGEST_PAUSE = 5.0

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Read = TypeVar("Read", bound=CommitJob | ReviewJob)

ANEW = frozenset({"context", "run", "full", "aside", "careful"})  # of a job: what each try has anew


class RecentCrashes(Generic[K, V]):
    """What is known of the latest few; whatever is over `most` is forgotten, the oldest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """What is known of one."""
        return self._known.get(key)

    def put(self, key: K, value: V) -> None:
        """It is the newest from now on."""
        self._known.pop(key, None)
        self._known[key] = value
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]

    def drop(self, key: K) -> None:
        """Forget one."""
        self._known.pop(key, None)

    def items(self) -> list[tuple[K, V]]:
        """All of them, the oldest first."""
        return list(self._known.items())


class CrashMemory:
    """Which files ended children, and which commits and proposals are read apart from all others for it."""

    def __init__(self) -> None:
        self._ends: RecentCrashes[str, int] = RecentCrashes(MOST_FILES)  # by blob
        self._suspects: RecentCrashes[Hashable, bool] = RecentCrashes(MOST_COMMITS)  # by what is read
        self._refused: RecentCrashes[Hashable, tuple[str, float]] = RecentCrashes(
            MOST_COMMITS
        )  # by what is read, and how

    def prepared(self, job: Read, *, careful: bool) -> Read:
        """The job, with the files that are set aside."""
        aside = frozenset(blob for blob, ends in self._ends.items() if ends >= TWICE)
        if isinstance(job, ReviewJob):
            return replace(job, commit=replace(job.commit, aside=aside, careful=careful))
        return replace(job, aside=aside, careful=careful)

    def ended_at(self, blob: str) -> None:
        """A child ended while it read this file, and nothing else was under way in it."""
        self._ends.put(blob, (self._ends.get(blob) or 0) + 1)

    def suspect(self, job: CommitJob | ReviewJob) -> None:
        """A child ended, or had to be ended, while it worked on this."""
        self._suspects.put(_head(job), True)

    def trust(self, job: CommitJob | ReviewJob) -> None:
        """It was planned to its end."""
        self._suspects.drop(_head(job))

    def is_suspect(self, job: CommitJob | ReviewJob) -> bool:
        """Whether a child ended, or had to be ended, while it worked on this."""
        return self._suspects.get(_head(job)) is not None

    def is_for_one_apart(self, job: CommitJob | ReviewJob) -> bool:
        """Whether it is to be read apart from all others; a proposal with its base, of which it holds most."""
        return self.is_suspect(job) or (isinstance(job, ReviewJob) and self.is_suspect(job.commit))

    def refuse(self, job: CommitJob | ReviewJob, message: str, *, now: float) -> None:
        """It took more than one may, or ends what reads it."""
        self._refused.put(_question(job), (message, now + REFUSED_SECONDS))

    def refusal(self, job: CommitJob | ReviewJob, *, now: float) -> str | None:
        """Why it need not be tried, while that is so. Read by other settings it is another question."""
        message, until = self._refused.get(_question(job)) or (None, now)
        return message if now < until else None


class RestartPace:
    """How long to wait before another child is started. Times are seconds on a monotonic clock."""

    def __init__(self) -> None:
        self.ends = 0
        self._latest: deque[float] = deque(maxlen=10)

    def ended(self, *, now: float) -> None:
        """A child ended unasked."""
        self.ends += 1
        self._latest.append(now)

    def pause(self, *, now: float) -> float:
        """Seconds from now: none after the first end within a minute, then a quarter, doubling up to five."""
        ends = sum(1 for end in self._latest if now - end < WINDOW_SECONDS)
        if ends < TWICE:
            return 0.0
        wait = min(LONGEST_PAUSE, FIRST_PAUSE * float(2 ** (ends - TWICE)))
        return max(0.0, self._latest[-1] + wait - now)


def _head(job: CommitJob | ReviewJob) -> Hashable:
    """What is read: a commit, or a proposal, whatever it is merged into."""
    if isinstance(job, ReviewJob):
        return ("proposal", job.commit.mirror, job.head, job.commit.path)
    return (job.mirror, job.commit, job.path)


def _question(job: CommitJob | ReviewJob) -> Hashable:
    """What is read, and what decides how much that takes: the settings, and what a proposal is merged into. Of that all
    is read where somebody chose it, or where it was read by other settings.
    """
    commit = job.commit if isinstance(job, ReviewJob) else job
    whole = (job.followed, commit.full) if isinstance(job, ReviewJob) else ()
    return (_head(job), *whole, *(getattr(commit, name) for name in commit.__struct_fields__ if name not in ANEW))
