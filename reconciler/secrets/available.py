"""Which secrets a project may refer to now, by name.

Belongs here: listing, bounded, by the same checks as reading. Does not: values, of which nothing leaves this module.
"""

import os
from collections.abc import Iterator
from itertools import islice

from reconciler.model import secret_references
from reconciler.model.secret_references import AvailableSecrets
from reconciler.secrets import directory
from reconciler.secrets.directory import SecretDirectory, UnusableSecretFile
from reconciler.secrets.sources import SecretSources

MOST_FILES = 1_000  # of a project, in the order of the names
MOST_LEVELS = 8  # the folders and the file in them
MOST_ENTRIES = 10_000  # looked at for one list; where there are more, which ones count is left to chance


def available_secrets(sources: SecretSources, project: str) -> AvailableSecrets:
    """The names. What cannot be read is not there; so is what is hidden, or has no name that a reference takes.

    Reads every file, so it belongs on a thread. Raises nothing.
    """
    names = _Listing(sources.directory, project).names()
    return AvailableSecrets(
        env=frozenset(sources.variables(project)),
        files=frozenset(islice(names, MOST_FILES)),
        flat=sources.directory.flat,
    )


class _Listing:
    """One walk through the files of a project, which looks at so many entries and no more."""

    def __init__(self, files: SecretDirectory, project: str) -> None:
        self._files = files
        self._project = project
        self._left = MOST_ENTRIES

    def names(self) -> Iterator[str]:
        """Each name once, a folder's sorted."""
        try:
            with directory.open_directory(self._files.path) as base:
                if self._files.flat:
                    yield from self._flat(base, self._files.prefix(self._project))
                else:
                    with directory.opened_at(base, self._project) as folder:
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
                    with directory.opened_at(folder, entry) as inner:
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
        directory.read_at(folder, name)
    except UnusableSecretFile:
        return False
    return True
