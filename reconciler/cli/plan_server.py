"""A plan asked of a running service, which plans against what it has stored: the answer as a plan like any other.

Belongs here: the requests, reading their answers, and several as one plan. Does not: the command and its options
(`plan`), a plan without a server (`plan_static`), how a plan is shown (`plans`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from reconciler.cli import connecting, repositories
from reconciler.cli.client import NOT_OURS, Client, Refusal
from reconciler.cli.plan_options import PlanOptions
from reconciler.cli.sessions import Session
from reconciler.model.errors import Refused
from reconciler.model.plan import MOST_VALUE_BYTES, CutText, Plan, PlanEntry, PlanField, PlanStatus, PlanTip
from reconciler.model.values import Value

# As the service says it, of a repository that it does not watch or whoever asks may not see.
NO_REPOSITORY = "There is no such repository; GET /v1/repositories lists those that are watched."


class _Shown(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A plan as the service shows it; what later versions add is left out."""

    digest: str
    repository: str
    project: str
    path: str
    base: PlanTip
    head: PlanTip
    merge_base: str
    behind: int
    ahead: int
    store_version: int
    stale: bool
    refused: bool
    unchanged: int
    untouched_files: int
    held: int = 0
    notes: tuple[str, ...]
    statuses: tuple[PlanStatus, ...]


def plan_by_server(session: Session, asked: PlanOptions) -> Plan:
    """The plan that the server makes, one entry for each repository. Raises UsageError, and what `ask` does."""
    asked.check_live()
    head = asked.head or _here(asked.folder)
    with connecting.everywhere(session) as client:
        return _joined([ask_server(client, repository=name, head=head, base=asked.base) for name in asked.repositories])


def _here(folder: Path) -> str:
    # It takes longer to import than all else here, and whoever says what is to be merged needs no checkout.
    from reconciler.git.checkouts import Checkout  # noqa: PLC0415

    try:
        with Checkout.open(folder) as checkout:
            return checkout.resolve("HEAD")[1]
    except Refused as error:
        raise Refused(f"{error}, or name what would be merged with --head") from None


def _joined(plans: Sequence[Plan]) -> Plan:
    """Plans of several entries as one."""
    first = plans[0]
    if any((one.base.commit, one.head.commit) != (first.base.commit, first.head.commit) for one in plans):
        raise Refused("these repositories do not follow the same: their bases or heads differ; plan one at a time")
    return Plan(
        base=first.base,
        head=first.head,
        merge_base=first.merge_base,
        behind=first.behind,
        ahead=first.ahead,
        entries=tuple(entry for one in plans for entry in one.entries),
        store_version=first.store_version,
        server=first.server,
        digest=first.digest if len(plans) == 1 else "",
        # What was asked first knows nothing of what the store got before the last.
        stale=any(one.stale for one in plans) or any(one.store_version != first.store_version for one in plans),
    )


def ask_server(client: Client, *, repository: str, head: str, base: str | None = None) -> Plan:
    """What merging `head` into `base`, or into what the repository follows, would do. Both are refs in full, or the ids
    of commits.

    Raises Refusal, with a sentence for each file when the two do not merge, Refused and Unreachable.
    """
    body: dict[str, Value] = {"repository": repository, "head": head}
    if base is not None:
        body["base"] = base
    try:
        answer = client.post("plan", body=body)
    except Refusal as refusal:
        if refusal.errors != (NO_REPOSITORY,):
            raise
        raise Refused(repositories.unknown_repository(repository)) from None
    return decoded(answer, server=client.server)


def decoded(answer: dict[str, Value], *, server: str) -> Plan:
    """The plan that an answer of the service holds. Raises Refused for another answer."""
    try:
        shown = msgspec.convert(answer.get("plan"), type=_Shown)
    except msgspec.ValidationError:
        raise Refused(NOT_OURS) from None
    entry = PlanEntry(
        name=shown.repository,
        project=shown.project,
        path=shown.path,
        statuses=tuple(map(_whole, shown.statuses)),
        unchanged=shown.unchanged,
        untouched_files=shown.untouched_files,
        held=shown.held,
        notes=shown.notes,
        refused=shown.refused,
    )
    return Plan(
        base=shown.base,
        head=shown.head,
        merge_base=shown.merge_base,
        behind=shown.behind,
        ahead=shown.ahead,
        entries=(entry,),
        store_version=shown.store_version,
        server=server,
        digest=shown.digest,
        stale=shown.stale,
    )


def _whole(status: PlanStatus) -> PlanStatus:
    """The same with the values that were cut told from those that were not."""
    return msgspec.structs.replace(status, fields=tuple(map(_told, status.fields)))


def _told(field: PlanField) -> PlanField:
    return msgspec.structs.replace(field, old=_value(field.old), new=_value(field.new))


def _value(value: Any) -> Any:
    """A value, or the Cut that it stands for: JSON has no other form for it than a mapping of its two facts."""
    match value:
        case {"begins": str(begins), "bytes": int(size), **rest} if not rest and size > MOST_VALUE_BYTES:
            return CutText(begins=begins, bytes=size)
    return value
