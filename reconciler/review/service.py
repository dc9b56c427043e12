"""Plans by the running service: against its own store, by the settings in force.

Equal questions share one answer, each repository is planned for by one question at a time, and plans are kept
(`kept_plans`) until they make room for others. A plan is stale as soon as the same question could have another answer.
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
from reconciler.model.secret_references import AvailableSecrets
from reconciler.reconcile.apply import Applier
from reconciler.reconcile.reconciler import Reconciler
from reconciler.reconcile.repositories import Repositories
from reconciler.review import kept_plans
from reconciler.review.kept_plans import KeptPlan, PlanQuestion, PlanRequest, PlanShelf, TookTooLong, UnknownProposal
from reconciler.settings.bounded_io import DiskHangs
from reconciler.store.contract import Store

LOOK_SECONDS = 5.0  # for remotes to tell their refs, should they not be known, and for disks to list the secrets
MOST_WAITING = 4  # questions of the whole service that wait behind another one about their repository
GRACE = 60.0  # seconds for planning, on top of the timeout of the repository's remote


class TooManyQuestions(Transient):
    """More wait already than may; the same question may pass later."""


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
        queued: Callable[[str, str], int] = lambda _project, _destination: 0,
    ) -> None:
        """`queued` counts the records that wait for a destination of a project."""
        self._repositories = repositories
        self._store = store
        self._applier = applier
        self._clock = clock
        self._randomness = randomness
        self._shelf = shelf or PlanShelf()
        self._grace = grace
        self._queued = queued
        self._asked: dict[PlanRequest, asyncio.Task[KeptPlan]] = {}  # in progress
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # by repository

    async def plan(self, asked: PlanRequest) -> KeptPlan:
        """Plan a merge as of now. Equal questions share one answer, also later as long as nothing moved.

        The work goes on when a caller gives up, since the worker cannot be called back; its plan is kept for the next.

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

    def get(self, plan: str) -> KeptPlan | None:
        """Return a kept plan by its id."""
        return self._shelf.get(plan)

    def newest(self) -> list[KeptPlan]:
        """Return every kept plan, newest first."""
        return list(self._shelf.newest())

    async def are_stale(self, plans: Sequence[KeptPlan]) -> list[bool]:
        """Decide for each plan if it is stale, as far as refs and secrets are known in time. Raises StoreFault."""
        return await staleness_of(
            plans, repositories=self._repositories, revision=await self._store.revision(), applier=self._applier
        )

    def _forget(self, asked: PlanRequest, ended: "asyncio.Task[KeptPlan]") -> None:
        del self._asked[asked]
        if not ended.cancelled():
            ended.exception()  # no caller may be left, and asyncio would complain of that

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
            kept = self._shelf.find(question, revision=await self._store.revision())
            return kept or await self._review(reconciler, question, proposed)

    async def _review(self, reconciler: Reconciler, question: PlanQuestion, proposed: Proposal) -> KeptPlan:
        milliseconds = int(self._clock().timestamp() * 1000)
        plan = ids.ulid(milliseconds=milliseconds, randomness=self._randomness(ids.RANDOM_BYTES))
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
        self._shelf.put(made)
        return made


async def staleness_of(
    plans: Sequence[KeptPlan], *, repositories: Repositories, revision: int, applier: Applier
) -> list[bool]:
    """Decide for each plan if it is stale, as of a revision of the store.

    A ref counts as unmoved while its remote does not answer in time, secrets as unchanged while their disk does not.
    """
    projects, names = sorted({plan.project for plan in plans}), sorted({plan.repository for plan in plans})
    available, found = await asyncio.gather(
        asyncio.gather(*(_secrets(project, applier) for project in projects)),
        asyncio.gather(*(_tips(name, plans, repositories) for name in names)),
    )
    secrets, tips = dict(zip(projects, available, strict=True)), dict(zip(names, found, strict=True))

    def is_stale(plan: KeptPlan) -> bool:
        question, reconciler = plan.question, repositories.reconciler(plan.repository)
        return (
            plan.revision != revision
            or secrets[plan.project] not in (None, question.secrets)
            or reconciler is None
            or reconciler.watched != question.watched
            or any(tips[plan.repository].get(side.ref, side.commit) != side.commit for side in _named_sides(plan))
        )

    return [is_stale(plan) for plan in plans]


def _named_sides(plan: KeptPlan) -> list[PlanTip]:
    """Return the sides that have a ref; a side that was named by its commit never moves."""
    return [side for side in (plan.question.base, plan.question.head) if side.ref != side.commit]


async def _secrets(project: str, applier: Applier) -> AvailableSecrets | None:
    """Return the secrets that plans of a project may refer to; None when the disk does not answer in time."""
    with contextlib.suppress(TimeoutError, DiskHangs):
        async with asyncio.timeout(LOOK_SECONDS):
            return await applier.secrets(project)
    return None


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
