"""The applications that the listeners serve: all paths, or those of log records alone."""

from api import logs, nouns, openapi, resources
from api.calls import Services
from api.edge import Edge
from api.pages import routes as pages
from api.routing import Nowhere

ENDPOINTS = nouns.ENDPOINTS
UNKNOWN = Nowhere("There is no such path; /openapi.json lists those that there are.")
NOT_OF_LOGS = Nowhere(f"This listener takes POST {logs.PATH} alone.")


def build(services: Services) -> Edge:
    """Make the ASGI application that serves `services`."""
    openapi.encoded()  # made now, so that a fault in the document stops the start and no request waits for it
    resources.built_in_digest()  # likewise
    endpoints = (*ENDPOINTS.values(), *pages.ENDPOINTS.values())
    return Edge(services, endpoints, nowhere=UNKNOWN)


def build_for_logs(services: Services) -> Edge:
    """Make the ASGI application of a listener that only accepts log records."""
    return Edge(services, [ENDPOINTS[logs.PATH], ENDPOINTS["/livez"]], nowhere=NOT_OF_LOGS)
