"""A watched repository as the reconciler sees it: settings made plain, and the fingerprint of what shapes a read."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from reconciler.git import refs
from reconciler.git.refs import Followed
from reconciler.git.remotes.credentials import Credentials
from reconciler.git.remotes.sources import Source
from reconciler.model.secret_references import AvailableSecrets

READING_VERSION = 2  # grows when this program reads the same bytes in another way: then everything is read again


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedRepository:
    """One entry of `repositories` in the settings, whole: a default would hide what was forgotten. Times are seconds.

    At most one of `branch`, `tag`, `commit` and `ref`, any other full name, is given.
    """

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
    prune_min_count: int
    prune_max_percent: int
    allowed_kinds: tuple[str, ...]
    allowed_names: tuple[str, ...]
    accept_invalid: bool
    tag: str | None
    commit: str | None
    ref: str | None
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    credentials: Credentials
    signers_file: Path | None
    hook_secret_file: Path | None

    @property
    def follows(self) -> Followed:
        """What of the remote is followed."""
        return refs.following(branch=self.branch, tag=self.tag, commit=self.commit, ref=self.ref)

    @property
    def source(self) -> Source:
        """What it asks of its remote."""
        return Source(url=self.url, follows=self.follows, credentials=self.credentials, timeout=self.timeout)


def watched_origin(watched: WatchedRepository) -> str:
    """A digest of where commits come from: as long as it is the same, a head continues the history before it.

    With which credentials they come does not matter.
    """
    return hashlib.sha256(msgspec.json.encode([watched.url, _followed(watched)])).hexdigest()


def settings_fingerprint(
    watched: WatchedRepository,
    *,
    api_versions: frozenset[str],
    refuse_unknown: bool,
    schemas: str,
    secrets: AvailableSecrets,
) -> str:
    """A digest of all that decides what a commit means: when it changes, the same commit is read again, whole.

    `schemas` is the digest of the schemas that documents are judged by, `secrets` what they may refer to now.
    """
    shaping: list[Any] = [
        READING_VERSION,
        schemas,
        sorted(api_versions),
        refuse_unknown,
        watched.url,
        _followed(watched),
        watched.path,
        watched.include,
        watched.exclude,
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


def _followed(watched: WatchedRepository) -> tuple[str | None, ...]:
    return watched.branch, watched.tag, watched.commit, watched.ref
