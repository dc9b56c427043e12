"""Every page, with its methods, and its static files."""

from functools import cache
from pathlib import Path

from starlette.responses import Response

from api.calls import Call, Subject
from api.pages import (
    accounts,
    audit,
    configurations,
    console,
    deliveries,
    forms,
    overview,
    people,
    problems,
    resources,
    runs,
    sign_in,
)
from api.pages.forms import PagePath
from api.responses import OF_ASSETS, OF_REFERENCE, Content
from api.routing import Routes, Style
from reconciler.notifications import rendering

routes = Routes(forms.STYLE)

# The static files of pages. All of them come from this service.

assets = Routes(Style(OF_ASSETS, forms.failure_page))
ASSETS = Path(__file__).with_name("assets")


@assets.add(f"GET {PagePath.STYLE}", Subject.PUBLIC)
async def serve_style(_call: Call) -> Response:
    """Answer with the style sheet."""
    return _file("style.css", b"text/css; charset=utf-8")


@assets.add(f"GET {PagePath.ICON}", Subject.PUBLIC)
@assets.add(f"GET {PagePath.FAVICON}", Subject.PUBLIC)
async def serve_icon(_call: Call) -> Response:
    """Answer with the icon."""
    return _file("icon.svg", b"image/svg+xml")


@assets.add(f"GET {PagePath.HTMX}", Subject.PUBLIC)
async def serve_htmx(_call: Call) -> Response:
    """Answer with htmx, which updates pages of the console."""
    return _file("htmx.js", b"text/javascript; charset=utf-8")


@assets.add(f"GET {PagePath.SCRIPT}", Subject.PUBLIC)
async def serve_script(_call: Call) -> Response:
    """Answer with the console's own script."""
    return _file("console.js", b"text/javascript; charset=utf-8")


@assets.add(f"GET {PagePath.REDOC}", Subject.PUBLIC)
async def serve_redoc(_call: Call) -> Response:
    """Answer with the script of the reference."""
    return _file("redoc.js", b"text/javascript; charset=utf-8")


@cache
def _file(name: str, media_type: bytes) -> Content:
    return Content((ASSETS / name).read_bytes(), media_type=media_type)


# The page that notifications link to: it explains each type and what to do.
#
# It contains nothing about this installation, so it needs no sign-in.


@routes.add(f"GET {PagePath.NOTIFICATION_TYPES}", Subject.PUBLIC)
async def show_explained(_call: Call) -> Response:
    """Explain each type of notification."""
    return forms.page("notification-types", types=rendering.explanations())


# `/docs`: every operation of the interface and every schema, shown by Redoc from `/openapi.json`.
#
# `assets/redoc.txt` has its version, licence and hash.


reference_routes = Routes(Style(OF_REFERENCE, forms.failure_page))


@reference_routes.add(f"GET {PagePath.REFERENCE}", Subject.PUBLIC)
async def show_reference(_call: Call) -> Response:
    """Show the reference."""
    return forms.page("reference")


# Every page. All are public for the edge: each looks at the cookie itself (`forms.recognise`).

NOUNS = (sign_in.routes, accounts.routes, routes, assets, reference_routes, console.routes)
CONSOLE = (audit, configurations, deliveries, overview, people, problems, resources, runs)
"""The modules whose pages are in `console.routes`."""

ENDPOINTS = {path: endpoint for noun in NOUNS for path, endpoint in noun.endpoints.items()}
