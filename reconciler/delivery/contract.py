"""The interface of delivery for the API: taking log records in, and looking after one destination's queue."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

from reconciler.delivery.otlp.models import Logs
from reconciler.model import errors


class QueueFull(errors.Transient):
    """A destination cannot take more now, and nothing of the request was kept. `seconds` is when to try again."""

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class NotTaken(errors.Transient):
    """A destination without a queue did not get the records, or the disk did not take them, or did not answer for half
    a minute and may still take them: the sender keeps them.
    """


class UnknownDestination(errors.Refused):
    """The project has no such destination, and no queue of that name is left."""


@dataclass(frozen=True, slots=True)
class TakenRecords:
    """The outcome of a request: how many of its records nobody takes, and why, in a sentence ('' for none)."""

    rejected: int = 0
    message: str = ""


ALL = TakenRecords()


@dataclass(frozen=True, slots=True)
class Behind:
    """The routes of a project are older than what is stored: too old to be used when `is_late`.

    `changed_endpoints` are the webhooks that were disabled, deleted or pointed elsewhere meanwhile.
    """

    is_late: bool = False
    changed_endpoints: frozenset[str] = frozenset()


class Delivery(Protocol):
    """Log records in, and what operators do. Names of destinations are as in `model.routes.Destination`."""

    async def take(self, project: str, logs: Logs) -> TakenRecords:
        """Route and queue. When it returns, the records are where the settings of each destination promise (on disk,
        in memory, delivered). Raises Full, NotTaken, TooLarge.
        """

    def sends_at_once(self, project: str) -> bool:
        """Tell whether a destination of the project has no queue, so that `take` may wait for its endpoint.

        Cancel `take` to give that up.
        """

    def shown(self, project: str, name: str, *, answers: bool) -> dict[str, Any]:
        """One destination's delivery as the API shows it; what endpoints answered only with `answers`. Raises
        UnknownDestination, and, like all that follow, Full while the project's Configurations are being read.
        """

    def all(self, project: str, *, answers: bool) -> dict[str, Any]:
        """Every destination of a project that something is delivered to or queued for, sorted by name, and the records
        that no Configuration took.
        """

    def replay(self, project: str, name: str) -> AsyncIterator[tuple[int, int]]:
        """Queue its dead letters again: how many batches and records, of one queue after the other, so that what was
        done is known when a later one fails. Raises UnknownDestination, and Full when the disk does not answer.
        """

    def discard(self, project: str, name: str, *, queued: bool, dead: bool) -> AsyncIterator[tuple[int, int]]:
        """Forget what is queued, or dead: how many batches and records, as above. Raises as above."""

    async def test(self, project: str, name: str) -> dict[str, Any]:
        """Send one made-up record past the queue, once: what came of it. Raises UnknownDestination."""
