"""Plans by the running service: against its own store, by the settings in force.

Equal requests share one answer, one plan of a repository is made at a time, and plans are kept (`kept_plans`) until
newer ones replace them. A plan is stale once the store, a ref or the settings have changed.
"""

import asyncio
import contextlib
import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from msgspec import structs

from reconciler.git.remotes.proposals import Proposal
from reconciler.model import flows, ids
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.errors import Transient
from reconciler.model.plan import PlanTip
from reconciler.reconcile.apply import Applier
from reconciler.reconcile.reconciler import Reconciler
from reconciler.reconcile.repositories import Repositories
from reconciler.review import kept_plans
from reconciler.review.kept_plans import KeptPlan, PlanQuestion, PlanRequest, PlanShelf, TookTooLong, UnknownProposal
from reconciler.store.contract import Store

LOOK_SECONDS = 5.0  # for polls of refs that are not known
MOST_WAITING = 4  # requests of the whole service that wait for another one about their repository
GRACE = 60.0  # seconds for planning, on top of the timeout of the repository's remote


class TooManyQuestions(Transient):
    """Too many requests wait; the same request may pass later."""


class Reviewing:
    """The plans of the service. Not safe for threads: everything happens on the event loop."""

    def __init__(
        self,
        repositories: Repositories,
        *,
        store: Store,
        applier: Applier,
        clock: Clock,
        grace: float = GRACE,
        queued: Callable[[str, str], int] = lambda _project, _destination: 0,
    ) -> None:
        """`queued` counts the records that wait for a destination of a project."""
        self._repositories = repositories
        self._store = store
        self._applier = applier
        self._clock = clock
        self.shelf = PlanShelf()
        self._grace = grace
        self._queued = queued
        self._asked: dict[PlanRequest, asyncio.Task[KeptPlan]] = {}  # in progress
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # by repository

    async def plan(self, asked: PlanRequest) -> KeptPlan:
        """Plan a merge as of now. Equal requests share one answer, also later while nothing has changed. If a caller
        gives up, the work continues, because the worker cannot be interrupted, and the plan is kept.

        Raises UnknownProposal, ProposalNotFound, Unmergeable, TooManyQuestions, TookTooLong, GitFault, StoreFault,
        WorkerGone, Overdue, Busy, DiskHangs, and Refused for a bad name and for a proposal that cannot be planned.
        """
        seconds = self._reconciler(asked).watched.timeout + self._grace
        work = self._asked.get(asked)
        if work is None:
            busy = {one.repository for one in self._asked}
            if asked.repository in busy and len(self._asked) - len(busy) >= MOST_WAITING:
                raise TooManyQuestions("Too many plans are asked for at once; ask again in a moment.")
            work = self._asked[asked] = asyncio.create_task(self._planned(asked), name="review")
            work.add_done_callback(lambda ended: self._forget(asked, ended))
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await asyncio.shield(work)
        except TimeoutError:
            if not limit.expired():
                raise
            raise TookTooLong(
                f"There was no plan of {asked.repository} within {seconds:g} seconds; the service may be busy with "
                "other work, so ask again in a moment."
            ) from None

    async def are_stale(self, plans: Sequence[KeptPlan]) -> list[bool]:
        """Decide for each plan if it is stale, as far as refs are known in time. Raises StoreFault."""
        return await staleness_of(plans, repositories=self._repositories, revision=await self._store.revision())

    def _forget(self, asked: PlanRequest, ended: "asyncio.Task[KeptPlan]") -> None:
        del self._asked[asked]
        if not ended.cancelled():
            ended.exception()  # mark it as retrieved: no caller may be left

    def _reconciler(self, asked: PlanRequest) -> Reconciler:
        found = self._repositories.reconciler(asked.repository)
        if found is None:
            raise UnknownProposal("There is no such repository.")
        return found

    async def _planned(self, asked: PlanRequest) -> KeptPlan:
        async with self._locks[asked.repository]:
            reconciler = self._reconciler(asked)
            proposed = await reconciler.following.propose(asked.head, base=asked.base)
            question = PlanQuestion(
                reconciler.watched,
                base=PlanTip(ref=proposed.base_ref, commit=proposed.base),
                head=PlanTip(ref=proposed.head_ref, commit=proposed.head),
                secrets=await self._applier.secrets(reconciler.watched.project),
            )
            kept = self.shelf.find(question, revision=await self._store.revision())
            return kept or await self._review(reconciler, question, proposed)

    async def _review(self, reconciler: Reconciler, question: PlanQuestion, proposed: Proposal) -> KeptPlan:
        milliseconds = int(self._clock().timestamp() * 1000)
        plan = ids.ulid(milliseconds=milliseconds, randomness=os.urandom(ids.RANDOM_BYTES))
        context = await self._applier.context(question.watched.project)
        planned = await self._applier.review(reconciler.review_job(context, proposed, plan=plan))
        if not planned.entry:
            raise kept_plans.unmergeable_fault(question, planned.conflicts)
        found = await kept_plans.encode_plan(planned.entry)
        moving = flows.with_queued(found.entry.flows, partial(self._queued, question.watched.project))
        made = KeptPlan(
            plan,
            replace(question, secrets=context.secrets),
            digest=kept_plans.question_digest(question, revision=planned.revision),
            revision=planned.revision,
            created_at=rfc3339(self._clock()),
            merge_base=planned.merge_base,
            behind=planned.behind,
            ahead=planned.ahead,
            found=replace(found, entry=structs.replace(found.entry, flows=moving)),
        )
        self.shelf.put(made)
        return made


async def staleness_of(plans: Sequence[KeptPlan], *, repositories: Repositories, revision: int) -> list[bool]:
    """Decide for each plan if it is stale, as of a revision of the store.

    A ref counts as unmoved while its remote does not answer in time.
    """
    names = sorted({plan.repository for plan in plans})
    found = await asyncio.gather(*(_tips(name, plans, repositories) for name in names))
    tips = dict(zip(names, found, strict=True))

    def is_stale(plan: KeptPlan) -> bool:
        question, reconciler = plan.question, repositories.reconciler(plan.repository)
        return (
            plan.revision != revision
            or reconciler is None
            or reconciler.watched != question.watched
            or any(tips[plan.repository].get(side.ref, side.commit) != side.commit for side in _named_sides(plan))
        )

    return [is_stale(plan) for plan in plans]


def _named_sides(plan: KeptPlan) -> list[PlanTip]:
    """Return the sides with a ref. A side that is named by its commit never moves."""
    return [side for side in (plan.question.base, plan.question.head) if side.ref != side.commit]


async def _tips(name: str, plans: Sequence[KeptPlan], repositories: Repositories) -> Mapping[str, str | None]:
    """Return the commits of the refs in the plans of a repository."""
    reconciler = repositories.reconciler(name)
    if reconciler is None:
        return {}
    refs = {side.ref for plan in plans if plan.repository == name for side in _named_sides(plan)}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LOOK_SECONDS):
            return await reconciler.following.tips(refs)
    return {}
