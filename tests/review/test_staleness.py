"""Staleness of plans, where a remote does not say: that is nothing against them, nor against others."""

import asyncio
from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import cast

import pytest

from reconciler.model.plan import PlanEntry, PlanTip
from reconciler.model.secret_references import NO_SECRETS
from reconciler.reconcile.repositories import Repositories
from reconciler.review import service
from reconciler.review.kept_plans import EncodedPlan, KeptPlan, PlanQuestion
from reconciler.settings.repositories import Repository
from tests import entries

pytestmark = pytest.mark.anyio

SOON = 0.3  # seconds, within which a remote that does not hang answers
HANGING, OTHER = "hanging", "other"
HEAD = PlanTip(ref="refs/heads/topic", commit="c" * 40)


class Known:
    """Repositories that are watched as ever; the remote of one hangs, and the refs of all others moved."""

    def reconciler(self, name: str) -> SimpleNamespace:
        async def tips(refs: Collection[str]) -> Mapping[str, str | None]:
            if name == HANGING:
                await asyncio.sleep(60)
            return dict.fromkeys(refs, "d" * 40)

        return SimpleNamespace(watched=watched(name), following=SimpleNamespace(tips=tips))


def watched(project: str) -> Repository:
    return entries.watched(project, f"/srv/git/{project}.git", project=project)


def plan(project: str) -> KeptPlan:
    return KeptPlan(
        project,
        PlanQuestion(watched(project), base=PlanTip(ref="b" * 40, commit="b" * 40), head=HEAD, secrets=NO_SECRETS),
        digest="",
        revision=1,
        created_at="2026-11-21T06:12:00.123Z",
        merge_base="b" * 40,
        behind=0,
        ahead=1,
        found=EncodedPlan(PlanEntry(name=project), {}, (), ()),
    )


@pytest.mark.parametrize(("revision", "hanging"), [(1, False), (2, True)])
async def test_a_remote_that_hangs_says_nothing_of_its_plans_and_nothing_is_kept_from_others(
    monkeypatch: pytest.MonkeyPatch, *, revision: int, hanging: bool
) -> None:
    monkeypatch.setattr(service, "LOOK_SECONDS", SOON)
    async with asyncio.timeout(5):
        found = await service.staleness_of(
            [plan(HANGING), plan(OTHER)], repositories=cast("Repositories", Known()), revision=revision
        )
    assert found == [hanging, True]
