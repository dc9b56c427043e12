"""Disks that tests fill."""

from pathlib import Path

CHUNK_BYTES = 64 * 1024


def fill(disk: Path) -> Path:
    """Leave no room."""
    ballast = disk / "ballast"
    for size in (CHUNK_BYTES, 1):  # a disk gives whole pages, so single bytes find the last of them
        try:
            with ballast.open("ab", buffering=0) as file:
                while True:
                    file.write(b"x" * size)
        except OSError:
            continue
    return ballast
