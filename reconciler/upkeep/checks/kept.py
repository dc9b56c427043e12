"""What upkeep left under other names: each takes room, and holds all that a store holds."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from reconciler.upkeep import files, restoring, upgrading
from reconciler.upkeep.findings import DoctorFinding, ok, warning

NAME = "kept files"
UNFINISHED = (".partial", restoring.INCOMING)  # how names end of what did not come to its end


class KeptCopy(NamedTuple):
    """A file, the database beside which it lies, and how large it is with its logs, in bytes."""

    path: Path
    database: Path
    size: int


def gather_kept_copies(databases: Sequence[Path]) -> list[KeptCopy]:
    """All of them, sorted. Raises OSError."""
    return [
        KeptCopy(path, database, _size(path))
        for database in sorted(databases)
        for path in sorted(database.parent.glob(f"{database.name}.*"))
        if not path.name.endswith(files.LOGS) and path.is_file()
    ]


def judge_kept_copies(found: Sequence[KeptCopy]) -> list[DoctorFinding]:
    """Each is to go one day."""
    return [finding for left in found for finding in _of_one_copy(left)]


def _of_one_copy(left: KeptCopy) -> Iterator[DoctorFinding]:
    what, kind = f"{left.path} ({files.size_text(left.size)})", left.path.name.removeprefix(f"{left.database.name}.")
    if left.path.name.endswith(UNFINISHED):
        todo = "remove it, unless the service is starting or a restore is under way"
        yield warning(NAME, f"{what} is part of a copy that did not come to its end", todo)
    elif kind.startswith(f"{restoring.KEPT}-"):
        yield warning(NAME, f"{what} is what was there before a restore", "remove it when all is well")
    elif kind.startswith(f"{upgrading.KEPT}-"):
        told = "is the copy from before an upgrade, and the way back (docs/upgrades.md)"
        yield ok(NAME, f"{what} {told}; it may be removed when the upgrade is good")


def _size(path: Path) -> int:
    return sum(each.stat().st_size for each in files.beside(path) if each.exists())
