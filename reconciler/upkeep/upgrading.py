"""A copy of a database before this version of the program changes it: the way back to the version before.

Belongs here: when there is one, under which name, which of them stay. Does not: the change itself
(`reconciler.store.database`).
"""

import logging
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from reconciler.model.errors import ReconcilerError, Refused
from reconciler.store.contract import StoreFault
from reconciler.upkeep import copies, files
from reconciler.upkeep.databases import KINDS, DatabaseIdentity, DatabaseKind, DatabasePlaces
from reconciler.upkeep.watches import ProgressWatch

log = logging.getLogger(__name__)

KEPT = "before"
NEWEST = 2  # copies of each that stay
SECONDS = 3600.0  # for a copy; a start waits for it


def copy_before_upgrade(
    places: DatabasePlaces, *, clock: Callable[[], float], beating: Callable[[], None] = lambda: None
) -> tuple[Path, ...]:
    """Copy each database that this version will change, all before the first of them is; the copies, few or none.

    Nobody else may use them. `clock` is monotonic, in seconds; `beating` is called while it goes on. What is none of
    ours, or a later version's, is left to whoever opens it. Raises Refused: then none is to be changed.
    """
    found = [_copied(places.of(kind), kind, clock=clock, beating=beating) for kind in KINDS]
    return tuple(copy for copy in found if copy is not None)


def _copied(path: Path, kind: DatabaseKind, *, clock: Callable[[], float], beating: Callable[[], None]) -> Path | None:
    found = _older(path, kind)
    if found is None:
        return None
    copy = path.with_name(f"{path.name}.{KEPT}-{kind.latest}")
    _copy_one(path, copy, found, kind=kind, watch=ProgressWatch(clock, SECONDS, lambda _: beating()))
    told = "Copied the %s to %s before it is brought from version %d to %d."
    log.info(told, kind.name, copy, found.version, kind.latest)
    _remove_old(path)
    return copy


def _older(path: Path, kind: DatabaseKind) -> DatabaseIdentity | None:
    if not path.exists() or path.stat().st_size == 0:
        return None
    try:
        found = copies.look_at_copy(path, kind)
    except ReconcilerError:
        return None
    return found if found.version < kind.latest else None


def _copy_one(path: Path, copy: Path, found: DatabaseIdentity, *, kind: DatabaseKind, watch: ProgressWatch) -> None:
    partial = copy.with_name(f"{copy.name}.partial")
    what = f"The copy of the {kind.name} before it is brought to this version"
    try:
        files.check_room(path.parent, found.size * (2 if kind.forgotten else 1), purpose=what)
        copies.copy_database(path, partial, kind=kind, watch=watch, is_quick=True)
        partial.rename(copy)
        files.force_to_disk(copy.parent)
    except (OSError, StoreFault) as problem:
        raise Refused(
            f"The {kind.name} could not be copied before it is brought to this version ({_why(problem)}), so it stays "
            f"as it is; mend that, or install the version before."
        ) from problem


def _why(problem: Exception) -> str:
    if isinstance(problem, OSError):
        return problem.strerror or "the disk failed"
    return str(problem.__cause__ or problem).rstrip(".")


def _remove_old(path: Path) -> None:
    """All but the newest; best effort, since they harm nobody."""
    numbered = re.compile(rf"{re.escape(path.name)}\.{KEPT}-([0-9]+)")
    with suppress(OSError):
        found = sorted(
            (int(match[1]), each) for each in path.parent.iterdir() if (match := numbered.fullmatch(each.name))
        )
        for _, copy in found[:-NEWEST]:
            copy.unlink()
            log.info("Removed %s, an older copy.", copy)
