"""The files that pages are shown with. There are two, and both come from here.

Belongs here: serving them. Does not: other files, whatever a path says.
"""

from functools import cache
from pathlib import Path

from starlette.responses import Response

from api.at_once import AtOnce
from api.calls import Call

ASSETS = Path(__file__).with_name("assets")


async def serve_style(_call: Call) -> Response:
    """GET /assets/style.css"""
    return _file("style.css", b"text/css; charset=utf-8")


async def serve_icon(_call: Call) -> Response:
    """GET /assets/icon.svg, GET /favicon.ico"""
    return _file("icon.svg", b"image/svg+xml")


@cache
def _file(name: str, media_type: bytes) -> AtOnce:
    return AtOnce((ASSETS / name).read_bytes(), media_type=media_type)
