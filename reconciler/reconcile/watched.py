"""A watched repository as the reconciler sees it: its settings made plain, and the digests of them."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from reconciler.git import refs
from reconciler.git.refs import Followed
from reconciler.git.remotes.credentials import Credentials
from reconciler.git.remotes.sources import Source
from reconciler.model.repository_rules import RepositoryRules
from reconciler.model.secret_references import AvailableSecrets

READING_VERSION = 2  # grows when this program reads the same bytes in another way: then everything is read again


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedRepository:
    """One entry of `repositories` in the settings, without defaults, so that none is forgotten. Times are seconds.

    At most one of `branch`, `tag`, `commit` and `ref`, any other full name, is given.
    """

    rules: RepositoryRules
    url: str
    branch: str | None
    tag: str | None
    commit: str | None
    ref: str | None
    project: str
    interval: float
    full_interval: float
    timeout: float
    suspended: bool
    credentials: Credentials
    signers_file: Path | None
    hook_secret_file: Path | None
    link: str  # the address of a line at the forge, a pattern of `model.forges`; empty where nobody knows it

    @property
    def name(self) -> str:
        """The name of the repository."""
        return self.rules.name

    @property
    def follows(self) -> Followed:
        """The ref or commit of the remote that is followed."""
        return refs.following(branch=self.branch, tag=self.tag, commit=self.commit, ref=self.ref)

    @property
    def source(self) -> Source:
        """The remote, as `git.remotes` follows it."""
        return Source(url=self.url, follows=self.follows, credentials=self.credentials, timeout=self.timeout)

    @property
    def origin(self) -> str:
        """A digest of where commits come from: while it is the same, a head continues the history before it.

        The credentials do not matter for that.
        """
        return hashlib.sha256(msgspec.json.encode([self.url, self._followed])).hexdigest()

    def fingerprint(self, secrets: AvailableSecrets, *, rules: str) -> str:
        """Return a digest of all that decides what a commit means: when it changes, the whole commit is read again.

        `rules` is the digest of what the documents of all repositories are judged by; `secrets` are those that they may
        refer to now.
        """
        shaping: list[Any] = [
            READING_VERSION,
            rules,
            self.url,
            self._followed,
            self.project,
            structs.astuple(self.rules),
            sorted(secrets.env),
            sorted(secrets.files),
            secrets.flat,
            secrets.patterns,
        ]
        return hashlib.sha256(msgspec.json.encode(shaping)).hexdigest()

    @property
    def _followed(self) -> tuple[str | None, ...]:
        return self.branch, self.tag, self.commit, self.ref
