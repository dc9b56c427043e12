"""A repository of the settings as the reconciler watches it: its remote, and the digests of its settings."""

import hashlib
from typing import Any

import msgspec
from msgspec import structs

from reconciler.git import refs
from reconciler.git.refs import Followed
from reconciler.git.remotes.credentials import Credentials
from reconciler.git.remotes.sources import Source
from reconciler.model.secret_references import AvailableSecrets
from reconciler.settings.repositories import Repository

READING_VERSION = 2  # grows when this program reads the same bytes in another way: then everything is read again


def followed_by(one: Repository) -> Followed:
    """Return the ref or commit of the remote that is followed."""
    return refs.following(branch=one.branch, tag=one.tag, commit=one.commit, ref=one.ref)


def source_of(one: Repository) -> Source:
    """Return the remote, as `git.remotes` follows it."""
    credentials = Credentials(**dict(one.credentials))
    return Source(url=one.url, follows=followed_by(one), credentials=credentials, timeout=one.timeout)


def origin_of(one: Repository) -> str:
    """Return a digest of where commits come from: while it is the same, a head continues the history before it.

    The credentials do not matter for that.
    """
    return hashlib.sha256(msgspec.json.encode([one.url, _refs(one)])).hexdigest()


def fingerprint_of(one: Repository, secrets: AvailableSecrets, *, rules: str) -> str:
    """Return a digest of all that decides what a commit means: when it changes, the whole commit is read again.

    `rules` is the digest of what the documents of all repositories are judged by; `secrets` are those that they may
    refer to now.
    """
    names = sorted(secrets.env), sorted(secrets.files), secrets.flat, secrets.patterns
    shaping: list[Any] = [READING_VERSION, rules, one.url, _refs(one), one.project, structs.astuple(one.rules), *names]
    return hashlib.sha256(msgspec.json.encode(shaping)).hexdigest()


def _refs(one: Repository) -> tuple[str | None, ...]:
    return one.branch, one.tag, one.commit, one.ref
