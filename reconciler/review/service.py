"""Plans by the running service: shared answers, and plans that become stale."""

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from reconciler.git.remotes.proposals import Proposal
from reconciler.model import ids
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.errors import Transient
from reconciler.model.plan import PlanTip
from reconciler.model.secret_references import AvailableSecrets
from reconciler.reconcile.apply import Applier
from reconciler.reconcile.reconciler import Reconciler
from reconciler.reconcile.repositories import Repositories
from reconciler.review import kept_plans
from reconciler.review.kept_plans import KeptPlan, PlanQuestion, PlanRequest, PlanShelf, TookTooLong, UnknownProposal
from reconciler.settings.bounded_io import DiskHangs
from reconciler.store.contract import Store
from reconciler.worker.messages import Context, ReviewJob, ReviewPlanned

# Whether plans still hold: what each was made of, held against what there is now.
#
# A plan is stale as soon as the same question could be answered otherwise. Of a ref of which nothing is known, since
# its remote does not answer in time, nothing is said; nor of secrets whose disk does not.

LOOK_SECONDS = 5.0  # for remotes to say where refs are, should that not be known, and for disks which secrets there are


async def staleness_of(
    plans: Sequence[KeptPlan], *, repositories: Repositories, revision: int, applier: Applier
) -> list[bool]:
    """Whether each is stale, as of a revision of the store."""
    projects, names = sorted({plan.project for plan in plans}), sorted({plan.repository for plan in plans})
    available, found = await asyncio.gather(
        asyncio.gather(*(_secrets(project, applier) for project in projects)),
        asyncio.gather(*(_tips(name, plans, repositories) for name in names)),
    )
    secrets, tips = dict(zip(projects, available, strict=True)), dict(zip(names, found, strict=True))
    return [
        plan.revision != revision
        or secrets[plan.project] not in (None, plan.question.secrets)
        or _is_other(plan, tips[plan.repository], repositories)
        for plan in plans
    ]


async def _secrets(project: str, applier: Applier) -> AvailableSecrets | None:
    """What plans of a project may refer to now; None when its disk does not say so in time."""
    with contextlib.suppress(TimeoutError, DiskHangs):
        async with asyncio.timeout(LOOK_SECONDS):
            return await applier.secrets(project)
    return None


async def _tips(name: str, plans: Sequence[KeptPlan], repositories: Repositories) -> Mapping[str, str | None]:
    """Where the refs are that plans of a repository were made of."""
    reconciler = repositories.reconciler(name)
    if reconciler is None:
        return {}
    sides = [side for plan in plans if plan.repository == name for side in (plan.question.base, plan.question.head)]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LOOK_SECONDS):
            return await reconciler.proposing.tips({side.ref for side in sides if not _is_fixed(side)})
    return {}


def _is_other(plan: KeptPlan, tips: Mapping[str, str | None], repositories: Repositories) -> bool:
    """Whether the repository is watched in another way, or a side of the plan is somewhere else."""
    reconciler = repositories.reconciler(plan.repository)
    if reconciler is None or reconciler.watched != plan.question.watched:
        return True
    return any(_has_moved(side, tips) for side in (plan.question.base, plan.question.head))


def _has_moved(side: PlanTip, tips: Mapping[str, str | None]) -> bool:
    return not _is_fixed(side) and tips.get(side.ref, side.commit) != side.commit


def _is_fixed(side: PlanTip) -> bool:
    """A commit that was named by its id."""
    return side.ref == side.commit


# Questions that take their time: who asks the same shares one answer, and those about one thing take turns.

Answer = TypeVar("Answer")


class TooManyQuestions(Transient):
    """More wait already than may; the same question may pass later."""


@dataclass(slots=True, eq=False)
class _Work(Generic[Answer]):
    task: "asyncio.Task[Answer]"
    waiters: int = 0


