"""The plan of a proposal as one object, which every rendering and the API share."""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any

import msgspec

from reconciler.model import outcomes
from reconciler.model.flows import Flow
from reconciler.model.outcomes import UpdateStatus

FORMAT = "1.5"
"""The version of the JSON. The first number changes if a member is removed or changes its meaning, the second if one is
added.
"""

MOST_FIELDS = 200  # of one resource; the rest is counted
MOST_CONTENTS = 20_000  # fields of all resources of an entry that are created or deleted; the rest is counted
MOST_DEPENDANTS = 50  # of one resource; the rest is counted
MOST_VALUE_BYTES = 4_096  # of the JSON of one value

SENSITIVE = "(sensitive)"
SENSITIVE_CHANGED = "(sensitive, changed)"
UNKNOWN_TYPE = "(hidden: type unknown)"
UNKNOWN_TYPE_CHANGED = "(hidden: type unknown, changed)"
HIDDEN = frozenset({SENSITIVE, SENSITIVE_CHANGED, UNKNOWN_TYPE, UNKNOWN_TYPE_CHANGED})
"""The texts that replace hidden values."""
HIDDEN_CHANGED = frozenset({SENSITIVE_CHANGED, UNKNOWN_TYPE_CHANGED})


class _Shape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The options of all structs here."""


class PlanPlace(_Shape, frozen=True, omit_defaults=False):
    """A place in the head's files; lines and columns count from 1."""

    path: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        """Return `path:line:column`."""
        return f"{self.path}:{self.line}:{self.column}"


class PlanDifference(StrEnum):
    """The change of a field."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    REORDERED = "reordered"  # a list has the same entries in another order


class CutText(_Shape, frozen=True):
    """A value that is too long to show: the beginning of its JSON, and the size of its JSON in bytes."""

    begins: str
    bytes: int


class PlanField(_Shape, frozen=True):
    """One field that differs. `path` is for people: dots, and the name of an element of a list of named things in
    brackets, else its index: `spec.parameters[endpoint].value`, `spec.attributes[2]`.

    `old` and `new` are JSON values or CutText, unset for a missing value. A sensitive value is `(sensitive)`; if it
    changed, `new` is `(sensitive, changed)`. If the type of a component is unknown, any value may be a secret, and is
    `(hidden: type unknown)`.
    """

    path: str
    difference: PlanDifference
    old: Any = msgspec.UNSET
    new: Any = msgspec.UNSET
    at: PlanPlace | None = None  # in the head; None for what is removed
    sensitive: bool = False


class NamedResource(_Shape, frozen=True):
    """A resource by kind and name."""

    kind: str
    name: str
    at: PlanPlace | None = None  # the place of a reference to a missing resource


class PlanStatus(_Shape, frozen=True):
    """The planned result for one resource. `at` is its place in the head, or in the base for a deleted one.

    `existing`: the status was the same before, and the change does not affect it. `unresolved` are references to
    missing resources, as far as this is known without a server. `owners` are those of its file (CODEOWNERS), `notes`
    warnings. `held`: the deletion waits for an approval. For a resource that is created or deleted, `fields` are all
    fields. `reasons_before` are the lines of `reason` that were there before. `renamed` is the other name of a resource
    that is deleted and created again with an equal spec, on both of its statuses.
    """

    status: UpdateStatus
    kind: str | None = None
    name: str | None = None
    reason: str | None = None
    reasons_before: tuple[str, ...] = ()
    at: PlanPlace | None = None
    existing: bool = False
    renamed: str | None = None
    fields: tuple[PlanField, ...] = ()
    fields_left_out: int = 0
    dependants: tuple[NamedResource, ...] = ()
    dependants_left_out: int = 0
    unresolved: tuple[NamedResource, ...] = ()
    owners: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    held: bool = False

    @property
    def title(self) -> str:
        """The kind and the name, if they are known."""
        return f"{self.kind} {self.name}" if self.kind and self.name else f"document at {self.at}"

    @property
    def folder(self) -> str:
        """The folder of its file; '' for the repository's root."""
        return "" if self.at is None else self.at.path.rpartition("/")[0]


