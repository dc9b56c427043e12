"""Every operation of the interface by noun, and the paths about the service itself: health, version and metrics."""

import asyncio
import json
import logging

from starlette.responses import Response

from api import (
    audit_events,
    deliveries,
    errors,
    events,
    logs,
    notifications,
    openapi,
    plans,
    projects,
    repositories,
    resources,
    responses,
    search,
    users,
)
from api.calls import Call, Subject
from api.responses import Json
from api.routing import Endpoint, Routes
from reconciler.model.error_codes import ErrorCode
from reconciler.model.errors import ReconcilerError
from reconciler.model.principals import Permission
from reconciler.ops import metric_families
from reconciler.store.contract import NameTaken
from reconciler.version import __version__

logger = logging.getLogger(__name__)

routes = Routes()

LIVE = Json(b'{"status":"live"}')
READY = b'{"status":"ready"}'
VERSION = json.dumps(__version__).encode()
READY_SECONDS = 5.0  # a store that takes longer does not serve


@routes.add("GET /livez", Subject.PUBLIC)
async def live(_call: Call) -> Response:
    """Answer that the process is alive."""
    return LIVE


@routes.add("GET /readyz", Subject.PUBLIC)
async def ready(call: Call) -> Response:
    """Answer if the service can be used: the store answers, and its resources are served. Remotes do not matter."""
    contact = call.services.contact
    if contact is not None and contact.stale_seconds is not None:
        raise errors.Unavailable("The database does not answer this replica.", code=ErrorCode.STORE_UNAVAILABLE)
    if (keeper := call.services.keeper) is not None:
        try:
            keeper.check_name()
        except NameTaken as error:
            raise errors.Unavailable(error.message, code=ErrorCode.REPLICA_UNAVAILABLE) from error
    try:
        async with asyncio.timeout(READY_SECONDS):
            await call.services.store.revision()
    except (ReconcilerError, TimeoutError) as error:
        logger.warning("The service is not ready: the store does not answer.", exc_info=error)
        sentence = "The store does not answer; the service's log says why."
        raise errors.Unavailable(sentence, code=ErrorCode.STORE_UNAVAILABLE) from error
    return Json(READY)


@routes.add("GET /v1/version", Subject.PUBLIC)
async def version(_call: Call) -> Response:
    """Answer with the version of the program."""
    return Json(VERSION)


@routes.add("GET /metrics", Subject.ORGANIZATION, Permission.READ_METRICS)
async def scrape_metrics(call: Call) -> Response:
    """Answer with the metrics of the service."""
    texts = metric_families.text_slices(await call.services.samples())
    return responses.Streamed(texts, content_type=(b"content-type", metric_families.CONTENT_TYPE))


# Every noun.

NOUNS = (
    # In the order in which they are tried: the most asked for first.
    logs.routes,
    resources.routes,
    search.routes,
    routes,
    repositories.routes,
    plans.routes,
    audit_events.routes,
    deliveries.routes,
    users.routes,
    projects.routes,
    notifications.routes,
    events.routes,
    openapi.routes,
    resources.history_routes,  # a literal path wins over its `{kind}`
)
ENDPOINTS: dict[str, Endpoint] = {path: one for noun in NOUNS for path, one in noun.endpoints.items()}
"""The endpoints of the interface by path."""
