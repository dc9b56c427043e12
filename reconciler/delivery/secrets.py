"""Secrets of projects: the variables and files that a project may refer to, and the values of references.

References are resolved anew each time, so that a new secret counts. A pattern of variables is a name in which `*`
stands for any characters and `<PROJECT>` for the project, in upper case with `_` for `-`. Two underscores behind it
keep the patterns of two projects apart, since no project's name has two dashes in a row.

**Files** are read safely, whatever somebody puts into the folder. Beneath the configured folder no link is followed, at
no depth: each part of a name is opened from the folder above it, so nothing can be replaced by a link between a check
and the use. The open file is checked again: a regular file with one name, so that it is not another file's hard link. A
pipe or device never blocks the reader.
"""

import fnmatch
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from reconciler.model import secret_references
from reconciler.model.errors import Refused
from reconciler.model.secret_references import AvailableSecrets, SecretReference, SecretSource, own_patterns
from reconciler.settings.models import Settings

MOST_SECRET_BYTES = 64 * 1024
ATTEMPTS = 3  # at a file that is being replaced

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class UnusableSecretFile(Exception):
    """The file is missing, or may not be read. The reason is not told: it would say which files exist."""


@dataclass(frozen=True, slots=True)
class SecretDirectory:
    """The folder of all files: a folder in it for each project or, if `flat`, `<project>_NAME` with `_` for `/`."""

    path: Path
    flat: bool = False

    def place(self, name: str, *, project: str) -> Path:
        """Return the path of a file of this name."""
        return self.path.joinpath(*self.parts(name, project=project))

    def parts(self, name: str, *, project: str) -> tuple[str, ...]:
        """Return the names of the folders and of the file, below `path`."""
        if self.flat:
            return (self.prefix(project) + secret_references.flattened(name),)
        return (project, *name.split("/"))

    def prefix(self, project: str) -> str:
        """Return the beginning of a project's file names if all are in one folder. No project's name has `_`."""
        return f"{project}_"


def configured_directory(directory: Path | None, *, state: Path, environment: Mapping[str, str]) -> SecretDirectory:
    """Return the folder of the setting, or that of systemd's `LoadCredential=`, or one in the state directory."""
    credentials = Path(environment.get("CREDENTIALS_DIRECTORY", ""))
    if directory is None and credentials.is_absolute():
        return SecretDirectory(credentials, flat=True)
    return SecretDirectory(directory or state / "secrets")


def read_secret_file(directory: SecretDirectory, name: str, *, project: str) -> str:
    """Return the text of a file without the newline at its end; it is not empty. Raises UnusableSecretFile."""
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
    """Open the configured folder itself, which may be a link. Raises UnusableSecretFile."""
    return _opened(path, _FOLDER_FLAGS)


def opened_at(above: int, name: str) -> AbstractContextManager[int]:
    """Open a folder in an open one; it may not be a link. Raises UnusableSecretFile."""
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
    """Return the text of a file in an open folder. Raises UnusableSecretFile."""
    for _ in range(ATTEMPTS):
        data = _bytes(above, name)
        if data is not None:
            return _text(data)
    raise UnusableSecretFile


def _bytes(above: int, name: str) -> bytes | None:
    """Read the file; None if it was replaced or written meanwhile, because the bytes may mix two secrets."""
    try:
        # Check before the opening too, because some devices act when they are opened. The check of the open file below
        # decides.
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
    """Return the identity of the open file and its content; None if the name now leads to another file. A link count of
    one is not enough: a hard link that was removed after the opening leaves one name, the other one. So the name must
    lead to this file too.
    """
    opened, named = os.fstat(descriptor), os.stat(name, dir_fd=above, follow_symlinks=False)
    if not stat.S_ISREG(opened.st_mode) or opened.st_nlink > 1 or named.st_nlink > 1:
        raise UnusableSecretFile
    found = _status_fields(opened)
    return found if found == _status_fields(named) else None


def _wait_for_renames(above: int) -> None:
    """Wait for renames in the folder: the kernel does not list it during one. A rename removes the link of the replaced
    file a moment before the name leads to the new one. In that moment, a hard link to a file outside looks like a file
    whose only name is here.
    """
    with os.scandir(above) as entries:
        next(entries, None)


