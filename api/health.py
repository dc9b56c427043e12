"""Health, version and metrics."""

import asyncio
import json
import logging

from starlette.responses import Response

from api import bodies, errors
from api.calls import Call
from api.errors import Json
from reconciler.model.error_codes import ErrorCode
from reconciler.model.errors import ReconcilerError
from reconciler.version import __version__

# Whether the process lives, whether it can serve, and which version it is.

logger = logging.getLogger(__name__)

LIVE = Json(b'{"status":"live"}')
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
        body = errors.body(["The store does not answer; the service's log says why."], ErrorCode.STORE_UNAVAILABLE)
        return Json(body, status=503)
    return Json(READY)


async def version(_call: Call) -> Response:
    """GET /v1/version"""
    return Json(VERSION)


# GET /metrics: what the service counts of itself, for Prometheus.

OPENMETRICS = b"application/openmetrics-text"


async def scrape_metrics(call: Call) -> Response:
    """GET /metrics"""
    from reconciler.ops import metric_families, metrics  # noqa: PLC0415 - a service that nobody scrapes needs none of it
    from reconciler.ops.metric_families import MetricSources  # noqa: PLC0415 - likewise

    services = call.services
    format_ = metric_families.TextFormat.OPENMETRICS if _wants_openmetrics(call) else metric_families.TextFormat.TEXT
    now = int(services.clock().timestamp() * 1000)
    sources = MetricSources(services.measured, services.store, services.in_flight, services.board.open, now)
    texts = metric_families.text_slices(await metrics.all_steps(sources), format_=format_)
    return bodies.Streamed(texts, content_type=(b"content-type", format_.value))


def _wants_openmetrics(call: Call) -> bool:
    """Whether it is among what the client accepts. Prometheus prefers it and takes either; one that says `q=0` of it
    does not name it at all.
    """
    return any(OPENMETRICS in value for value in call.header(b"accept"))
