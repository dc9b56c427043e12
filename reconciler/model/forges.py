"""Addresses of lines at a forge, from what the settings or a checkout say of a repository.

An address is a pattern with `{commit}`, `{path}` and `{line}`, or empty where nobody knows one.
"""

import re
from urllib.parse import quote, urlsplit

from reconciler.model.plan import PlanPlace, PlanTip

NO_PAGES = "none"  # for a repository whose lines have no address
PATH = "{path}"

_GITEA = "/src/commit/{commit}/{path}#L{line}"
_LINES = {
    "github": "/blob/{commit}/{path}#L{line}",
    "gitlab": "/-/blob/{commit}/{path}#L{line}",
    "gitea": _GITEA,
    "forgejo": _GITEA,
    "codeberg": _GITEA,
}
"""By the first part of a host's name: github.com as well as github.example.org."""

_REMOTE = re.compile(r"(?:(?:https|ssh)://)?(?:[^@/]+@)?([A-Za-z0-9.-]+)(?::[0-9]+(?=/))?[:/]/*([^:@?#]+)")
# A path without `@`: else a user and a password that are written oddly could be taken for a host and a path.


def is_known(page: str) -> bool:
    """Decide if lines have addresses below the page of a repository, an http or https URL."""
    return _forge(urlsplit(page).hostname or "") in _LINES


def line_pattern(url: str, web_url: str = "") -> str:
    """Return the pattern for a remote's URL, as git or a checkout writes it, and for its page if one is set: that of a
    known forge, or a pattern already.
    """
    if web_url == NO_PAGES or PATH in web_url:
        return "" if web_url == NO_PAGES else web_url
    page = web_url or _page(url)
    return page.rstrip("/") + _LINES[_forge(urlsplit(page).hostname or "")] if page else ""


def line_address(pattern: str, place: PlanPlace, side: PlanTip) -> str | None:
    """Return the address of a place in one side; None without a pattern, and for what is not committed."""
    if not pattern or side.worktree:
        return None
    told = {"{commit}": quote(side.commit), PATH: quote(place.path), "{line}": str(place.line)}
    return re.sub(r"\{(?:commit|path|line)\}", lambda found: told[found[0]], pattern)


def _page(url: str) -> str:
    match = _REMOTE.fullmatch(url)
    if match is None or _forge(match[1]) not in _LINES:
        return ""
    path = match[2].rstrip("/").removesuffix(".git")
    return f"https://{match[1].lower()}/{path}"


def _forge(host: str) -> str:
    return host.lower().partition(".")[0]
