"""Every page, with its methods, and its static files."""

import re
from collections.abc import Collection
from functools import cache
from pathlib import Path

from starlette.responses import Response
from starlette.types import Scope

from api.calls import Call, Endpoint, public
from api.pages import accounts, forms, sign_in
from api.pages.forms import PagePath
from api.responses import Content
from reconciler.notifications import rendering

# The files that pages are shown with. All of them come from here.

ASSETS = Path(__file__).with_name("assets")


async def serve_style(_call: Call) -> Response:
    """GET /assets/style.css"""
    return _file("style.css", b"text/css; charset=utf-8")


async def serve_icon(_call: Call) -> Response:
    """GET /assets/icon.svg, GET /favicon.ico"""
    return _file("icon.svg", b"image/svg+xml")


async def serve_redoc(_call: Call) -> Response:
    """GET /assets/redoc.js"""
    return _file("redoc.js", b"text/javascript; charset=utf-8")


@cache
def _file(name: str, media_type: bytes) -> Content:
    return Content((ASSETS / name).read_bytes(), media_type=media_type)


# The page that notifications lead to: what each type means and what to do.
#
# It tells nothing of this installation, so that nobody need sign in for it.

_CODE = re.compile(r"`([^`]*)`")


async def show_explained(_call: Call) -> Response:
    """GET /docs/notifications"""
    explanations = rendering.explanations().items()
    types = [(type_.value, [_pieces(sentence) for sentence in explained]) for type_, explained in explanations]
    return forms.page("notifications", types=types)


def _pieces(sentence: str) -> list[tuple[bool, str]]:
    """The sentence cut at its backticks; what stood between two of them is code."""
    return [(place % 2 == 1, piece) for place, piece in enumerate(_CODE.split(sentence)) if piece]


# `/docs`: every operation of the interface and every schema, shown by Redoc from `/openapi.json`.
#
# `assets/redoc.txt` has its version, licence and hash.


async def show_reference(_call: Call) -> Response:
    """GET /docs"""
    return forms.page("reference")


async def lead_to_reference(_call: Call) -> Response:
    """GET /docs/"""
    return forms.Elsewhere(PagePath.REFERENCE)


# Every page, with its methods. All are public for the edge: each looks at the cookie itself (`forms.recognise`).

ROUTES = (
    (PagePath.HOME, Endpoint(GET=public(accounts.home))),
    (PagePath.SIGN_IN, Endpoint(GET=public(sign_in.show_sign_in), POST=public(sign_in.sign_in))),
    (PagePath.PROVIDER, Endpoint(GET=public(sign_in.begin_sign_in))),
    (PagePath.CALLBACK, Endpoint(GET=public(sign_in.come_back))),
    (PagePath.INVITATION, Endpoint(GET=public(sign_in.show_invitation), POST=public(sign_in.use_invitation))),
    (PagePath.ACCOUNT, Endpoint(GET=public(accounts.show))),
    (PagePath.KEYS, Endpoint(POST=public(accounts.make_key))),
    (PagePath.REVOKE, Endpoint(POST=public(accounts.revoke_key))),
    (PagePath.PASSWORD, Endpoint(POST=public(accounts.change_password))),
    (PagePath.SIGN_OUT, Endpoint(POST=public(sign_in.sign_out))),
    (PagePath.SIGNED_OUT, Endpoint(GET=public(sign_in.show_signed_out))),
    (PagePath.NOTIFICATIONS, Endpoint(GET=public(show_explained))),
    (PagePath.REFERENCE, Endpoint(GET=public(show_reference))),
    (PagePath.REFERENCE_FOLDER, Endpoint(GET=public(lead_to_reference))),
    (PagePath.STYLE, Endpoint(GET=public(serve_style))),
    (PagePath.REDOC, Endpoint(GET=public(serve_redoc))),
    (PagePath.ICON, Endpoint(GET=public(serve_icon))),
    (PagePath.FAVICON, Endpoint(GET=public(serve_icon))),
)

PAGES = frozenset(path for path, _ in ROUTES)


# A browser that asks for a path that there is not, mistyped or from an old link: it gets a page, and no credential is
# asked for, since nothing is there that one could open.

SENTENCE = "This address leads nowhere here; it may be mistyped, or from an old link."
_LOOKING = frozenset({"GET", "HEAD"})


def is_lost(scope: Scope, *, programs: Collection[str]) -> bool:
    """Return True for such a request. `programs` are the first parts of the paths that are not for browsers: below
    them there is no page, even if there is no such path.
    """
    path = scope["path"]
    if path[1:].partition("/")[0] in programs or path in PAGES or scope["method"] not in _LOOKING:
        return False
    return any(name == b"accept" and b"text/html" in value.lower() for name, value in scope["headers"])
