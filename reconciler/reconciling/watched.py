"""A watched repository as the reconciler sees it: settings made plain, and the fingerprint of what shapes a read."""

import hashlib
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from reconciler.resources.secret_references import Available

READING_VERSION = 1  # grows when this program reads the same bytes in another way: then everything is read again


@dataclass(frozen=True, slots=True)
class Watched:
    """One entry of `repositories` in the settings. Times are seconds."""

    name: str
    url: str
    branch: str | None
    path: str
    project: str
    interval: float
    full_interval: float
    timeout: float
    prune: bool
    atomic: bool
    suspended: bool
    prune_min_count: int = 3
    prune_max_percent: int = 25
    allowed_kinds: tuple[str, ...] = ("*",)
    allowed_names: tuple[str, ...] = ("*",)
    accept_invalid: bool = False

    @property
    def local_path(self) -> str | None:
        """The folder on this machine that can be watched, or None for a remote."""
        if self.url.startswith("file://"):
            return unquote(urlsplit(self.url).path)
        return None if "://" in self.url else self.url


def origin(watched: Watched) -> str:
    """A digest of where commits come from: as long as it is the same, a head continues the history before it."""
    return hashlib.sha256(msgspec.json.encode([watched.url, watched.branch])).hexdigest()


def fingerprint(watched: Watched, *, api_versions: frozenset[str], schemas: str, secrets: Available) -> str:
    """A digest of all that decides what a commit means: when it changes, the same commit is read again, whole.

    `schemas` is the digest of the schemas that documents are judged by, `secrets` what they may refer to now.
    """
    shaping: list[Any] = [
        READING_VERSION,
        schemas,
        sorted(api_versions),
        watched.url,
        watched.branch,
        watched.path,
        watched.project,
        watched.prune,
        watched.prune_min_count,
        watched.prune_max_percent,
        watched.atomic,
        watched.allowed_kinds,
        watched.allowed_names,
        watched.accept_invalid,
        sorted(secrets.env),
        sorted(secrets.files),
        secrets.flat,
    ]
    return hashlib.sha256(msgspec.json.encode(shaping)).hexdigest()
