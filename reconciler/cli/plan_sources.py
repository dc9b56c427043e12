"""Plans for `reconciler plan`: from a server, or made from a checkout."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from reconciler.cli import output, runs
from reconciler.cli import session as cli_session
from reconciler.cli.client import NOT_OURS, Client, Refusal
from reconciler.cli.plan_options import PlanOptions
from reconciler.cli.session import Session
from reconciler.git.checkouts import Checkout
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.merging import Merged
from reconciler.git.snapshots import Snapshot
from reconciler.model.errors import Refused
from reconciler.model.plan import MOST_VALUE_BYTES, CutText, Plan, PlanEntry, PlanField, PlanStatus, PlanTip
from reconciler.model.text import visible
from reconciler.model.values import Value
from reconciler.review import plan, static
from reconciler.review.static import EntrySettings, StaticOptions

if TYPE_CHECKING:
    from reconciler.settings.repositories import Repository

# A plan asked of a running service, which plans against what it has stored: the answer as a plan like any other.

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
    with cli_session.everywhere(session) as client:
        return _joined([ask_server(client, repository=name, head=head, base=asked.base) for name in asked.repositories])


def _here(folder: Path) -> str:
    # It takes longer to import than all else here, and whoever says what is to be merged needs no checkout.

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
        raise Refused(runs.unknown_repository(repository)) from None
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


# Which entries a plan has: the whole repository, folders of it, or the repositories of a settings file.

WHOLE = "repository"  # what the only entry is called


@dataclass(frozen=True, slots=True)
class Judging:
    """What settings say of how documents are judged."""

    api_versions: frozenset[str]
    refuse_unknown: bool = False


def entries_of_folders(paths: Sequence[str]) -> tuple[EntrySettings, ...]:
    """One for each folder, called as it is; without any, the whole repository. Raises Refused for a folder twice."""
    folders = ["/".join(part for part in path.split("/") if part not in ("", ".")) for path in paths] or [""]
    if len(set(folders)) < len(folders):
        raise Refused("a folder is given twice with --path; give each once")
    return tuple(EntrySettings(name=folder or WHOLE, path=folder) for folder in folders)


def check_folders(merged: Merged, entries: Sequence[EntrySettings], *, config: Path | None) -> None:
    """Raise Refused for a folder that neither side has: written wrongly, it would never have changes. `config` is the
    settings file that names it.
    """
    for entry in entries:
        if any(_has(side, entry.path) for side in (merged.base, merged.merged)):
            continue
        if config is None:
            raise Refused(f"neither side has a folder {visible(entry.path)}; correct --path")
        raise Refused(f"neither side has the folder {visible(entry.path)} of {entry.name}; correct `path` in {config}")


def _has(side: Snapshot, folder: str) -> bool:
    try:
        side.tree(folder)
    except GitFault as fault:
        if fault.state is not RepositoryState.PATH_MISSING:
            raise
        return False
    return True


def entries_of_settings(
    config: Path, names: Sequence[str], *, base: str
) -> tuple[tuple[EntrySettings, ...], Judging, list[str]]:
    """These repositories of a settings file, or all when there is one remote; what documents are judged by; and
    sentences about what is left out. `base` is what the base was called.

    Raises SettingsError, Refused.
    """
    # Settings bring a library that takes long; most plans have none.
    from reconciler.settings import loading  # noqa: PLC0415

    # How people sign in is not needed, and a provider's secret is in the environment of the service alone.
    settings = loading.load(config=config, environment={}, overrides={"auth.type": "local"}).settings
    known = {one.name: one for one in settings.repositories}
    unknown = [name for name in names if name not in known]
    if unknown or not known:
        raise Refused(f"{config} has no repository {', '.join(unknown) or 'at all'}; it has: {', '.join(known) or '-'}")
    chosen = [known[name] for name in dict.fromkeys(names)] or list(known.values())
    if not names and len({str(one.url) for one in chosen}) > 1:
        raise Refused(f"{config} has several remotes; choose with --repository: {', '.join(known)}")
    branch = base.removeprefix("refs/heads/").removeprefix("refs/remotes/").removeprefix("origin/")
    left_out = [] if names else [one for one in chosen if one.branch is not None and one.branch != branch]
    entries = tuple(_entry(one) for one in chosen if one not in left_out)
    if not entries:
        raise Refused(f"no repository of {config} follows the branch {branch}; choose with --repository or --base")
    notes = [f"The repository {one.name} follows {one.branch} and is left out." for one in left_out]
    judging = Judging(frozenset(settings.api.api_versions), refuse_unknown=settings.resources.refuse_unknown)
    return entries, judging, notes


def _entry(one: "Repository") -> EntrySettings:
    return EntrySettings(
        name=one.name,
        project=one.project,
        path=one.path,
        include=tuple(one.include),
        exclude=tuple(one.exclude),
        allowed_kinds=one.allow.kinds,
        allowed_names=one.allow.names,
        prune=one.prune.enabled,
        prune_min_count=one.prune.min_count,
        prune_max_percent=one.prune.max_percent,
        atomic=one.atomic,
        accept_invalid=one.accept_invalid,
    )


# A plan without a server, made from the checkout that a folder is in.

API_VERSIONS = frozenset({"service/v1"})


def plan_from_checkout(asked: PlanOptions) -> Plan:
    """Plan the merge by what is in the repository. Raises UsageError, Refused, GitFault, SettingsError."""
    with Checkout.open(asked.folder) as checkout:
        base = _tip(checkout, asked.base or checkout.default_base())
        head = _tip(checkout, asked.head or "HEAD", worktree=asked.worktree)
        chosen, judging = _entries(asked, base=base.ref)
        merged = checkout.merge(base.commit, checkout.worktree_commit() if asked.worktree else head.commit)
        check_folders(merged, chosen, config=asked.config)
        entries = static.plan_static(
            merged,
            chosen,
            api_versions=judging.api_versions,
            now=datetime.now(UTC),
            options=StaticOptions(strict=asked.strict, whole=asked.whole, refuse_unknown=judging.refuse_unknown),
        )
        return Plan(
            base=base,
            head=head,
            merge_base=merged.merge_base,
            behind=merged.behind,
            ahead=merged.ahead,
            entries=entries,
        )


def has_worktree(asked: PlanOptions) -> bool:
    """Whether what is planned is HEAD without files that lie there and may not be committed. Raises Refused."""
    if asked.worktree or asked.head not in (None, "HEAD"):
        return False
    with Checkout.open(asked.folder) as checkout:
        return checkout.root is not None


def checkout_head(asked: PlanOptions) -> str:
    """The short id of what would be merged; what it was called where that is no commit here."""
    name = asked.head or "HEAD"
    try:
        with Checkout.open(asked.folder) as checkout:
            return checkout.resolve(name)[1][: plan.SHORT]
    except Refused:
        return name


def _tip(checkout: Checkout, name: str, *, worktree: bool = False) -> PlanTip:
    ref, commit = checkout.resolve(name)
    return PlanTip(ref=ref, commit=commit, worktree=worktree)


def _entries(asked: PlanOptions, *, base: str) -> tuple[Sequence[EntrySettings], Judging]:
    if asked.config is None:
        if asked.repositories:
            raise click.UsageError("--repository names one of --config or of --server; give one of these too")
        return entries_of_folders(asked.paths), Judging(API_VERSIONS)
    chosen, judging, notes = entries_of_settings(asked.config, asked.repositories, base=base)
    for note in notes:
        output.note(note)
    return chosen, judging
