"""What would merging a proposal do, asked of the running service: against its own store, by the settings in force.

Belongs here: the steps from a question to a plan, and their bounds. Does not: where the commits come from
(`remotes.proposing`), what merging means (`reading.reviews`), who asks at once (`turns`), what is kept (`keeping`).
"""

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

from reconciler.git.remotes.proposals import Proposal
from reconciler.model import ids
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.plan import PlanTip
from reconciler.reconcile.apply import Applier
from reconciler.reconcile.reconciler import Reconciler
from reconciler.reconcile.repositories import Repositories
from reconciler.reviewing import encoding, questions, staleness
from reconciler.reviewing.keeping import KeptPlan, PlanQuestion, PlanShelf
from reconciler.reviewing.questions import PlanRequest, TookTooLong, UnknownProposal
from reconciler.reviewing.turns import QuestionTurns, SharedQuestions
from reconciler.store.contract import Store
from reconciler.worker.messages import Context, ReviewJob, ReviewPlanned

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
        self._begun: set[asyncio.Task[KeptPlan]] = set()  # what the reader works on

    async def plan(self, asked: PlanRequest) -> KeptPlan:
        """What merging would do now. Who asks the same meanwhile shares the answer, and so does who asks it again as
        long as nothing moved.

        Raises Unknown, `proposable.NotFound`, Unmergeable, Crowded, TookTooLong, GitFault, StoreFault, ReaderGone,
        Overdue, Busy, Hangs, and Refused for a name that is none and for what the reader cannot plan.
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
        return await staleness.staleness_of(
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
        """What the reader has begun cannot be called back. It keeps its turn, so that those who ask and leave do not
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
            return reconciler.review(context, proposed, plan=plan)

        planned = await self._applier.review(job, project=question.watched.project)
        if not planned.entry:
            raise questions.unmergeable_fault(question, planned.conflicts)
        made = await self._kept(plan, replace(question, secrets=told), planned)
        self._shelf.put(made)
        return made

    async def _kept(self, plan: str, question: PlanQuestion, planned: ReviewPlanned) -> KeptPlan:
        return KeptPlan(
            plan,
            question,
            digest=questions.question_digest(question, revision=planned.revision),
            revision=planned.revision,
            created_at=rfc3339(self._clock()),
            merge_base=planned.merge_base,
            behind=planned.behind,
            ahead=planned.ahead,
            found=await encoding.encode_plan(planned.entry),
        )

    def _new_id(self) -> str:
        milliseconds = int(self._clock().timestamp() * 1000)
        return ids.ulid(milliseconds=milliseconds, randomness=self._randomness(ids.RANDOM_BYTES))
