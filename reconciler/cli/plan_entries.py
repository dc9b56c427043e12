"""Which entries a plan has: the whole repository, folders of it, or the repositories of a settings file.

Belongs here: from options to entries. Does not: planning, the repository itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.merging import Merged
from reconciler.git.snapshots import Snapshot
from reconciler.model.errors import Refused
from reconciler.model.text import visible
from reconciler.review.static import EntrySettings

if TYPE_CHECKING:
    from reconciler.settings.repositories import Repository

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
