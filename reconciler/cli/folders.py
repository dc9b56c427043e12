"""Writing files into a folder, each whole or not at all, and nowhere else.

Belongs here: safe writes. Does not: what is written.

Every step goes through the open folder, so that a link put in its place meanwhile leads nowhere.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from reconciler.model.errors import Refused

FOLDER = os.O_RDONLY | os.O_DIRECTORY
GIT = ".git"  # what a new repository holds


class ExportFolder:
    """An open folder."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def names(self) -> list[str]:
        """What is in it, sorted."""
        with os.scandir(self._descriptor) as entries:
            return sorted(entry.name for entry in entries)

    @contextmanager
    def inside(self, name: str) -> Iterator["ExportFolder"]:
        """The folder of this name in it, made when there is none. Raises Refused for a link or a file."""
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=self._descriptor)
        path = self.path / name
        try:
            descriptor = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=self._descriptor)
        except OSError as problem:
            if self._is_folder(name):
                raise
            raise Refused(f"{path} is not a folder, and links are not followed; move it away") from problem
        with _open(path, descriptor) as folder:
            yield folder

    def write(self, name: str, data: bytes) -> None:
        """Put a file in it, in place of one that is there; a link is replaced, not followed."""
        if self._is_folder(name):
            raise Refused(f"{self.path / name} is a folder, and a file has to stand there; move it away")
        fresh = f".{name}.new"  # begins with a dot, so that nobody takes it for a resource
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=self._descriptor)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            with os.fdopen(os.open(fresh, flags, 0o666, dir_fd=self._descriptor), "wb") as file:
                file.write(data)
            os.rename(fresh, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except BaseException:
            with suppress(OSError):
                os.unlink(fresh, dir_fd=self._descriptor)
            raise

    def _is_folder(self, name: str) -> bool:
        with suppress(FileNotFoundError):
            return stat.S_ISDIR(os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mode)
        return False


@contextmanager
def open_folder(path: Path) -> Iterator[ExportFolder]:
    """The folder at a path, made when there is none."""
    path.mkdir(parents=True, exist_ok=True)
    with _open(path, os.open(path, FOLDER)) as folder:
        yield folder


@contextmanager
def _open(path: Path, descriptor: int) -> Iterator[ExportFolder]:
    try:
        yield ExportFolder(path, descriptor)
    finally:
        os.close(descriptor)
