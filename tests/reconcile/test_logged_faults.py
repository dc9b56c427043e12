"""What the log says of looks that fail."""

import logging
from pathlib import Path
from typing import cast

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import RefHead
from reconciler.git.remotes.following import Following
from reconciler.reconcile.reconciler import Reconciler
from reconciler.reconcile.runs import Run, RunTally, Trigger
from tests import entries
from tests.api.parts import started

pytestmark = pytest.mark.anyio

DOWN, SHUT = "the server is down; start it", "the door is shut; open it"


class Failing:
    """A remote that cannot be read, for a reason that may change."""

    generation = 0
    why = DOWN

    async def poll(self, **_: object) -> RefHead:
        """Fails."""
        raise GitFault(RepositoryState.UNREACHABLE, self.why)


async def test_a_fault_is_warned_of_when_it_is_news_or_asked_for_and_not_at_each_look(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="reconciler.reconcile.reconciler")
    remote = Failing()
    async with started(tmp_path) as parts:
        reconciler = Reconciler(
            entries.watched("telemetry", "https://git.example/a.git"),
            following=cast("Following", remote),
            store=parts.services.store,
            applier=parts.services.applier,
            fingerprint=lambda _: "",
            origin="",
            neighbours=tuple,
            clock=parts.clock,
            tally=RunTally(),
        )
        for number, (trigger, why) in enumerate(
            [
                (Trigger.START, DOWN),
                (Trigger.POLL, DOWN),
                (Trigger.REQUEST, DOWN),
                (Trigger.POLL, DOWN),
                (Trigger.POLL, SHUT),
                (Trigger.POLL, DOWN),
            ]
        ):
            remote.why = why
            await reconciler.reconcile(Run(f"R{number}", "telemetry", "default", trigger, "system"), full=False)
    levels = [(record.levelname, record.getMessage().removeprefix("telemetry: ")) for record in caplog.records]
    assert levels == [
        ("WARNING", DOWN),
        ("DEBUG", DOWN),
        ("WARNING", DOWN),
        ("DEBUG", DOWN),
        ("WARNING", SHUT),
        ("WARNING", DOWN),
    ]
