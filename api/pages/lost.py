"""A browser that asks for a path that there is not, mistyped or from an old link: it gets a page, and no credential is
asked for, since nothing is there that one could open.

Belongs here: telling such a request from a program's. Does not: the page (`failures`), which paths there are
(`api.app`).
"""

from collections.abc import Collection

from starlette.types import Scope

from api.pages.routes import PAGES

SENTENCE = "This address leads nowhere here; it may be mistyped, or from an old link."
_LOOKING = frozenset({"GET", "HEAD"})


def is_lost(scope: Scope, *, programs: Collection[str]) -> bool:
    """Whether it is one. `programs` are the first parts of the paths that are not for browsers: below them there is no
    page, whether a path is there or not.
    """
    path = scope["path"]
    if path[1:].partition("/")[0] in programs or path in PAGES or scope["method"] not in _LOOKING:
        return False
    return any(name == b"accept" and b"text/html" in value.lower() for name, value in scope["headers"])
