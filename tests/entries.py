"""Repositories to watch, as the reconciler is told of them, with the defaults of the settings."""

from typing import Any

from reconciler.git.remotes.credentials import Credentials
from reconciler.model.repository_rules import RepositoryRules
from reconciler.reconcile.watched import WatchedRepository

HOUR = 3600.0


def watched(name: str, url: str, **given: Any) -> WatchedRepository:
    """One entry; what is given stands in place of the default."""
    defaults: dict[str, Any] = {
        "branch": "main",
        "tag": None,
        "commit": None,
        "ref": None,
        "project": "default",
        "interval": 60.0,
        "full_interval": 24 * HOUR,
        "timeout": 60.0,
        "suspended": False,
        "credentials": Credentials(),
        "signers_file": None,
        "hook_secret_file": None,
        "link": "",
    }
    rules = RepositoryRules(
        name=name, **{key: given.pop(key) for key in RepositoryRules.__struct_fields__ if key in given}
    )
    return WatchedRepository(rules=rules, url=url, **{**defaults, **given})
