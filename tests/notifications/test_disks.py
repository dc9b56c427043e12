"""Disks that are nearly full are told of, each once, whatever is kept on it."""

from pathlib import Path

import pytest

from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications import service_observers
from reconciler.notifications.models import Cause, Domain, Finding, Observation

pytestmark = pytest.mark.anyio

MIB = 1 << 20
ALL = 1 << 62  # bytes: more than any disk has


@pytest.mark.parametrize(
    ("spare", "expected"),
    [
        (1 << 40, []),
        (192 * MIB, []),
        (192 * MIB - 1, [(Severity.WARNING, True)]),
        (128 * MIB, [(Severity.WARNING, True)]),
        (128 * MIB - 1, [(Severity.WARNING, False)]),
        (0, [(Severity.WARNING, False)]),
        (-1, [(Severity.CRITICAL, False)]),
    ],
)
def test_a_disk_is_low_before_it_is_full(spare: int, expected: list[tuple[Severity, bool]]) -> None:
    found = service_observers.low_disks(spare, folder="/srv")
    assert [(one.severity, one.fading) for one in found] == expected


async def test_folders_of_one_disk_are_told_together_by_the_first(tmp_path: Path) -> None:
    queues = tmp_path / "queues"
    queues.mkdir()
    observer = service_observers.DiskObserver((tmp_path, queues, tmp_path / "absent"), reserve=ALL)
    assert await observer.observe() == Observation(Domain.DISK, (beyond(tmp_path),))


async def test_each_disk_is_told_of(tmp_path: Path) -> None:
    other = Path("/proc")  # a file system of its own on every Linux
    observer = service_observers.DiskObserver((tmp_path, other), reserve=ALL)
    look = await observer.observe()
    assert look.findings == (beyond(tmp_path), beyond(other))


async def test_a_disk_with_room_is_not_told_of(tmp_path: Path) -> None:
    assert await service_observers.DiskObserver((tmp_path,), reserve=-ALL).observe() == Observation(Domain.DISK, ())


def beyond(folder: Path) -> Finding:
    """Return the finding about a disk that has less room than its reserve."""
    title, details = f"The disk of {folder} is nearly full", "It has less room than `delivery.freeBytes`."
    return Finding(Cause(NotificationType.DISK_LOW, str(folder)), Severity.CRITICAL, title, details)
