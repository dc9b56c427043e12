"""The application: its paths, the layers around them, and the paths about the service itself: health and metrics."""

import asyncio
import json
import logging
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from api import (
    audit_events,
    deliveries,
    errors,
    logs,
    notifications,
    openapi,
    plans,
    projects,
    repositories,
    resources,
    responses,
    users,
)
from api.calls import (
    Call,
    Endpoint,
    Services,
    in_organization,
    in_project,
    known,
    of_project,
    of_repository,
    public,
    within_reach,
)
from api.edge import Edge, RequestPlaces, path_pattern
from api.errors import Told
from api.pages import forms
from api.pages import routes as pages
from api.responses import Json
from reconciler.model.error_codes import ErrorCode
from reconciler.model.errors import ReconcilerError
from reconciler.model.principals import Permission
from reconciler.ops import metric_families, metrics
from reconciler.ops.metrics import MetricSources
from reconciler.version import __version__

logger = logging.getLogger(__name__)

LIVE = Json(b'{"status":"live"}')
READY = b'{"status":"ready"}'
VERSION = json.dumps(__version__).encode()
READY_SECONDS = 5.0  # a store that takes longer does not serve
OPENMETRICS = b"application/openmetrics-text"


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


async def scrape_metrics(call: Call) -> Response:
    """GET /metrics"""
    services = call.services
    format_ = metric_families.TextFormat.OPENMETRICS if _wants_openmetrics(call) else metric_families.TextFormat.TEXT
    now = int(services.clock().timestamp() * 1000)
    sources = MetricSources(services.measured, services.store, services.in_flight, services.board.open, now)
    texts = metric_families.text_slices(await metrics.all_steps(sources), format_=format_)
    return responses.Streamed(texts, content_type=(b"content-type", format_.value))


def _wants_openmetrics(call: Call) -> bool:
    """Return True when the client accepts OpenMetrics. Prometheus prefers it and takes either. Clients that refuse it
    do not name it: `q=0` is not looked at.
    """
    return any(OPENMETRICS in value for value in call.header(b"accept"))


# The routes.

HANDLE = Permission.HANDLE_DELIVERIES
READ, CHANGE, APPROVE, SUSPEND = Permission.READ, Permission.CHANGE, Permission.APPROVE, Permission.SUSPEND
MEMBERS, ORGANIZATION = Permission.MANAGE_MEMBERS, Permission.MANAGE_ORGANIZATION

LOGS = "/v1/logs"
OF_LOGS = (
    (LOGS, Endpoint(POST=in_project(logs.take, Permission.SEND_LOGS))),
    ("/livez", Endpoint(GET=public(live))),
)
"""The paths of a listener that takes log records and does nothing else."""

