"""A copy of the store before this version of the program changes it: the way back to the version before.

Belongs here: when there is one, under which name, which of them stay. Does not: the change itself
(`reconciler.store.migrating`).
"""

import logging
import re
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from reconciler.errors import ReconcilerError, Refused
from reconciler.store import connections
from reconciler.store.contract import StoreFault
from reconciler.upkeep import copies, databases, files
from reconciler.upkeep.databases import STORE, Identity
from reconciler.upkeep.watches import Watch

log = logging.getLogger(__name__)

NEWEST = 2  # copies that stay
SECONDS = 3600.0  # for a copy; a start waits for it


def before(path: Path, *, clock: Callable[[], float], beating: Callable[[], None] = lambda: None) -> Path | None:
    """Copy a store that this version will change; the copy, or None when there is nothing to change.

    Nobody else may use the store. `clock` is monotonic, in seconds; `beating` is called while it goes on. What is no
    store of ours, or a later version's, is left to whoever opens it. Raises Refused: then the store is not to be
    changed.
    """
    found = _older(path)
    if found is None:
        return None
    copy = path.with_name(f"{path.name}.before-{STORE.latest}")
    if not _is_of_this_upgrade(copy, path, found):
        _copy(path, copy, found, Watch(clock, SECONDS, lambda _: beating()))
        log.info(
            "Copied the store to %s before it is brought from version %d to %d.", copy, found.version, STORE.latest
        )
    _remove_old(path)
    return copy


def _older(path: Path) -> Identity | None:
    if not path.exists() or path.stat().st_size == 0:
        return None
    try:
        found = copies.look(path, STORE)
    except ReconcilerError:
        return None
    return found if found.version < STORE.latest else None


def _is_of_this_upgrade(copy: Path, path: Path, found: Identity) -> bool:
    """Whether a start before this one made it and was ended between two steps: the store is on its way, and the copy
    is what it was before the first step.
    """
    if not copy.exists():
        return False
    with suppress(ReconcilerError):
        return copies.look(copy, STORE).version < found.version and _revision(copy) == _revision(path)
    return False


def _revision(path: Path) -> int:
    with connections.faults("read"), closing(connections.open_reader(path)) as connection:
        return databases.revision(connection)


def _copy(path: Path, copy: Path, found: Identity, watch: Watch) -> None:
    partial = copy.with_name(f"{copy.name}.partial")
    try:
        files.check_room(path.parent, found.size, purpose="The copy of the store before it is brought to this version")
        copies.copy(path, partial, kind=STORE, watch=watch, is_quick=True)
        partial.rename(copy)
        files.force(copy.parent)
    except (OSError, StoreFault) as problem:
        raise Refused(
            f"The store could not be copied before it is brought to this version ({_why(problem)}), so it stays as it "
            f"is; mend that, or install the version before."
        ) from problem


def _why(problem: Exception) -> str:
    if isinstance(problem, OSError):
        return problem.strerror or "the disk failed"
    return str(problem.__cause__ or problem).rstrip(".")


def _remove_old(path: Path) -> None:
    """All but the newest; best effort, since they harm nobody."""
    numbered = re.compile(re.escape(path.name) + r"\.before-([0-9]+)")
    with suppress(OSError):
        found = sorted(
            (int(match[1]), each) for each in path.parent.iterdir() if (match := numbered.fullmatch(each.name))
        )
        for _, copy in found[:-NEWEST]:
            copy.unlink()
            log.info("Removed %s, an older copy.", copy)
