"""Reading the files that secrets are in: safely, whatever somebody puts into the folder.

Beneath the configured folder no link is followed, at no depth: each part of a name is opened from the folder above it,
so that nothing can be swapped for a link between a check and the use. The open file is checked again: a regular file
with one name, so that it is not another file's hard link. A pipe or device never makes anybody wait.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from reconciler.model import secret_references

MOST_BYTES = 64 * 1024
ATTEMPTS = 3  # at a file that is being replaced

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class UnusableSecretFile(Exception):
    """There is no such file, or it is not one that may be read. Why is nobody's business: it would tell of files."""


@dataclass(frozen=True, slots=True)
class SecretDirectory:
    """The folder of all files: one below it for each project, or, `flat`, `<project>_NAME` with `_` for `/` in it."""

    path: Path
    flat: bool = False

    def place(self, name: str, *, project: str) -> Path:
        """Return the path of a file of this name."""
        return self.path.joinpath(*self.parts(name, project=project))

    def parts(self, name: str, *, project: str) -> tuple[str, ...]:
        """The folders and the file, beneath `path`."""
        if self.flat:
            return (self.prefix(project) + secret_references.flattened(name),)
        return (project, *name.split("/"))

    def prefix(self, project: str) -> str:
        """How a project's files begin where all are in one folder; no project's name holds `_`."""
        return f"{project}_"


def configured_directory(directory: Path | None, *, state: Path, environment: Mapping[str, str]) -> SecretDirectory:
    """The folder of the setting; else what systemd made of `LoadCredential=`; else one in the state directory."""
    credentials = Path(environment.get("CREDENTIALS_DIRECTORY", ""))
    if directory is None and credentials.is_absolute():
        return SecretDirectory(credentials, flat=True)
    return SecretDirectory(directory or state / "secrets")


def read_secret_file(directory: SecretDirectory, name: str, *, project: str) -> str:
    """The text of a file, without one newline at its end; never an empty one. Raises Unusable."""
    if not secret_references.is_file_name(name):
        raise UnusableSecretFile
    *folders, file = directory.parts(name, project=project)
    with open_directory(directory.path) as base:
        return _read(base, folders, file)


def _read(above: int, folders: list[str], file: str) -> str:
    if not folders:
        return read_at(above, file)
    with opened_at(above, folders[0]) as folder:
        return _read(folder, folders[1:], file)


def open_directory(path: Path) -> AbstractContextManager[int]:
    """The configured folder itself, to which links may lead. Raises Unusable."""
    return _opened(path, _FOLDER_FLAGS)


def opened_at(above: int, name: str) -> AbstractContextManager[int]:
    """A folder in an open one, that is no link. Raises Unusable."""
    return _opened(name, _FOLDER_FLAGS | os.O_NOFOLLOW, above=above)


@contextmanager
def _opened(path: Path | str, flags: int, *, above: int | None = None) -> Iterator[int]:
    try:
        descriptor = os.open(path, flags, dir_fd=above)
    except (OSError, ValueError):
        raise UnusableSecretFile from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_at(above: int, name: str) -> str:
    """The text of a file in an open folder. Raises Unusable."""
    for _ in range(ATTEMPTS):
        data = _bytes(above, name)
        if data is not None:
            return _text(data)
    raise UnusableSecretFile


def _bytes(above: int, name: str) -> bytes | None:
    """Read the file; None when it was replaced or written meanwhile, so that it may be half of two secrets."""
    try:
        # Some devices act when they are opened. What counts is what is open, below.
        if not stat.S_ISREG(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
            raise UnusableSecretFile
        descriptor = os.open(name, _FILE_FLAGS, dir_fd=above)
    except (OSError, ValueError):
        raise UnusableSecretFile from None
    try:
        before = _identity(descriptor, above, name)
        _wait_for_renames(above)
        data = _bounded(descriptor)
        is_whole = before is not None and before == _identity(descriptor, above, name)
        return data if is_whole else None
    except OSError:
        raise UnusableSecretFile from None
    finally:
        os.close(descriptor)


def _identity(descriptor: int, above: int, name: str) -> tuple[int, ...] | None:
    """Tell the open file from any other and from itself before a change; None when the name leads to another by now.

    One link alone proves nothing: of a hard link that was removed since it was opened, the other name is left. So the
    name has to lead to this very file, too.
    """
    opened, named = os.fstat(descriptor), os.stat(name, dir_fd=above, follow_symlinks=False)
    if not stat.S_ISREG(opened.st_mode) or opened.st_nlink > 1 or named.st_nlink > 1:
        raise UnusableSecretFile
    found = _told(opened)
    return found if found == _told(named) else None


def _wait_for_renames(above: int) -> None:
    """List the folder, which the kernel does not do while a name in it is replaced.

    A rename takes the link from the file that it replaces a moment before the name leads elsewhere. In that moment a
    hard link to a file outside of the folder looks like a file with one name, which is here.
    """
    with os.scandir(above) as entries:
        next(entries, None)


def _told(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_nlink, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _bounded(descriptor: int) -> bytes:
    data = b""
    while chunk := os.read(descriptor, MOST_BYTES + 1 - len(data)):
        data += chunk
        if len(data) > MOST_BYTES:
            raise UnusableSecretFile
    return data


def _text(data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise UnusableSecretFile from None
    text = text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
    if not text or "\0" in text:
        raise UnusableSecretFile
    return text
