"""Conversions of a repository's settings for the reconciler: its remote, and digests of the settings."""

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

READING_VERSION = 2  # increase it when the program reads the same files differently: then everything is read again


def followed_by(one: Repository) -> Followed:
    """Return the ref or commit of the remote that is followed."""
    return refs.following(branch=one.branch, tag=one.tag, commit=one.commit, ref=one.ref)


def source_of(one: Repository) -> Source:
    """Return the remote, as `git.remotes` follows it."""
    credentials = Credentials(**dict(one.credentials))
    return Source(url=one.url, follows=followed_by(one), credentials=credentials, timeout=one.timeout)


def origin_of(one: Repository) -> str:
    """Return a digest of the URL and the followed ref. While it is the same, a head should continue the history of the
    applied commit. Credentials do not matter.
    """
    return hashlib.sha256(msgspec.json.encode([one.url, _refs(one)])).hexdigest()


def fingerprint_of(one: Repository, secrets: AvailableSecrets, *, rules: str) -> str:
    """Return a digest of everything that affects how a commit is judged: if it changes, the whole commit is read again.

    `rules` is a digest of the rules for all documents. `secrets` are those that the project may refer to now.
    """
    names = sorted(secrets.env), sorted(secrets.files), secrets.flat, secrets.patterns
    shaping: list[Any] = [READING_VERSION, rules, one.url, _refs(one), one.project, structs.astuple(one.rules), *names]
    return hashlib.sha256(msgspec.json.encode(shaping)).hexdigest()


def _refs(one: Repository) -> tuple[str | None, ...]:
    return one.branch, one.tag, one.commit, one.ref
