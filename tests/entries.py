"""Repositories to watch, as the settings give them, with their defaults."""

from typing import Any

from reconciler.settings.repositories import Allow, Credentials, Hook, Prune, Repository, Verify
from reconciler.settings.scalars import Topic

HOUR = 3600.0
TOPICS: dict[str, type[Topic]] = {
    "allow": Allow,
    "prune": Prune,
    "verify": Verify,
    "credentials": Credentials,
    "hook": Hook,
}


def watched(name: str, url: str, **given: Any) -> Repository:
    """One entry; what is given stands in place of the default, of a topic as a dictionary."""
    topics = {key: topic.model_construct(**given.pop(key)) for key, topic in TOPICS.items() if key in given}
    return Repository.model_construct(name=name, url=url, **{"branch": "main", **given, **topics})
