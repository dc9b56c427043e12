"""What a restore left under other names: it takes room, and holds all that a store holds."""

from collections.abc import Sequence
from pathlib import Path

from reconciler.upkeep import restoring
from reconciler.upkeep.findings import Finding, warning

NAME = "kept files"


def gather(databases: Sequence[Path]) -> list[Path]:
    """The files, sorted. Raises OSError."""
    return sorted({found for path in databases for found in path.parent.glob(f"{path.name}.{restoring.KEPT}-*")})


def judge(found: Sequence[Path]) -> list[Finding]:
    """Each is to go one day."""
    return [warning(NAME, f"{path} is what was there before a restore", "remove it when all is well") for path in found]