ROUTES = (
    OF_LOGS[0],
    # In the order in which they are tried: the most asked for first. `/v1/{kind}/{name}/history` comes last, because a
    # literal path wins over it.
    (
        "/v1/resources/{kind}/{name}",
        Endpoint(GET=in_project(resources.get, READ), DELETE=in_project(resources.delete, CHANGE)),
    ),
    OF_LOGS[1],
    ("/readyz", Endpoint(GET=public(ready))),
    ("/v1/resources/{kind}", Endpoint(GET=in_project(resources.list_kind, READ))),
    ("/v1/resources/{kind}/{name}/raw", Endpoint(GET=in_project(resources.raw, Permission.LOAD))),
    ("/v1/apply", Endpoint(POST=in_project(resources.apply_resources, CHANGE))),
    ("/v1/delete", Endpoint(POST=in_project(resources.delete_resources, CHANGE))),
    ("/v1/version", Endpoint(GET=public(version))),
    ("/v1/repositories", Endpoint(GET=within_reach(repositories.list_all, READ))),
    ("/v1/repositories/{name}", Endpoint(GET=of_repository(repositories.get, READ))),
    (
        "/v1/repositories/{name}/reconcile",
        Endpoint(POST=of_repository(repositories.reconcile, Permission.RECONCILE)),
    ),
    ("/v1/repositories/{name}/approve", Endpoint(POST=of_repository(repositories.approve_repository, APPROVE))),
    ("/v1/repositories/{name}/suspend", Endpoint(POST=of_repository(repositories.suspend, SUSPEND))),
    ("/v1/repositories/{name}/resume", Endpoint(POST=of_repository(repositories.resume, SUSPEND))),
    ("/v1/runs", Endpoint(GET=within_reach(repositories.list_runs, READ))),
    ("/v1/runs/{id}", Endpoint(GET=within_reach(repositories.get_run, READ))),
    ("/v1/plan", Endpoint(POST=within_reach(plans.make, READ))),
    ("/v1/plans", Endpoint(GET=within_reach(plans.list_all, READ))),
    ("/v1/plans/{id}", Endpoint(GET=within_reach(plans.get, READ))),
    ("/v1/audit-events", Endpoint(GET=within_reach(audit_events.list_all, Permission.READ_AUDIT))),
    ("/v1/deliveries", Endpoint(GET=in_project(deliveries.list_all, READ))),
    ("/v1/destinations/{name}/delivery", Endpoint(GET=in_project(deliveries.get, READ))),
    ("/v1/destinations/{name}/delivery/replay", Endpoint(POST=in_project(deliveries.replay, HANDLE))),
    ("/v1/destinations/{name}/delivery/discard", Endpoint(POST=in_project(deliveries.discard, HANDLE))),
    ("/v1/destinations/{name}/delivery/test", Endpoint(POST=in_project(deliveries.test, HANDLE))),
    ("/v1/me", Endpoint(GET=known(users.me))),
    ("/v1/me/password", Endpoint(PUT=known(users.change_password))),
    (
        "/v1/projects",
        Endpoint(GET=within_reach(projects.list_all, READ), POST=in_organization(projects.create, ORGANIZATION)),
    ),
    ("/v1/projects/{name}", Endpoint(GET=of_project(projects.get, READ))),
    ("/v1/projects/{name}/members", Endpoint(GET=of_project(projects.list_members, MEMBERS))),
    (
        "/v1/projects/{name}/members/{user}",
        Endpoint(PUT=of_project(projects.set_member, MEMBERS), DELETE=of_project(projects.remove_member, MEMBERS)),
    ),
    (
        "/v1/projects/{name}/invitations",
        Endpoint(
            GET=of_project(projects.list_invitations, MEMBERS),
            POST=of_project(projects.create_invitation, MEMBERS),
        ),
    ),
    ("/v1/projects/{name}/invitations/{id}", Endpoint(DELETE=of_project(projects.withdraw_invitation, MEMBERS))),
    (
        "/v1/users",
        Endpoint(GET=in_organization(users.list_all, ORGANIZATION), POST=in_organization(users.create, ORGANIZATION)),
    ),
    (
        "/v1/users/{name}",
        Endpoint(
            GET=in_organization(users.get, ORGANIZATION),
            PATCH=in_organization(users.change, ORGANIZATION),
            DELETE=in_organization(users.remove, ORGANIZATION),
        ),
    ),
    ("/v1/api-keys", Endpoint(GET=known(projects.list_keys), POST=known(projects.create_key))),
    ("/v1/api-keys/{id}", Endpoint(DELETE=known(projects.revoke_key))),
    ("/v1/api/notifications", Endpoint(GET=within_reach(notifications.list_all, READ))),
    ("/v1/api/notifications/{id}", Endpoint(GET=within_reach(notifications.get, READ))),
    ("/v1/api/notifications/{id}/status", Endpoint(POST=within_reach(notifications.set_status, READ))),
    ("/v1/alerts/test", Endpoint(POST=in_organization(notifications.send_test_alert, ORGANIZATION))),
    ("/metrics", Endpoint(GET=in_organization(scrape_metrics, Permission.READ_METRICS))),
    ("/openapi.json", Endpoint(GET=public(openapi.serve))),
    ("/hooks/{repository}", Endpoint(POST=public(repositories.deliver_hook))),
    ("/v1/{kind}/{name}/history", Endpoint(GET=in_project(resources.history, READ))),
    ("/v1/{kind}/{name}/history/redact", Endpoint(POST=in_project(resources.redact_resource, Permission.REDACT))),
)


PUBLIC = frozenset(path for path, endpoint in ROUTES if endpoint.is_public)
"""The paths that need no credential. Any other does, also one that leads nowhere, for whatever is no browser."""

