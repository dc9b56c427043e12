"""Templates and the pages that they make: the one door to Jinja2, which is loaded with the first page.

Belongs here: turning values into HTML, escaped wherever they stand. Does not: which values.
"""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import Response

from api.answers import Header
from api.pages import paths

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).with_name("templates")
TYPE: Header = (b"content-type", b"text/html; charset=utf-8")


class Page(Response):
    """A page that is bytes already."""

    def __init__(self, body: bytes, *, status: int = 200, headers: tuple[Header, ...] = ()) -> None:
        self.status_code = status
        self.body = body
        self.background = None
        self.raw_headers = [TYPE, (b"content-length", b"%d" % len(body)), *headers]


class Elsewhere(Response):
    """See there instead (RFC 9110, 15.4.4): a browser asks for it with GET. `place` is ASCII, as URLs are."""

    def __init__(self, place: str, *, headers: tuple[Header, ...] = ()) -> None:
        self.status_code = 303
        self.body = b""
        self.background = None
        self.raw_headers = [(b"location", place.encode("ascii")), (b"content-length", b"0"), *headers]


def page(template: str, *, status: int = 200, headers: tuple[Header, ...] = (), **values: object) -> Page:
    """The page of a template. What it uses must be given; all of it is text, and none of it HTML."""
    html = _environment().get_template(f"{template}.html").render(values)
    # A lone surrogate, which JSON may spell, is no text that can be sent.
    return Page(html.encode("utf-8", "replace"), status=status, headers=headers)


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - most services show few pages

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["paths"] = paths
    return environment
