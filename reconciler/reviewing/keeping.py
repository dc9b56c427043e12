"""The plans that were made, as long as there is room for them: in memory, and gone at a restart.

Belongs here: what is kept of a plan, what it answers, and which go first. Does not: whether it still holds (`asking`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.model.plan import PlanTip
from reconciler.model.secret_references import AvailableSecrets
from reconciler.reconcile.watched import WatchedRepository
from reconciler.reviewing.encoding import EncodedPlan

MOST = 200  # plans of the whole service
MOST_BYTES = 64 << 20  # 64 MiB, of all of them
OF_ONE = 2_000  # bytes of a plan beside what was found, roughly


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """What was asked of a repository, as it is watched: to merge `head` into `base`, both where they were found.

    `secrets` are the names that its project could refer to then.
    """

    watched: WatchedRepository
    base: PlanTip
    head: PlanTip
    secrets: AvailableSecrets


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """A plan. `revision` is that of the store, `created_at` an instant as RFC 3339 text; the rest as `Plan` has it."""

    id: str
    question: PlanQuestion
    digest: str
    revision: int
    created_at: str
    merge_base: str
    behind: int
    ahead: int
    found: EncodedPlan

    @property
    def repository(self) -> str:
        """The repository's name."""
        return self.question.watched.name

    @property
    def project(self) -> str:
        """The project that the repository filled then."""
        return self.question.watched.project

    @property
    def size(self) -> int:
        """The bytes that it takes."""
        return OF_ONE + self.found.size


class PlanShelf:
    """Plans by their ids, the oldest first to go."""

    def __init__(self, *, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._kept: dict[str, KeptPlan] = {}  # in the order in which they were made
        self._answers: dict[tuple[PlanQuestion, int], str] = {}
        self._bytes = 0

    def put(self, made: KeptPlan) -> None:
        """Keep a plan, and let the oldest go for it; one that is larger than all there is room for is not kept."""
        if made.size > self._most_bytes:
            return
        while len(self._kept) >= self._most or self._bytes + made.size > self._most_bytes:
            self._drop(next(iter(self._kept)))
        self._kept[made.id] = made
        self._answers[made.question, made.revision] = made.id
        self._bytes += made.size

    def get(self, plan: str) -> KeptPlan | None:
        """The plan of an id."""
        return self._kept.get(plan)

    def find(self, question: PlanQuestion, *, revision: int) -> KeptPlan | None:
        """The plan that answers a question as of a revision of the store."""
        return self._kept.get(self._answers.get((question, revision), ""))

    def newest(self) -> Iterator[KeptPlan]:
        """Every plan, newest first."""
        return reversed(list(self._kept.values()))

    def _drop(self, plan: str) -> None:
        gone = self._kept.pop(plan)
        self._bytes -= gone.size
        if self._answers.get((gone.question, gone.revision)) == plan:
            del self._answers[gone.question, gone.revision]
