"""A recorded run as JSON, as the API shows it: the run, and each of its statuses, apart."""

import msgspec

from reconciler.store.contract import RunRow, StatusRow

_encoder = msgspec.json.Encoder()


class _Status(msgspec.Struct, omit_defaults=True):
    """A struct, since there are many: a mapping of each took three times as long to make and to write."""

    kind: str | None
    name: str | None
    status: str
    reason: str | None = None
    path: str | None = None
    line: int | None = None
    notes: tuple[str, ...] = ()


def render_run(row: RunRow) -> bytes:
    """The run, without its statuses."""
    shown: dict[str, object] = {
        "id": row.id,
        "repository": row.repository,
        "project": row.project,
        "trigger": row.trigger,
        "actor": row.actor,
        "phase": "finished",
        "commit": row.commit,
        "outcome": row.outcome,
        "message": row.message,
        "counts": msgspec.Raw(row.counts),
        "rewound": bool(row.rewound),
        "startedAt": row.started_at,
        "finishedAt": row.finished_at,
        "durationMs": row.duration_ms,
    }
    return _encoder.encode(shown)


def render_run_status(row: StatusRow) -> bytes:
    """One status; `reason`, `path`, `line` and `notes` are left out when there are none."""
    notes = () if row.notes is None else tuple(row.notes.split("\n"))
    return _encoder.encode(_Status(row.kind, row.name, row.status, row.reason, row.path, row.line, notes))
