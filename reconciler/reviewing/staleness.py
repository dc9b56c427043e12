"""Whether plans still hold: what each was made of, held against what there is now.

A plan is stale as soon as the same question could be answered otherwise. Of a ref of which nothing is known, since its
remote does not answer in time, nothing is said; nor of secrets whose disk does not.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from reconciler.model.plan import PlanTip
from reconciler.model.secret_references import AvailableSecrets
from reconciler.reconcile.apply import Applier
from reconciler.reconcile.repositories import Repositories
from reconciler.reviewing.keeping import KeptPlan
from reconciler.settings.bounded_io import DiskHangs

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
