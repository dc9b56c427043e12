"""A failure on the path of a page, as a page.

Belongs here: the heading of a status and where to go from there. Does not: what an exception tells (`api.errors`).
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple

from starlette.responses import Response

from api.auth import authenticating
from api.errors import Told
from api.pages import paths
from api.pages.rendering import page

HEADINGS: Mapping[int, str] = {
    401: "You are not signed in",
    403: "This was refused",
    404: "There is no such page",
    409: "This does not fit what is there",
    413: "This is too large",
    429: "Too many requests",
    500: "Something went wrong",
    503: "Not at this moment",
}
CHALLENGE = b"www-authenticate"


class FailureLink(NamedTuple):
    """Where somebody may go from a page."""

    place: str
    words: str


ACCOUNT = FailureLink(paths.ACCOUNT, "Go to your account")


def failure_page(said: Told) -> Response:
    """The page of a failure."""
    heading = HEADINGS.get(said.status) or HTTPStatus(said.status).phrase
    # With `Basic` among them a browser would ask for a password in a window of its own.
    headers = tuple((name, authenticating.OF_KEYS if name == CHALLENGE else value) for name, value in said.headers)
    return page(
        "message", status=said.status, headers=headers, heading=heading, sentences=said.sentences, links=(ACCOUNT,)
    )
