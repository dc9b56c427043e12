"""GET /metrics: what the service counts of itself, for Prometheus.

Belongs here: the form in which it is asked for and sent. Does not: what there is (`reconciler.metrics`).
"""

from starlette.responses import Response

from api import streams
from api.calls import Call

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
    return streams.Streamed(texts, content_type=(b"content-type", format_.value))


def _wants_openmetrics(call: Call) -> bool:
    """Whether it is among what the client accepts. Prometheus prefers it and takes either; one that says `q=0` of it
    does not name it at all.
    """
    return any(OPENMETRICS in value for value in call.header(b"accept"))