class SharedQuestions(Generic[Answer]):
    """Work under way, by its question."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, _Work[Answer]] = {}

    async def ask(self, question: Hashable, work: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        """The answer of the work that is under way for the question, or of new work. Raises what the work does.

        When all who wait are cancelled, the work is too, and the last of them waits for its end.
        """
        joined = self._under_way.get(question) or self._begin(question, work)
        joined.waiters += 1
        try:
            return await asyncio.shield(joined.task)
        finally:
            joined.waiters -= 1
            if not joined.waiters:
                await self._end(question, joined)

    def _begin(self, question: Hashable, work: Callable[[], Coroutine[Any, Any, Answer]]) -> _Work[Answer]:
        begun = _Work(asyncio.create_task(work(), name="question"))
        self._under_way[question] = begun
        # What is over answers nobody who asks later: the world may be another one by then.
        begun.task.add_done_callback(lambda _: self._forget(question, begun))
        return begun

    async def _end(self, question: Hashable, left: _Work[Answer]) -> None:
        self._forget(question, left)
        left.task.cancel()
        await asyncio.wait({left.task})
        if not left.task.cancelled():
            left.task.exception()  # nobody else may ask for it, and asyncio would complain of that

    def _forget(self, question: Hashable, ended: _Work[Answer]) -> None:
        if self._under_way.get(question) is ended:
            del self._under_way[question]


class QuestionTurns:
    """One at a time for each name, in the order of asking. `most_waiting` bounds those that wait, of all names."""

    def __init__(self, *, most_waiting: int) -> None:
        self._most = most_waiting
        self._waiting = 0
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """Be the only one of the name. Raises Crowded."""
        if self._users[name] and self._waiting >= self._most:
            raise TooManyQuestions("Too many plans are asked for at once; ask again in a moment.")
        self._users[name] += 1
        lock = self._locks.setdefault(name, asyncio.Lock())
        try:
            await self._wait(lock, has_company=self._users[name] > 1)
            try:
                yield
            finally:
                lock.release()
        finally:
            self._leave(name)

    async def _wait(self, lock: asyncio.Lock, *, has_company: bool) -> None:
        self._waiting += has_company
        try:
            await lock.acquire()
        finally:
            self._waiting -= has_company

    def _leave(self, name: str) -> None:
        self._users[name] -= 1
        if not self._users[name]:
            del self._users[name], self._locks[name]


# What would merging a proposal do, asked of the running service: against its own store, by the settings in force.

MOST_WAITING = 4  # questions of the whole service that wait behind another one about their repository
GRACE = 60.0  # seconds for planning, on top of what the remote of the repository may take


class Reviewing:
    """The plans of the service. Not safe for threads: everything happens on the event loop."""

    def __init__(
        self,
        repositories: Repositories,
        *,
        store: Store,
        applier: Applier,
        clock: Clock,
        randomness: Callable[[int], bytes] = os.urandom,
        shelf: PlanShelf | None = None,
        grace: float = GRACE,
    ) -> None:
        self._repositories = repositories
        self._store = store
        self._applier = applier
        self._clock = clock
        self._randomness = randomness
        self._shelf = shelf or PlanShelf()
        self._grace = grace
        self._shared: SharedQuestions[KeptPlan] = SharedQuestions()
        self._turns = QuestionTurns(most_waiting=MOST_WAITING)
        self._begun: set[asyncio.Task[KeptPlan]] = set()  # what the worker works on

    async def plan(self, asked: PlanRequest) -> KeptPlan:
        """What merging would do now. Who asks the same meanwhile shares the answer, and so does who asks it again as
        long as nothing moved.

        Raises Unknown, `proposable.NotFound`, Unmergeable, Crowded, TookTooLong, GitFault, StoreFault, WorkerGone,
        Overdue, Busy, Hangs, and Refused for a name that is none and for what the worker cannot plan.
        """
        return await self._shared.ask(asked, partial(self._in_time, asked))

    def get(self, plan: str) -> KeptPlan | None:
        """A plan that was made, by its id; None when it is not kept any more, or never was."""
        return self._shelf.get(plan)

    def newest(self) -> list[KeptPlan]:
        """Every plan that is kept, newest first."""
        return list(self._shelf.newest())

    async def are_stale(self, plans: Sequence[KeptPlan]) -> list[bool]:
        """Whether each would be another one now, as far as that was looked at. Raises StoreFault."""
        return await staleness_of(
            plans, repositories=self._repositories, revision=await self._store.revision(), applier=self._applier
        )

    async def _in_time(self, asked: PlanRequest) -> KeptPlan:
        seconds = self._reconciler(asked).watched.timeout + self._grace
        limit = asyncio.timeout(seconds)
        try:
            async with limit, AsyncExitStack() as turn:
                await turn.enter_async_context(self._turns.turn(asked.repository))
                return await self._planned(self._reconciler(asked), asked, turn)
        except TimeoutError:
            if not limit.expired():
                raise
            raise TookTooLong(
                f"There was no plan of {asked.repository} within {seconds:g} seconds; the service may be busy with "
                "other work, so ask again in a moment."
            ) from None

    def _reconciler(self, asked: PlanRequest) -> Reconciler:
        found = self._repositories.reconciler(asked.repository)
        if found is None:
            raise UnknownProposal("There is no such repository.")
        return found

    async def _planned(self, reconciler: Reconciler, asked: PlanRequest, turn: AsyncExitStack) -> KeptPlan:
        watched = reconciler.watched
        proposed = await reconciler.proposing.propose(asked.head, base=asked.base)
        question = PlanQuestion(
            watched,
            base=PlanTip(ref=proposed.base_ref, commit=proposed.base),
            head=PlanTip(ref=proposed.head_ref, commit=proposed.head),
            secrets=await self._applier.secrets(watched.project),
        )
        kept = self._shelf.find(question, revision=await self._store.revision())
        return kept or await self._to_its_end(self._review(reconciler, question, proposed), turn.pop_all())

    async def _to_its_end(self, work: Coroutine[None, None, KeptPlan], turn: AsyncExitStack) -> KeptPlan:
        """What the worker has begun cannot be called back. It keeps its turn, so that those who ask and leave do not
        pile up there, and its plan is kept for who asks again.
        """

        async def made() -> KeptPlan:
            async with turn:
                return await work

        begun = asyncio.create_task(made(), name="review")
        self._begun.add(begun)
        begun.add_done_callback(self._ended)
        return await asyncio.shield(begun)

    def _ended(self, ended: "asyncio.Task[KeptPlan]") -> None:
        self._begun.discard(ended)
        if not ended.cancelled():
            ended.exception()  # nobody may be left to be told, and asyncio would complain of that

    async def _review(self, reconciler: Reconciler, question: PlanQuestion, proposed: Proposal) -> KeptPlan:
        plan, told = self._new_id(), question.secrets

        def job(context: Context) -> ReviewJob:
            nonlocal told
            told = context.secrets
            return reconciler.review_job(context, proposed, plan=plan)

        planned = await self._applier.review(job, project=question.watched.project)
        if not planned.entry:
            raise kept_plans.unmergeable_fault(question, planned.conflicts)
        made = await self._kept(plan, replace(question, secrets=told), planned)
        self._shelf.put(made)
        return made

    async def _kept(self, plan: str, question: PlanQuestion, planned: ReviewPlanned) -> KeptPlan:
        return KeptPlan(
            plan,
            question,
            digest=kept_plans.question_digest(question, revision=planned.revision),
            revision=planned.revision,
            created_at=rfc3339(self._clock()),
            merge_base=planned.merge_base,
            behind=planned.behind,
            ahead=planned.ahead,
            found=await kept_plans.encode_plan(planned.entry),
        )

    def _new_id(self) -> str:
        milliseconds = int(self._clock().timestamp() * 1000)
        return ids.ulid(milliseconds=milliseconds, randomness=self._randomness(ids.RANDOM_BYTES))
