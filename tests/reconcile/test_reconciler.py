"""The log, the view and the memory of a reconciler after runs that fail, and of signed heads."""

import asyncio
import itertools
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from api.repositories import shown_repository
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import RefHead
from reconciler.git.remotes.following import Following
from reconciler.git.remotes.sources import source_of
from reconciler.notifications import observers
from reconciler.ops import metrics
from reconciler.reconcile.apply import Applier
from reconciler.reconcile.commit_groups import CommitGroup
from reconciler.reconcile.reconciler import Reconciler
from reconciler.reconcile.runs import Run, RunTally, Trigger
from reconciler.worker.messages import CommitJob, CommitPlanned, Exhausted
from tests import entries, stores
from tests.api.parts import Parts, started
from tests.reconcile import writers
from tests.repositories import Repository
from tests.signing import Signer, allow, sign_with

pytestmark = pytest.mark.anyio

SECONDS = 30.0  # what takes longer does not happen
RUNS = (f"R{number}" for number in itertools.count())
DOWN, SHUT = "the server is down; start it", "the door is shut; open it"


class Failing:
    """A remote that cannot be read, for a reason that may change."""

    generation = 0
    why = DOWN

    def __init__(self) -> None:
        self.is_polled = asyncio.Event()

    async def poll(self, **_: object) -> RefHead:
        """Fails."""
        self.is_polled.set()
        raise GitFault(RepositoryState.UNREACHABLE, self.why)

    async def read_facts(self, *_: str | None) -> None:
        """Finds none."""

    def facts(self, _: str | None) -> None:
        """Has none."""


def reconciler(parts: Parts, *, suspended: bool = False, remote: Failing | None = None) -> Reconciler:
    return Reconciler(
        entries.watched("telemetry", "https://git.example/a.git", suspend=suspended),
        parts.environment,
        following=cast("Following", remote or Failing()),
        neighbours=tuple,
        group=CommitGroup(parts.environment.applier),
        tell_group=lambda _: None,
    )


async def reconciled(one: Reconciler, trigger: Trigger = Trigger.POLL) -> None:
    await one.reconcile(Run(next(RUNS), "telemetry", "default", trigger, "system"))


async def seen(one: Reconciler, parts: Parts) -> tuple[str, str | None, list[object]]:
    """State and message as the API shows them, and what the metrics say: the state, and whether runs fail."""
    shown = msgspec.json.decode(await shown_repository(one, parts.services))
    every: Any = SimpleNamespace(tally=RunTally(), followed=lambda: [one])
    samples = [*metrics.run_steps(every)]
    told: list[object] = [step.labels[-1] for step in samples if step.family is metrics.STATE]
    told += [step.value for step in samples if step.family is metrics.FAILING]
    return shown["state"], shown["message"], told


async def test_a_fault_is_a_warning_when_it_is_news_or_asked_for_and_not_at_each_poll(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="reconciler.reconcile.reconciler")
    remote = Failing()
    async with started(tmp_path) as parts:
        one = reconciler(parts, remote=remote)
        for trigger, why in [
            (Trigger.START, DOWN),
            (Trigger.POLL, DOWN),
            (Trigger.REQUEST, DOWN),
            (Trigger.POLL, DOWN),
            (Trigger.POLL, SHUT),
            (Trigger.POLL, DOWN),
        ]:
            remote.why = why
            await reconciled(one, trigger)
    levels = [(record.levelname, record.getMessage().removeprefix("telemetry: ")) for record in caplog.records]
    assert levels == [
        ("WARNING", DOWN),
        ("DEBUG", DOWN),
        ("WARNING", DOWN),
        ("DEBUG", DOWN),
        ("WARNING", SHUT),
        ("WARNING", DOWN),
    ]


async def test_a_fault_that_cannot_be_written_is_shown_counted_and_notified_of(tmp_path: Path) -> None:
    async with started(tmp_path) as parts:
        store, one = parts.services.store, reconciler(parts)
        assert await seen(one, parts) == ("never-read", None, ["never-read", 0])
        with stores.engine(tmp_path).failing(store):
            await reconciled(one)
        assert await seen(one, parts) == ("unreachable", DOWN, ["unreachable", 1])
        [found] = observers.cause_of_state(one)
        assert DOWN[1:] in found.details
        assert ((await store.remembered("telemetry", held=0)).row, one.memory.row.since) == (None, "")
        await reconciled(one)
        remembered = (await store.remembered("telemetry", held=0)).row
        assert remembered is not None
        assert (remembered.message, one.memory.unwritten) == (DOWN, None)