OF_PROGRAMS = frozenset(path.split("/")[1] for path, _ in ROUTES)
"""The first parts of the paths of the interface: below them nothing is shown as a page."""

_LITERAL = frozenset(path for path, _ in ROUTES if "{" not in path)
_PUBLIC_PATTERN = re.compile("|".join(path_pattern(path) for path in sorted(PUBLIC) if "{" in path))


def build(services: Services) -> Starlette:
    """The ASGI application that serves `services`."""
    openapi.encoded()  # made now, so that a fault in the document stops the start and no request waits for it
    resources.built_in_digest()  # likewise
    return _built((*ROUTES, *pages.ROUTES), services, otherwise=unknown, is_lost=is_lost)


def build_for_logs(services: Services) -> Starlette:
    """The ASGI application of a listener that takes log records in and does nothing else."""
    return _built(OF_LOGS, services, otherwise=not_of_logs, is_lost=lambda _: False)


def _built(
    routes: Sequence[tuple[str, Endpoint]],
    services: Services,
    *,
    otherwise: ASGIApp,
    is_lost: Callable[[Scope], bool],
) -> Starlette:
    # The edge answers every exception itself. Starlette's own two layers for that would wrap each request twice more,
    # and answer what is unexpected outside the edge, without the headers of every answer.
    app = Starlette()
    paths: dict[object, str] = {endpoint: path for path, endpoint in routes}
    services.measured.traffic.know(paths)
    served = pages.PAGES & {path for path, _ in routes}
    render = partial(failure, served=served, is_lost=is_lost)
    app.middleware_stack = Edge(
        leading(routes, lifespan=app.router, otherwise=otherwise),
        services=services,
        public=is_public,
        render=render,
        pages=served,
        places=RequestPlaces(paths.values()),
        is_lost=is_lost,
    )
    return app


def leading(routes: Iterable[tuple[str, ASGIApp]], *, lifespan: ASGIApp, otherwise: ASGIApp) -> ASGIApp:
    """Return the router, which takes a third of the time of Starlette's. A literal path wins;
    all others are tried in their order.
    """
    literal = {path: endpoint for path, endpoint in routes if "{" not in path}
    patterns = [(compile_path(path)[0], endpoint) for path, endpoint in routes if "{" in path]

    async def lead(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await lifespan(scope, receive, send)
            return
        path = scope["path"]
        endpoint = literal.get(path)
        if endpoint is None:
            for expression, candidate in patterns:
                match = expression.fullmatch(path)
                if match is not None:
                    scope["path_params"] = match.groupdict()
                    endpoint = candidate
                    break
            else:
                endpoint = otherwise
        scope["endpoint"] = endpoint  # which requests are counted by
        await endpoint(scope, receive, send)

    return lead


def failure(scope: Scope, said: Told, *, served: Collection[str], is_lost: Callable[[Scope], bool]) -> Response:
    """Return a failure in the form of the path that was asked; `served` are the pages."""
    if scope["path"] in served or is_lost(scope):
        return forms.failure_page(said)
    return logs.failure_message(scope["headers"], said) if scope["path"] == LOGS else errors.as_json(said)


def is_public(path: str) -> bool:
    """Return True when a request of this path needs no credential."""
    if path in pages.PAGES:
        return True
    if path in _LITERAL:
        return path in PUBLIC
    return _PUBLIC_PATTERN.fullmatch(path) is not None


def is_lost(scope: Scope) -> bool:
    """Return True when a browser asks for a page that does not exist."""
    return pages.is_lost(scope, programs=OF_PROGRAMS)


async def unknown(scope: Scope, _receive: Receive, _send: Send) -> None:
    """A path that leads nowhere."""
    if is_lost(scope):
        raise errors.NotFound(pages.SENTENCE, code=ErrorCode.PATH_NOT_FOUND)
    sentence = "There is no such path; /openapi.json lists those that there are."
    raise errors.NotFound(sentence, code=ErrorCode.PATH_NOT_FOUND)


async def not_of_logs(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """A path that the listener for log records alone does not have."""
    raise errors.NotFound(f"This listener takes POST {LOGS} alone.", code=ErrorCode.PATH_NOT_FOUND)
