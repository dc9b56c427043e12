"""Secrets for a demonstration: something made up for each reference in a folder, so that all of them lead somewhere.

Belongs here: finding the references and writing what they name. Does not: what a service makes of them.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from reconciler.model import positions, secret_references
from reconciler.model.secret_references import SecretReference, SecretSource

VALUE = "made up for the demonstration"


def pretend_secrets(folder: Path, secrets: Path) -> dict[str, str]:
    """Write the files that are referred to below `secrets`, a project's folder; the variables that are."""
    found = set(secret_references_in(folder))
    for reference in sorted(found):
        if reference.source is SecretSource.FILE:
            file = secrets / reference.name
            with suppress(OSError):  # `a` and `a/b` cannot both be: what is missing is told like any other
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(VALUE)
    return {reference.name: VALUE for reference in found if reference.source is SecretSource.ENV}


def secret_references_in(folder: Path) -> Iterator[SecretReference]:
    """Every good reference in the files of a folder, as often as it stands there."""
    for above, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in names:
            yield from filter(None, secret_references.find_secret_references(_text(Path(above, name))))


def _text(file: Path) -> str:
    """What is in it, as far as a service would read it; nothing of a link or a pipe."""
    if file.is_symlink() or not file.is_file():
        return ""
    with file.open("rb") as opened:
        return opened.read(positions.FILE_LIMITS.bytes).decode("utf-8", "replace")