async def test_a_failed_run_is_recorded_when_its_project_is_free(tmp_path: Path) -> None:
    """A redaction, for instance, has then seen what every run told."""
    async with asyncio.timeout(SECONDS), started(tmp_path) as parts:
        remote = Failing()
        store, one = parts.services.store, reconciler(parts, remote=remote)
        async with writers.writing(parts.services, "default"):
            run = asyncio.create_task(reconciled(one))
            await remote.is_polled.wait()
            for _ in range(2):  # the second would be behind the run on the thread that writes
                await store.touch_keys({})
            assert (await store.remembered("telemetry", held=0)).row is None
        await run
        remembered = (await store.remembered("telemetry", held=0)).row
        assert remembered is not None
        assert remembered.message == DOWN


async def test_a_requested_run_that_cannot_be_written_tells_why(tmp_path: Path) -> None:
    async with started(tmp_path) as parts:
        one = reconciler(parts, suspended=True)
        with stores.engine(tmp_path).failing(parts.services.store):
            await reconciled(one, Trigger.REQUEST)
        _, _, [_, failing] = await seen(one, parts)
        fault = one.memory.fault
        assert (failing, fault is not None and "could not be written" in fault.message) == (1, True)


class Signed:
    """A repository whose heads must be signed, and what its runs say."""

    def __init__(self, folder: Path, parts: Parts, **followed: str | None) -> None:
        self.ada, self.eve = (Signer.make(folder, name) for name in ("ada", "eve"))
        self.signers = allow(folder / "signers", self.ada)
        self.source = Repository.init(folder / "source")
        watched = entries.watched("telemetry", str(self.source.path), verify={"signers_file": self.signers}, **followed)
        following = parts.environment.remotes.follow(source_of(watched))
        self._reconciler = Reconciler(
            watched,
            parts.environment,
            following=following,
            neighbours=tuple,
            group=CommitGroup(parts.environment.applier),
            tell_group=lambda _: None,
        )

    async def reconciled(self) -> tuple[str | None, str]:
        """The commit that is applied after another run, and why no other is."""
        await reconciled(self._reconciler)
        row, fault = self._reconciler.memory.row, self._reconciler.memory.fault
        return row.commit, "" if fault is None else fault.message


async def test_the_signature_is_checked_again_when_the_head_or_the_file_of_signers_changes(tmp_path: Path) -> None:
    async with started(tmp_path) as parts:
        signed = Signed(tmp_path, parts)
        sign_with(signed.source, signed.ada)
        first = signed.source.commit()
        assert await signed.reconciled() == (first, "")
        allow(signed.signers, signed.eve)
        applied, why = await signed.reconciled()
        assert (applied, "nothing more is applied until the head is signed" in why) == (first, True)
        signed.signers.unlink()
        assert "does not exist" in (await signed.reconciled())[1]
        allow(signed.signers, signed.ada, signed.eve)
        assert await signed.reconciled() == (first, "")
        sign_with(signed.source, None)
        signed.source.commit()
        assert (await signed.reconciled())[0] == first
        sign_with(signed.source, signed.eve)
        second = signed.source.commit()
        assert await signed.reconciled() == (second, "")


async def test_the_signature_is_checked_again_for_a_tag_that_was_made_anew_for_the_same_commit(tmp_path: Path) -> None:
    async with started(tmp_path) as parts:
        signed = Signed(tmp_path, parts, branch=None, tag="v1")
        source = signed.source
        commit = source.commit()
        source.git("tag", "v1")
        for options in ([], ["--annotate", "--message=Plain"]):
            source.git("tag", "--force", *options, "v1")
            applied, why = await signed.reconciled()
            assert (applied, "is not signed" in why) == (None, True)
        sign_with(source, signed.ada)
        source.git("tag", "--sign", "--message=Signed", "--force", "v1")
        assert await signed.reconciled() == (commit, "")


class Exhausting(CommitGroup):
    """A group in place of a worker to which each commit is too much; it notes what it was asked to plan."""

    def __init__(self, applier: Applier) -> None:
        super().__init__(applier)
        self.planned: list[str] = []

    async def commit(self, job: CommitJob, **_: object) -> CommitPlanned:
        """Fails."""
        self.planned.append(job.commit)
        raise Exhausted("the commit holds too many files")


async def test_a_commit_over_a_limit_is_planned_again_on_request_or_when_something_changed(tmp_path: Path) -> None:
    source = Repository.init(tmp_path / "source")
    source.write("a.yaml", "")
    first = source.commit()
    async with started(tmp_path) as parts:
        group = Exhausting(parts.environment.applier)
        watched = entries.watched("telemetry", str(source.path))
        one = Reconciler(
            watched,
            parts.environment,
            following=parts.environment.remotes.follow(source_of(watched)),
            neighbours=tuple,
            group=group,
            tell_group=lambda _: None,
        )
        for _ in range(2):
            await reconciled(one)
            assert one.memory.fault is not None
            assert one.memory.fault.message == "the commit holds too many files"
        assert group.planned == [first]
        await reconciled(one, Trigger.REQUEST)
        assert group.planned == [first, first]
        source.write("a.yaml", "# less")
        second = source.commit()
        await reconciled(one)
        assert group.planned == [first, first, second]
