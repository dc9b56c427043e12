"""Boards on a file of their own, at a moment that stands still until a test moves it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications.board import Board
from reconciler.notifications.models import Cause, Domain, Finding, Observation
from reconciler.notifications.rendering import NotificationPlace
from reconciler.settings.models import AlertTarget
from reconciler.store.operations import SqliteOperations
from tests.api.parts import Moment

PLACE = NotificationPlace("default", "http://service")


def finding(name: str = "telemetry", **changed: Any) -> Finding:
    """A repository that cannot be reached."""
    cause = Cause(NotificationType.REPOSITORY_UNREACHABLE, name, "default")
    given = {
        "severity": Severity.ERROR,
        "title": f"The repository {name} cannot be read",
        "details": "It does not answer.",
        **changed,
    }
    return Finding(cause, **given)


def target(name: str, **given: Any) -> AlertTarget:
    """A target of the settings."""
    return AlertTarget.model_validate({"name": name, **given})


def observation(*findings: Finding) -> Observation:
    """An observation of all repositories."""
    return Observation(Domain.REPOSITORIES, findings)


class World:
    """A file, a clock, and what is opened on them."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ops.db"
        self.clock = Moment()

    @asynccontextmanager
    async def board(self, *targets: AlertTarget, **options: Any) -> AsyncIterator[Board]:
        """A board, as each start of the service opens one."""
        operations = SqliteOperations(self.path)
        try:
            board = Board(operations, clock=self.clock, place=PLACE, targets=targets, **options)
            await board.load()
            yield board
        finally:
            await operations.close()

    @asynccontextmanager
    async def operations(self) -> AsyncIterator[SqliteOperations]:
        """The file, while no board uses it."""
        operations = SqliteOperations(self.path)
        try:
            yield operations
        finally:
            await operations.close()

    def pass_(self, **duration: float) -> None:
        """Let time pass."""
        self.clock.instant += timedelta(**duration)


async def shown(board: Board, user: str | None = "id-ana", **wanted: Any) -> list[dict[str, Any]]:
    """All that there is, as a person sees it."""
    pages = board.pages(**{"sees": lambda _: True, "user": user, **wanted})
    return [msgspec.json.decode(one) for page in [page async for page in pages] for one in page]


def brief(found: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Of each: what it is about, whether it is open, what the person did with it."""
    return [
        (
            one["metadata"]["displayName"].split()[-4],
            one["metadata"]["labels"]["service/state"],
            one["status"]["userStatus"],
        )
        for one in found
    ]
