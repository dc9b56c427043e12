"""The application: which path leads to which handler, and the layers around them."""

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from api import approvals, changes, errors, health, openapi, repositories, resources, runs, suspensions
from api.calls import Endpoint
from api.edge import Edge
from reconciler import browsing
from reconciler.daemon.services import Services

ROUTES = (
    # In the order in which they are tried: the most asked for first. `/v1/{kind}/{name}/history` comes last, because a
    # literal path wins over it.
    ("/v1/resources/{kind}/{name}", Endpoint(GET=resources.get, DELETE=resources.delete)),
    ("/v1/resources/{kind}", Endpoint(GET=resources.list_kind)),
    ("/v1/resources/{kind}/{name}/raw", Endpoint(GET=resources.raw)),
    ("/v1/apply", Endpoint(POST=changes.apply)),
    ("/v1/delete", Endpoint(POST=changes.delete)),
    ("/v1/version", Endpoint(GET=health.version)),
    ("/v1/repositories", Endpoint(GET=repositories.list_all)),
    ("/v1/repositories/{name}", Endpoint(GET=repositories.get)),
    ("/v1/repositories/{name}/reconcile", Endpoint(POST=repositories.reconcile)),
    ("/v1/repositories/{name}/approve", Endpoint(POST=approvals.approve)),
    ("/v1/repositories/{name}/suspend", Endpoint(POST=suspensions.suspend)),
    ("/v1/repositories/{name}/resume", Endpoint(POST=suspensions.resume)),
    ("/v1/runs", Endpoint(GET=runs.list_all)),
    ("/v1/runs/{id}", Endpoint(GET=runs.get)),
    ("/livez", Endpoint(GET=health.live)),
    ("/readyz", Endpoint(GET=health.ready)),
    ("/openapi.json", Endpoint(GET=openapi.serve)),
    ("/v1/{kind}/{name}/history", Endpoint(GET=resources.history)),
)


def build(services: Services) -> Starlette:
    """The ASGI application that serves `services`."""
    openapi.encoded()  # made now, so that a fault in the document stops the start and no request waits for it
    browsing.built_in_digest()  # likewise
    app = Starlette(routes=[Route(path, endpoint) for path, endpoint in ROUTES])
    app.router.redirect_slashes = False  # `/v1/apply/` is no documented path, and a redirect of a POST loses its body
    app.router.default = unknown
    # The edge answers every exception itself. Starlette's own two layers for that would wrap each request twice more,
    # and answer what is unexpected outside the edge, without the headers of every answer.
    app.middleware_stack = Edge(app.router, services=services)
    return app


async def unknown(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """A path that leads nowhere."""
    raise errors.NotFound("There is no such path; /openapi.json lists those that there are.")
