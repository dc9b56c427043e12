"""Staleness of plans, where a disk or a remote does not say: that is nothing against them, nor against others."""

import asyncio
import threading
from collections.abc import Collection, Iterator, Mapping
from types import SimpleNamespace
from typing import cast

import pytest

from reconciler.model.plan import PlanEntry, PlanTip
from reconciler.model.secret_references import NO_SECRETS, AvailableSecrets
from reconciler.reconcile.apply import Applier, ApplyLimits
from reconciler.reconcile.repositories import Repositories
from reconciler.reconcile.watched import WatchedRepository
from reconciler.review import service
from reconciler.review.kept_plans import EncodedPlan, KeptPlan, PlanQuestion
from reconciler.store.contract import Store
from reconciler.worker.client import WorkerClient
from tests import entries

pytestmark = pytest.mark.anyio

SOON = 0.3  # seconds, within which a disk that does not hang answers
HANGING, OTHER = "hanging", "other"
NEW = AvailableSecrets(env=frozenset({"NEW"}))
HEAD = PlanTip(ref="refs/heads/topic", commit="c" * 40)


class Disks:
    """The names of secrets of projects, of which one is on a disk that hangs."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.available = NO_SECRETS

    def read(self, project: str) -> AvailableSecrets:
        assert project != HANGING or self.goes_on.wait(10)
        return self.available


class Known:
    """Repositories that are watched as ever and whose refs are where they were, unless their project is `moved`."""

    def __init__(self, moved: Collection[str] = ()) -> None:
        self._moved = moved

    def reconciler(self, name: str) -> SimpleNamespace:
        async def tips(refs: Collection[str]) -> Mapping[str, str | None]:
            return dict.fromkeys(refs, "d" * 40) if name in self._moved else {}

        return SimpleNamespace(watched=watched(name), following=SimpleNamespace(tips=tips))


def watched(project: str) -> WatchedRepository:
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


@pytest.fixture
def disks() -> Iterator[Disks]:
    made = Disks()
    yield made
    made.goes_on.set()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "LOOK_SECONDS", SOON)


async def are_stale(disks: Disks, known: Known) -> list[bool]:
    """Of a plan of each project."""
    applier = Applier(
        cast("Store", None),
        WorkerClient(),
        store_address="",
        limits=ApplyLimits(frozenset(), 1),
        secrets=disks.read,
        clock=lambda: pytest.fail("nobody asks what time it is"),
    )
    repositories = cast("Repositories", known)
    async with asyncio.timeout(5):
        plans = [plan(HANGING), plan(OTHER)]
        return await service.staleness_of(plans, repositories=repositories, revision=1, applier=applier)


async def test_nothing_is_said_of_secrets_on_a_disk_that_hangs_and_plans_of_other_projects_are_told(
    disks: Disks,
) -> None:
    disks.available = NEW
    assert await are_stale(disks, Known()) == [False, True]
    disks.goes_on.set()
    assert await are_stale(disks, Known()) == [True, True]


async def test_a_plan_whose_secrets_cannot_be_looked_at_is_stale_for_all_else_that_makes_it_so(disks: Disks) -> None:
    assert await are_stale(disks, Known(moved={HANGING})) == [True, False]
