"""Whether the clock can be right: nothing that was written before is later than now. Who sets it is not looked at."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from reconciler.upkeep.findings import DoctorFinding, error, ok

NAME = "clock"
SLACK = timedelta(minutes=2)
MOST_ENTRIES = 1000


class ClockFacts(NamedTuple):
    """The time, and the latest file with its time; None when there is none."""

    now: datetime
    path: Path | None
    written: datetime | None


def gather_clocks(now: datetime, folders: Iterable[Path]) -> ClockFacts:
    """Look at the files of these folders, and the files that are named. Raises OSError."""
    paths: list[Path] = []
    for folder in folders:
        paths += sorted(folder.iterdir())[:MOST_ENTRIES] if folder.is_dir() else []
    times = [(path.lstat().st_mtime, path) for path in paths]
    if not times:
        return ClockFacts(now, None, None)
    written, path = max(times)
    return ClockFacts(now, path, datetime.fromtimestamp(written, UTC))


def judge_clocks(facts: ClockFacts) -> list[DoctorFinding]:
    """Whether the clock goes after the files."""
    if facts.written is None or facts.written <= facts.now + SLACK:
        return [ok(NAME, f"{facts.now:%Y-%m-%dT%H:%M:%SZ}, later than every file; who sets it is not looked at")]
    told = f"it is {facts.now:%Y-%m-%dT%H:%M:%SZ}, and {facts.path} was written {facts.written:%Y-%m-%dT%H:%M:%SZ}"
    todo = "set the clock, by NTP for instance: expiries, signatures and certificates depend on it"
    return [error(NAME, told, todo)]
