"""Plans that the service keeps in memory until a restart, as the JSON that readers get.

Secrets are masked before they reach a plan, for everybody. A Configuration's raw text is not: `without_raw` hides it
from callers who may not read it. The API decides who may.
"""

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from reconciler.model import flows, forges
from reconciler.model.errors import Refused, Transient
from reconciler.model.plan import FORMAT, SENSITIVE, SENSITIVE_CHANGED, PlanEntry, PlanField, PlanStatus, PlanTip
from reconciler.model.secret_references import AvailableSecrets
from reconciler.settings.repositories import Repository

CONFIGURATION = "Configuration"  # the one kind that may have such a text
SPEC, RAW = "spec", "raw"


def without_raw(status: PlanStatus) -> PlanStatus:
    """Return the status without the raw text; the same object where there is none."""
    if status.kind != CONFIGURATION:
        return status
    fields = tuple(_hidden(field) for field in status.fields)
    if all(hidden is field for hidden, field in zip(fields, status.fields, strict=True)):
        return status
    return msgspec.structs.replace(status, fields=fields)


def _hidden(field: PlanField) -> PlanField:
    """Return a field with the raw text masked like a secret: it shows the change, but no value."""
    path, whole = field.path, f"{SPEC}.{RAW}"
    is_raw = path == whole or path.startswith((f"{whole}.", f"{whole}["))
    if path in ("", SPEC):
        # The beginning of a spec that was cut may contain the text.
        sides = [side for side in (field.old, field.new) if isinstance(side, dict)]
        is_raw = any(not side.keys().isdisjoint({SPEC, RAW, "begins"}) for side in sides)
    if not is_raw:
        return field
    had, has = field.old is not msgspec.UNSET, field.new is not msgspec.UNSET
    old = SENSITIVE if had else msgspec.UNSET
    new = (SENSITIVE_CHANGED if had else SENSITIVE) if has else msgspec.UNSET
    return msgspec.structs.replace(field, old=old, new=new, sensitive=True)


AT_ONCE = 50  # statuses, about a millisecond


@dataclass(frozen=True, slots=True)
class EncodedPlan:
    """An entry of a plan. `statuses` are JSON for callers who may read everything, `without_raw` for others.

    `entry` has everything except the statuses; `counts` has the number of each status, with `unchanged`.
    """

    entry: PlanEntry
    counts: dict[str, int]
    statuses: tuple[bytes, ...]
    without_raw: tuple[bytes, ...]

    @property
    def size(self) -> int:
        """The bytes in memory."""
        own = sum(map(len, self.statuses)) + sum(map(len, self.entry.notes))
        own += sum(len(one.old or "") + len(one.new or "") for one in self.entry.renderings)
        return own + sum(
            len(hidden) for hidden, shown in zip(self.without_raw, self.statuses, strict=True) if hidden is not shown
        )


async def encode_plan(entry: bytes) -> EncodedPlan:
    """Convert an entry from msgpack to JSON, with pauses for the event loop. Raises msgspec.DecodeError."""
    found = msgspec.msgpack.decode(entry, type=PlanEntry)
    shown: list[bytes] = []
    hidden: list[bytes] = []
    for number, status in enumerate(found.statuses):
        if number % AT_ONCE == AT_ONCE - 1:
            await asyncio.sleep(0)
        masked = without_raw(status)
        shown.append(msgspec.json.encode(status))
        hidden.append(shown[-1] if masked is status else msgspec.json.encode(masked))
    return EncodedPlan(msgspec.structs.replace(found, statuses=()), found.counts, tuple(shown), tuple(hidden))


MOST = 200  # plans of the whole service
MOST_BYTES = 64 << 20  # 64 MiB, of all of them
OF_ONE = 2_000  # bytes of a plan beside what was found, roughly


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """The question of a plan: merging `head` into `base`, with the settings of the repository and the commits of both.

    `secrets` are the names that the project could refer to then.
    """

    watched: Repository
    base: PlanTip
    head: PlanTip
    secrets: AvailableSecrets


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """A plan. `revision` is that of the store, `created_at` an instant as RFC 3339 text; the rest as `Plan` has it."""

    id: str
    question: PlanQuestion
    digest: str
    revision: int
    created_at: str
    merge_base: str
    behind: int
    ahead: int
    found: EncodedPlan

    @property
    def repository(self) -> str:
        """The repository's name."""
        return self.question.watched.name

    @property
    def project(self) -> str:
        """The project that the repository filled then."""
        return self.question.watched.project

    @property
    def size(self) -> int:
        """The bytes in memory."""
        return OF_ONE + self.found.size