def _status_fields(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_nlink, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _bounded(descriptor: int) -> bytes:
    data = b""
    while chunk := os.read(descriptor, MOST_SECRET_BYTES + 1 - len(data)):
        data += chunk
        if len(data) > MOST_SECRET_BYTES:
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


def allowed_variables(names: Iterable[str], *, patterns: Iterable[str], project: str) -> frozenset[str]:
    """Return the names that match a pattern and can be written in a reference; never the service's own.

    `patterns` are of the shape that the settings take: letters, digits, `_`, `*` and `<PROJECT>`.
    """
    own = [re.compile(fnmatch.translate(pattern)).match for pattern in own_patterns(patterns, project)]
    # The patterns first: they leave out nearly all of the environment, and this runs at each poll of each repository.
    return frozenset(name for name in names if any(match(name) for match in own) and _may_be_named(name))


def _may_be_named(name: str) -> bool:
    is_reserved = secret_references.is_reserved(SecretReference(SecretSource.ENV, name))
    return secret_references.is_env_name(name) and not is_reserved


@dataclass(frozen=True, slots=True)
class SecretSources:
    """The service's environment at its start, the patterns of the variables that projects may read, and their files."""

    environment: Mapping[str, str] = field(repr=False)
    patterns: tuple[str, ...]
    directory: SecretDirectory

    def variables(self, project: str) -> dict[str, str]:
        """Return the variables that a project may refer to, with their values, without empty ones and invalid text."""
        names = allowed_variables(self.environment, patterns=self.patterns, project=project)
        return {name: self.environment[name] for name in sorted(names) if is_text(self.environment[name])}


def is_text(value: str) -> bool:
    """Return true if a variable is not empty and is UTF-8. Other bytes are surrogates in Python."""
    try:
        return bool(value.encode("utf-8"))
    except UnicodeEncodeError:
        return False


def configured_sources(settings: Settings, *, environment: Mapping[str, str]) -> SecretSources:
    """Return the sources that the settings name. `environment` is copied."""
    folder = configured_directory(settings.secrets.directory, state=settings.state_dir, environment=environment)
    return SecretSources(dict(environment), settings.secrets.env, folder)


MOST_FILES = 1_000  # of a project, in the order of the names
MOST_LEVELS = 8  # the folders and the file in them
MOST_ENTRIES = 10_000  # read for one list; with more, it is undefined which ones count


def available_secrets(sources: SecretSources, project: str) -> AvailableSecrets:
    """Return the names. A file is left out if it cannot be read, is hidden, or has a name that no reference can have.

    Reads every file, so it belongs on a thread. Raises nothing.
    """
    names = _Listing(sources.directory, project).names()
    return AvailableSecrets(
        env=frozenset(sources.variables(project)),
        files=frozenset(islice(names, MOST_FILES)),
        flat=sources.directory.flat,
        patterns=own_patterns(sources.patterns, project),
    )


class _Listing:
    """One walk through the files of a project, with a limit on entries."""

    def __init__(self, files: SecretDirectory, project: str) -> None:
        self._files = files
        self._project = project
        self._left = MOST_ENTRIES

    def names(self) -> Iterator[str]:
        """Return each name once, sorted in each folder."""
        try:
            with open_directory(self._files.path) as base:
                if self._files.flat:
                    yield from self._flat(base, self._files.prefix(self._project))
                else:
                    with opened_at(base, self._project) as folder:
                        yield from self._below(folder, "", levels=MOST_LEVELS)
        except UnusableSecretFile:
            return

    def _flat(self, base: int, prefix: str) -> Iterator[str]:
        for entry in self._entries(base):
            name = entry.removeprefix(prefix)
            if name != entry and secret_references.is_file_name(name) and _is_readable(base, entry):
                yield name

    def _below(self, folder: int, above: str, *, levels: int) -> Iterator[str]:
        for entry in self._entries(folder):
            name = above + entry
            if not secret_references.is_file_name(name):
                continue
            if _is_readable(folder, entry):
                yield name
            elif levels > 1:
                try:
                    with opened_at(folder, entry) as inner:
                        yield from self._below(inner, f"{name}/", levels=levels - 1)
                except UnusableSecretFile:
                    continue

    def _entries(self, folder: int) -> list[str]:
        try:
            with os.scandir(folder) as found:
                names = sorted(entry.name for entry in islice(found, self._left))
        except OSError:
            return []
        self._left -= len(names)
        return names


def _is_readable(folder: int, name: str) -> bool:
    try:
        read_at(folder, name)
    except UnusableSecretFile:
        return False
    return True


MOST_CHARACTERS = 1024 * 1024  # of one value, because a text may refer to any number of files

MALFORMED = "A reference to a secret is not written as `${env:NAME}` or `${file:NAME}`; correct it."
TOO_LONG = "What a value with references to secrets stands for is longer than 1,048,576 characters; shorten it."


class UnresolvableSecret(Refused):
    """A reference has no target. The message names the reference and the place to check, never a value."""


class Resolved(NamedTuple):
    """A text with its references resolved, and the value of each reference."""

    text: str
    secrets: tuple[str, ...]

    def __repr__(self) -> str:
        """Show neither."""
        return "Resolved()"


def resolve_secrets(text: str, *, sources: SecretSources, project: str) -> Resolved:
    """Resolve the references in a text. The value of a secret is used as it is, even if it looks like a reference.

    Raises Unresolvable.
    """
    values: dict[SecretReference, str] = {}
    parts: list[str] = []
    size = 0
    for piece in secret_references.text_pieces(text):
        if piece is None:
            raise UnresolvableSecret(MALFORMED)
        if isinstance(piece, SecretReference) and piece not in values:
            values[piece] = _value(piece, sources=sources, project=project)
        parts.append(values[piece] if isinstance(piece, SecretReference) else piece)
        size += len(parts[-1])
        if size > MOST_CHARACTERS:
            raise UnresolvableSecret(TOO_LONG)
    return Resolved("".join(parts), tuple(values.values()))


def _value(reference: SecretReference, *, sources: SecretSources, project: str) -> str:
    if reference.source is SecretSource.ENV:
        value = sources.variables(project).get(reference.name)
        if value is None:
            raise UnresolvableSecret(_no_variable(reference))
        return value
    try:
        return read_secret_file(sources.directory, reference.name, project=project)
    except UnusableSecretFile:
        raise UnresolvableSecret(_no_file(reference, sources=sources, project=project)) from None


def _no_variable(reference: SecretReference) -> str:
    return (
        f"`{reference}` leads to nothing: give the service a variable of this name that is not empty and that "
        "`secrets.env` lets the project see, and restart it."
    )


def _no_file(reference: SecretReference, *, sources: SecretSources, project: str) -> str:
    place = sources.directory.place(reference.name, project=project)
    return (
        f"`{reference}` leads to nothing: put a file of text, not empty and of at most 64 KiB, at {place}, which the "
        "service can read and to which no link leads."
    )
