"""`/docs`: every operation of the interface and every schema, to read.

Belongs here: making the page once, when somebody asks for it first, and keeping its bytes. Does not: what is on it
(`api.reference`).

It is the contract of `/openapi.json`, and as public: it tells nothing of this installation.
"""

import asyncio
import json
import threading
from functools import cache

from starlette.responses import Response

from api import openapi
from api.calls import Call
from api.pages import paths
from api.pages.rendering import Elsewhere, Page, page
from api.reference.contents import reference_contents

_making = threading.Lock()  # so that it is made once, however many ask at first


async def show(_call: Call) -> Response:
    """GET /docs"""
    # Elsewhere than on the loop: a tenth of a second, the first time.
    return Page(await asyncio.to_thread(_whole))


async def lead(_call: Call) -> Response:
    """GET /docs/"""
    return Elsewhere(paths.REFERENCE)


def _whole() -> bytes:
    with _making:
        return rendered()


@cache
def rendered() -> bytes:
    """The page; the same bytes for the life of the process."""
    return bytes(page("reference", contents=reference_contents(json.loads(openapi.encoded_document()))).body)
