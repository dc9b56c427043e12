"""Addresses of lines and commits at a forge, derived from a repository's settings or checkout.

An address is a pattern with `{commit}`, for a line also with `{path}` and `{line}`; empty if it is unknown.
"""

import re
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from reconciler.model.plan import PlanPlace, PlanTip

NO_PAGES = "none"  # the value for a repository without addresses
PATH = "{path}"


class _Paths(NamedTuple):
    """The addresses of a forge, below the page of a repository."""

    line: str
    commit: str = "/commit/{commit}"


_GITEA = _Paths("/src/commit/{commit}/{path}#L{line}")
_FORGES = {
    "github": _Paths("/blob/{commit}/{path}#L{line}"),
    "gitlab": _Paths("/-/blob/{commit}/{path}#L{line}", "/-/commit/{commit}"),
    "gitea": _GITEA,
    "forgejo": _GITEA,
    "codeberg": _GITEA,
}
"""By the first part of a host's name, so that github.example.org counts like github.com."""

_REMOTE = re.compile(r"(?:(?:https|ssh)://)?(?:[^@/]+@)?([A-Za-z0-9.-]+)(?::[0-9]+(?=/))?[:/]/*([^:@?#]+)")
# A path without `@`: otherwise an unusual user and password could be taken for a host and a path.


def is_known(page: str) -> bool:
    """Return True if the addresses of lines are known for a repository's page, an http or https URL."""
    return _forge(urlsplit(page).hostname or "") in _FORGES


def line_pattern(url: str, web_url: str = "") -> str:
    """Return the pattern of lines for a remote's URL, as in git's configuration, and for `web_url` if it is set,
    which is a page at a known forge, or a pattern.
    """
    if PATH in web_url:
        return web_url
    page = _page(url, web_url)
    return page + _paths(page).line if page else ""


def commit_pattern(url: str, web_url: str = "") -> str:
    """Return the pattern of commits for the same arguments. It is unknown if `web_url` is a pattern of lines."""
    page = "" if PATH in web_url else _page(url, web_url)
    return page + _paths(page).commit if page else ""


def line_address(pattern: str, place: PlanPlace, side: PlanTip) -> str | None:
    """Return the address of a line in one side of a comparison; None without a pattern, or if the side is not
    committed.
    """
    if not pattern or side.worktree:
        return None
    told = {"{commit}": quote(side.commit), PATH: quote(place.path), "{line}": str(place.line)}
    return re.sub(r"\{(?:commit|path|line)\}", lambda found: told[found[0]], pattern)


def _page(url: str, web_url: str) -> str:
    """Return the page of a repository, without a slash at its end."""
    if web_url:
        return "" if web_url == NO_PAGES else web_url.rstrip("/")
    match = _REMOTE.fullmatch(url)
    if match is None or _forge(match[1]) not in _FORGES:
        return ""
    path = match[2].rstrip("/").removesuffix(".git")
    return f"https://{match[1].lower()}/{path}"


def _paths(page: str) -> _Paths:
    return _FORGES[_forge(urlsplit(page).hostname or "")]


def _forge(host: str) -> str:
    return host.lower().partition(".")[0]
