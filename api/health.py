"""Whether the process lives, whether it can serve, and which version it is."""

import asyncio
import json
import logging

from starlette.responses import Response

from api import errors
from api.answers import JSON, Json
from api.at_once import AtOnce
from api.calls import Call
from reconciler.model.errors import ReconcilerError
from reconciler.version import __version__

logger = logging.getLogger(__name__)

LIVE = AtOnce(b'{"status":"live"}', media_type=JSON)
READY = b'{"status":"ready"}'
VERSION = json.dumps(__version__).encode()
READY_SECONDS = 5.0  # a store that takes longer does not serve


async def live(_call: Call) -> Response:
    """GET /livez"""
    return LIVE


async def ready(call: Call) -> Response:
    """GET /readyz: the store is open and what was last good is served; remotes do not count."""
    try:
        async with asyncio.timeout(READY_SECONDS):
            await call.services.store.revision()
    except (ReconcilerError, TimeoutError) as error:
        logger.warning("The service is not ready: the store does not answer.", exc_info=error)
        return Json(errors.body(["The store does not answer; the service's log says why."]), status=503)
    return Json(READY)


async def version(_call: Call) -> Response:
    """GET /v1/version"""
    return Json(VERSION)