class PlanShelf:
    """Plans by id. New plans replace the oldest ones."""

    def __init__(self, *, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._kept: dict[str, KeptPlan] = {}  # in the order in which they were made
        self._bytes = 0

    def put(self, made: KeptPlan) -> None:
        """Keep a plan, and drop the oldest ones. A plan that is larger than the limit is not kept."""
        if made.size > self._most_bytes:
            return
        while len(self._kept) >= self._most or self._bytes + made.size > self._most_bytes:
            self._bytes -= self._kept.pop(next(iter(self._kept))).size
        self._kept[made.id] = made
        self._bytes += made.size

    def get(self, plan: str) -> KeptPlan | None:
        """Return the plan of an id."""
        return self._kept.get(plan)

    def find(self, question: PlanQuestion, *, revision: int) -> KeptPlan | None:
        """Return the plan that answers a question as of a revision of the store."""
        answers = (one for one in self.newest() if (one.question, one.revision) == (question, revision))
        return next(answers, None)

    def newest(self) -> Iterator[KeptPlan]:
        """Return every plan, newest first."""
        return reversed(list(self._kept.values()))


FILES_TOLD = 100  # of those that conflict


class UnknownProposal(Refused):
    """The service follows no repository of this name."""


class Unmergeable(Refused):
    """The two commits cannot be merged. Each sentence gives one reason, with the file if there is one."""

    def __init__(self, *sentences: str) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = tuple(self.message.split("\n"))


class TookTooLong(Transient):
    """The plan was not ready in time; the same request may pass later."""


class PlanRequest(NamedTuple):
    """The request for a plan: names of refs or commits, None for the ref that the repository follows."""

    repository: str
    head: str | None
    base: str | None


def question_digest(question: PlanQuestion, *, revision: int) -> str:
    """Return the digest of a plan, which differs for another base, head or revision of the store."""
    facts = (FORMAT, question.watched.name, question.base.commit, question.head.commit, revision)
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()


def unmergeable_fault(question: PlanQuestion, conflicts: Sequence[str]) -> Unmergeable:
    """Return the error of a merge: the files that conflict, or that the two have no history in common."""
    base, head = question.base.ref, question.head.ref
    if not conflicts:
        return Unmergeable(f"{head} and {base} have no history in common, so that they do not merge.")
    lines = [path.replace("\n", "\\n") for path in conflicts[:FILES_TOLD]]
    told = [f"{path}: conflicts between {base} and {head}; resolve it in {head}" for path in lines]
    left = len(conflicts) - len(told)
    return Unmergeable(*told, *([f"There are conflicts in more files than these: {left}."] if left else []))


def plan_head(kept: KeptPlan, *, stale: bool) -> bytes:
    """Return the plan as a JSON object, without its statuses."""
    found, watched = kept.found, kept.question.watched
    link = forges.line_pattern(watched.url, watched.web_url)
    return msgspec.json.encode(
        {
            "id": kept.id,
            "digest": kept.digest,
            "repository": kept.repository,
            "project": kept.project,
            "path": found.entry.path,
            "base": _tip(kept.question.base),
            "head": _tip(kept.question.head),
            "mergeBase": kept.merge_base,
            "behind": kept.behind,
            "ahead": kept.ahead,
            "storeVersion": kept.revision,
            "stale": stale,
            "createdAt": kept.created_at,
            "refused": found.entry.refused,
            "counts": found.counts,
            "unchanged": found.entry.unchanged,
            "untouchedFiles": found.entry.untouched_files,
            "held": found.entry.held,
            "notes": found.entry.notes,
            **({"link": link} if link else {}),
            **({"flows": [flows.shown(flow) for flow in found.entry.flows]} if found.entry.flows else {}),
        }
    )


def plan_renderings(kept: KeptPlan) -> bytes:
    """Return the changes for Collectors in a plan, as members of a JSON object."""
    entry = kept.found.entry
    found = {"renderings": entry.renderings, "renderingsLeftOut": entry.renderings_left_out}
    return msgspec.json.encode({name: value for name, value in found.items() if value})[1:-1]


def plan_statuses(kept: KeptPlan, *, with_raw: bool) -> tuple[bytes, ...]:
    """Return the statuses as JSON objects, in their order, with raw texts or without."""
    return kept.found.statuses if with_raw else kept.found.without_raw


def _tip(tip: PlanTip) -> dict[str, str]:
    return {"ref": tip.ref, "commit": tip.commit}
