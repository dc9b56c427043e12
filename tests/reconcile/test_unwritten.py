"""A look that fails while the store takes nothing is shown all the same, until a look ends otherwise."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import RefHead
from reconciler.git.remotes.following import Following
from reconciler.notifications import observers
from reconciler.ops import metrics
from reconciler.ops.metric_families import Sample
from reconciler.reconcile import repositories
from reconciler.reconcile.reconciler import Reconciler
from reconciler.reconcile.runs import Run, RunTally, Trigger
from tests import entries
from tests.api.parts import Parts, started
from tests.store.engines import SqliteEngine

pytestmark = pytest.mark.anyio

SECONDS = 30.0  # what takes longer does not happen
DOWN = "the server is down; start it"


class Failing:
    """A remote that cannot be read."""

    generation = 0

    def __init__(self) -> None:
        self.is_looked_at = asyncio.Event()

    async def poll(self, **_: object) -> RefHead:
        """Fails."""
        self.is_looked_at.set()
        raise GitFault(RepositoryState.UNREACHABLE, DOWN)


def reconciler(parts: Parts, *, suspended: bool = False, remote: Failing | None = None) -> Reconciler:
    return Reconciler(
        entries.watched("telemetry", "https://git.example/a.git", suspended=suspended),
        following=cast("Following", remote or Failing()),
        store=parts.services.store,
        applier=parts.services.applier,
        fingerprint=lambda _: "",
        origin="",
        neighbours=tuple,
        clock=parts.clock,
        tally=RunTally(),
    )


async def seen(one: Reconciler, parts: Parts) -> tuple[str, str | None, list[object]]:
    """State and message as the API shows them, and what the metrics say: the state, and whether looks fail."""
    shown = msgspec.json.decode(await repositories.shown_repository(one, parts.services.store))
    every: Any = SimpleNamespace(tally=RunTally(), reconcilers=lambda: [one])
    samples = [step for step in metrics.run_steps(every) if isinstance(step, Sample)]
    told: list[object] = [step.labels[-1] for step in samples if step.family is metrics.STATE]
    told += [step.value for step in samples if step.family is metrics.FAILING]
    return shown["state"], shown["message"], told


async def looked(one: Reconciler, trigger: Trigger = Trigger.POLL) -> None:
    await one.reconcile(Run("R1", "telemetry", "default", trigger, "system"), full=False)


async def test_a_fault_that_cannot_be_written_is_shown_counted_and_notified_of(tmp_path: Path) -> None:
    async with started(tmp_path) as parts:
        store, one = parts.services.store, reconciler(parts)
        assert await seen(one, parts) == ("never-read", None, ["never-read", 0])
        with SqliteEngine(tmp_path).failing(store):
            await looked(one)
        assert await seen(one, parts) == ("unreachable", DOWN, ["unreachable", 1])
        [found] = observers.cause_of_state(one)
        assert found.facts["message"] == DOWN
        assert (await store.repository("telemetry"), one.remembered) == (None, None)
        await looked(one)
        remembered = await store.repository("telemetry")
        assert remembered is not None
        assert (remembered.message, one.unwritten) == (DOWN, None)


async def test_what_a_failed_look_tells_is_written_when_nobody_is_alone_in_its_project(tmp_path: Path) -> None:
    """Whoever is alone there, as a redaction is, has looked at all that runs told."""
    async with asyncio.timeout(SECONDS), started(tmp_path) as parts:
        remote = Failing()
        store, one = parts.services.store, reconciler(parts, remote=remote)
        looking = []

        async def alone() -> None:
            looking.append(asyncio.create_task(looked(one)))
            await remote.is_looked_at.wait()
            for _ in range(2):  # the second would be behind the run on the thread that writes
                await store.touch_keys({})
            assert await store.repository("telemetry") is None

        await parts.services.applier._retry.alone("default", alone)
        await looking[0]
        remembered = await store.repository("telemetry")
        assert remembered is not None
        assert remembered.message == DOWN


async def test_a_run_that_somebody_asked_for_and_that_cannot_be_written_tells_why(tmp_path: Path) -> None:
    async with started(tmp_path) as parts:
        one = reconciler(parts, suspended=True)
        with SqliteEngine(tmp_path).failing(parts.services.store):
            await looked(one, Trigger.REQUEST)
        _, _, [_, failing] = await seen(one, parts)
        assert (failing, one.fault is not None and "could not be written" in one.fault.message) == (1, True)
