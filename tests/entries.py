"""Repositories to watch, as the reconciler is told of them, with the defaults of the settings."""

from typing import Any

from reconciler.git.remotes.credentials import Credentials
from reconciler.reconcile.watched import WatchedRepository

HOUR = 3600.0


def watched(name: str, url: str, **given: Any) -> WatchedRepository:
    """One entry; what is given stands in place of the default."""
    defaults: dict[str, Any] = {
        "branch": "main",
        "tag": None,
        "commit": None,
        "ref": None,
        "path": "",
        "include": (),
        "exclude": (),
        "project": "default",
        "interval": 60.0,
        "full_interval": 24 * HOUR,
        "timeout": 60.0,
        "prune": True,
        "prune_min_count": 3,
        "prune_max_percent": 25,
        "atomic": False,
        "suspended": False,
        "allowed_kinds": ("*",),
        "allowed_names": ("*",),
        "accept_invalid": False,
        "credentials": Credentials(),
        "signers_file": None,
        "hook_secret_file": None,
    }
    return WatchedRepository(name=name, url=url, **{**defaults, **given})