class PlanRendering(_Shape, frozen=True):
    """The YAML that Collectors run of a Configuration before the merge (`old`) and after it (`new`); None if nothing.

    `at` is the place of the Configuration. `violations` say why the result cannot be rendered, or why a Collector
    refuses it; `existing`: the same held before. `components` are the places of the result's components by their ids.
    `raw`: both are `spec.raw`, whose difference is among the fields of the Configuration.
    """

    name: str
    old: str | None = None
    new: str | None = None
    at: PlanPlace | None = None
    violations: tuple[str, ...] = ()
    existing: bool = False
    raw: bool = False
    components: dict[str, PlanPlace] = msgspec.field(default_factory=dict)


class PlanEntry(_Shape, frozen=True):
    """The plan of one entry of the settings: a folder of the repository that fills a project.

    `statuses` are in the order of `in_order`, without `unchanged` ones. `unchanged` counts resources that were read and
    stay the same, and `untouched_files` files that were not read because the change does not concern them. `held`
    counts the deletions that a guard would newly hold: these resources stay for now. `notes` are remarks for the
    reader, in order. `link` is the address of a line at the forge (`model.forges`).
    """

    name: str
    project: str = "default"
    path: str = ""
    statuses: tuple[PlanStatus, ...] = ()
    unchanged: int = 0
    untouched_files: int = 0
    held: int = 0
    notes: tuple[str, ...] = ()
    refused: bool = False  # the entry is atomic, and would store nothing
    flows: tuple[Flow, ...] = ()  # the changes in delivery, the gravest first
    link: str = ""
    page: str = ""  # the address of the plan in the console of the server that made it
    renderings: tuple[PlanRendering, ...] = ()  # the changes for Collectors, by name
    renderings_left_out: int = 0  # Configurations that were not compared: they are too many, or too large

    @property
    def counts(self) -> dict[str, int]:
        """The number of each status, in the order of the statuses, with `unchanged`."""
        found = outcomes.count_statuses(one.status for one in self.statuses)
        unchanged = UpdateStatus.UNCHANGED.value
        return {**({unchanged: self.unchanged} if self.unchanged else {}), **found}


class PlanTip(_Shape, frozen=True):
    """One side of the comparison. `ref` is its given name, `commit` its full id. `worktree`: it includes uncommitted
    changes.
    """

    ref: str
    commit: str
    worktree: bool = False


class Plan(_Shape, frozen=True):
    """The result of merging `head` into `base`.

    `behind` is the number of commits of the base that the head lacks. `store_version` is the revision of the store of
    the `server` that the plan was made against; None without a server.
    """

    base: PlanTip
    head: PlanTip
    merge_base: str
    behind: int = 0
    ahead: int = 0
    entries: tuple[PlanEntry, ...] = ()
    store_version: int | None = None
    server: str | None = None
    digest: str = ""
    stale: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of all entries together, in the order of the statuses."""
        return outcomes.summed_statuses([entry.counts for entry in self.entries])

    @property
    def all(self) -> Iterator[tuple[PlanEntry, PlanStatus]]:
        """Every status with its entry, in order."""
        for entry in self.entries:
            for status in entry.statuses:
                yield entry, status


RISK = (
    UpdateStatus.INVALID,
    UpdateStatus.ERROR,
    UpdateStatus.FORBIDDEN,
    UpdateStatus.DELETED,
    UpdateStatus.IN_USE,
    UpdateStatus.NOT_FOUND,
    UpdateStatus.DEPRECATED,
    UpdateStatus.CONFIGURED,
    UpdateStatus.CREATED,
    UpdateStatus.UNCHANGED,
)
"""The order of statuses by risk."""

_RANK = {status: rank for rank, status in enumerate(RISK)}


def in_order(found: Iterable[PlanStatus]) -> tuple[PlanStatus, ...]:
    """Sort statuses by risk, then kind and name, then place. In each status, `existing` ones come last."""
    return tuple(sorted(found, key=_rank))


def _rank(one: PlanStatus) -> tuple[int, bool, str, str, tuple[str, int, int]]:
    at = ("", 0, 0) if one.at is None else (one.at.path, one.at.line, one.at.column)
    return _RANK[one.status], one.existing, one.kind or "", one.name or "", at
