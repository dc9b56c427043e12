"""Rows of one repository: its applied head, its held deletions, its runs and its suspension.

Shapes alone, as in `reconciler.store.records`.
"""

from typing import NamedTuple

import msgspec

from reconciler.model.names import Key


class FileRow(NamedTuple):
    """One file of a repository's applied head. `vacant` says why it holds no resource: a link, or empty.

    `given` is for a file that is vacant or cannot be read. It is a JSON array of the [kind, name] of its former
    resources that are in no other file, without those that are stored from this file.
    """

    repository: str
    path: str
    blob: str
    vacant: str | None = None
    given: str | None = None


class WantedRow(NamedTuple):
    """One resource document of a repository's applied head.

    `digest` is None for an invalid document; `kind` and `name` are None if they could not be read. `unconverged` is
    None if the resource is stored as the document wants, `waiting` if another change of the store may let it in (for
    example, another repository owns the resource, or its id is taken), otherwise `refused`.
    """

    repository: str
    path: str
    position: int
    kind: str | None
    name: str | None
    digest: bytes | None
    unconverged: str | None = None

    @property
    def key(self) -> Key | None:
        """The resource that it defines, if both parts of its key could be read."""
        return None if self.kind is None or self.name is None else Key(self.kind, self.name)


class PruneRow(NamedTuple):
    """A run that pruned: the number of resources that its repository owned before, and of deletions without approval.

    `at` is in milliseconds of Unix time. Storing it removes the repository's rows that are 24 hours older.
    """

    repository: str
    at: int
    owned: int
    deleted: int


class HeldRow(NamedTuple):
    """A resource that is not in the repository's head and nevertheless not deleted.

    `why` is `held` if a guard stopped the deletion, `in-use` if another resource refers to it, `protected` if its label
    keeps it.
    """

    repository: str
    kind: str
    name: str
    why: str


class ApprovalRow(NamedTuple):
    """An admin's approval of the deletions that are held at a commit, the repository's head."""

    repository: str
    commit: str
    actor: str
    at: str


class RunRow(NamedTuple):
    """One run; the defaults are for a run that is not finished. `counts` is a JSON object with the number of each
    status. `flows` is a JSON object of the changes of delivery, None without changes: their `counts`, and in `changes`
    the first of them as sentences.
    """

    id: str
    project: str
    repository: str
    trigger: str
    actor: str
    commit: str | None
    outcome: str | None
    message: str | None
    counts: bytes = b"{}"
    rewound: int = 0
    started_at: str | None = None
    finished_at: str | None = None
    duration_ms: int | None = None
    flows: bytes | None = None

    def shown(self, phase: str) -> dict[str, object]:
        """Return the run as readers see it, without statuses."""
        found: dict[str, object] = {_SHOWN_AS.get(name, name): value for name, value in self._asdict().items()}
        found |= {"phase": phase, "counts": msgspec.Raw(self.counts), "rewound": bool(self.rewound)}
        if self.flows is None:
            del found["flows"]
        else:
            found["flows"] = msgspec.Raw(self.flows)
        return found


_SHOWN_AS = {"started_at": "startedAt", "finished_at": "finishedAt", "duration_ms": "durationMs"}


class StatusRow(NamedTuple):
    """One status of a run that is not `unchanged`."""

    run: str
    ordinal: int
    kind: str | None
    name: str | None
    status: str
    reason: str | None
    path: str | None
    line: int | None
    notes: str | None = None  # one per line


class RepositoryRow(NamedTuple):
    """The state of a watched repository between runs.

    `fingerprint` is a digest of the settings and schemas of the last read, `tree` the id of the tree that was read: if
    neither changed, there is nothing to do. `origin` is a digest of the URL and ref from which `commit` was applied.
    `approvable` is 1 if an admin can approve the deletions held at `head`, 0 if a file must be corrected first, None if
    none is held.
    """

    name: str
    project: str
    fingerprint: str | None
    commit: str | None
    tree: str | None
    head: str | None
    state: str
    message: str | None
    since: str
    origin: str | None = None
    approvable: int | None = None


class SuspensionRow(NamedTuple):
    """A suspended repository: it is not polled, and admins may write its resources. `until` None: until resumed."""

    repository: str
    reason: str
    actor: str
    since: str
    until: str | None


class Held(NamedTuple):
    """The number of resources that are held at a repository's head, and the first of them in order."""

    total: int
    first: list[Key]


class Remembered(NamedTuple):
    """Everything that the store knows of one repository."""

    row: RepositoryRow | None
    suspension: SuspensionRow | None
    last_run: str | None
    held: Held
