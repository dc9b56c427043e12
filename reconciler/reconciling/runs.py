"""Runs that are queued or running. They live in memory; a finished run is in the store."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import msgspec

from reconciler.model.clock import rfc3339


class Trigger(StrEnum):
    """Why a run was made."""

    START = "start"
    WATCH = "watch"
    HOOK = "hook"  # a forge says that something was pushed
    POLL = "poll"
    REQUEST = "request"
    RELOAD = "reload"
    RESUME = "resume"  # a suspension ended by itself
    STORE = "store"  # another repository or the API changed what this one waits for


class RunOutcome(StrEnum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    PARTIAL = "partial"  # some of what Git wants is not what is stored
    REFUSED = "refused"  # atomic, or suspended: nothing was stored
    FAILED = "failed"  # nothing was stored, and it is tried again


@dataclass(slots=True)
class Run:
    """One run that has not ended."""

    id: str
    repository: str
    project: str
    trigger: Trigger
    actor: str
    started: datetime | None = None
    commit: str | None = None


def shown_run(run: Run) -> bytes:
    """The run as a JSON object, in the shape of a finished one."""
    return msgspec.json.encode(
        {
            "id": run.id,
            "repository": run.repository,
            "project": run.project,
            "trigger": run.trigger,
            "actor": run.actor,
            "phase": "queued" if run.started is None else "running",
            "commit": run.commit,
            "outcome": None,
            "message": None,
            "counts": {},
            "rewound": False,
            "startedAt": None if run.started is None else rfc3339(run.started),
            "finishedAt": None,
            "durationMs": None,
            "statuses": [],
        }
    )
