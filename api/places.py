"""Which documented path a request is of, and which project its path names: for what is counted of refused requests,
also of those that no router saw.

Belongs here: matching. Does not: whether somebody may (`judging`), counting (`reconciler.auth.rate_limits`).
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from reconciler.server.services import Services

OF_PROJECT = "/v1/projects/{name}"
OF_REPOSITORY = ("/v1/repositories/{name}", "/hooks/{repository}")


class RequestPlace(NamedTuple):
    """A path as the interface documents it, empty for any other; and an existing project, or none."""

    path: str
    project: str


class RequestPlaces:
    """Made once of all paths, in the order in which they are tried."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = sorted(paths, key=lambda path: "{" in path)  # a literal path wins
        self._pattern = re.compile("|".join(f"({path_pattern(path)})" for path in self._paths))

    def of(self, path: str, services: Services) -> RequestPlace:
        """Where a request of this path leads."""
        match = self._pattern.fullmatch(path)
        if match is None or match.lastindex is None:
            return RequestPlace("", "")
        documented = self._paths[match.lastindex - 1]
        return RequestPlace(documented, _project(documented, path, services) or "")


def path_pattern(path: str) -> str:
    """What a path with parameters matches: its fixed parts as they are written, and one part for each parameter."""
    return "[^/]+".join(map(re.escape, re.split(r"\{\w+\}", path)))


def _project(documented: str, path: str, services: Services) -> str | None:
    if documented.startswith(OF_PROJECT):
        name = _part(path, OF_PROJECT)
        return name if name in services.accounts.directory.projects else None
    of_repository = next((prefix for prefix in OF_REPOSITORY if documented.startswith(prefix)), None)
    return None if of_repository is None else services.repositories.project_of(_part(path, of_repository))


def _part(path: str, prefix: str) -> str:
    """What stands in a path where the prefix has its parameter, which is its last part."""
    return path.split("/")[prefix.count("/")]
