"""The application: which path leads to which handler, and the layers around them."""

import re

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from api import (
    api_keys,
    approvals,
    changes,
    errors,
    health,
    hooks,
    identities,
    openapi,
    projects,
    redactions,
    repositories,
    resources,
    runs,
    suspensions,
    users,
)
from api.edge import Edge
from api.endpoints import Endpoint
from api.judging import in_organization, in_project, known, of_project, of_repository, public, within_reach
from reconciler import browsing
from reconciler.access.permissions import Permission
from reconciler.daemon.services import Services

READ, CHANGE, APPROVE, SUSPEND = Permission.READ, Permission.CHANGE, Permission.APPROVE, Permission.SUSPEND
MEMBERS, ORGANIZATION = Permission.MANAGE_MEMBERS, Permission.MANAGE_ORGANIZATION

ROUTES = (
    # In the order in which they are tried: the most asked for first. `/v1/{kind}/{name}/history` comes last, because a
    # literal path wins over it.
    (
        "/v1/resources/{kind}/{name}",
        Endpoint(GET=in_project(resources.get, READ), DELETE=in_project(resources.delete, CHANGE)),
    ),
    ("/livez", Endpoint(GET=public(health.live))),
    ("/readyz", Endpoint(GET=public(health.ready))),
    ("/v1/resources/{kind}", Endpoint(GET=in_project(resources.list_kind, READ))),
    ("/v1/resources/{kind}/{name}/raw", Endpoint(GET=in_project(resources.raw, Permission.READ_RAW))),
    ("/v1/apply", Endpoint(POST=in_project(changes.apply, CHANGE))),
    ("/v1/delete", Endpoint(POST=in_project(changes.delete, CHANGE))),
    ("/v1/version", Endpoint(GET=public(health.version))),
    ("/v1/repositories", Endpoint(GET=within_reach(repositories.list_all, READ))),
    ("/v1/repositories/{name}", Endpoint(GET=of_repository(repositories.get, READ))),
    (
        "/v1/repositories/{name}/reconcile",
        Endpoint(POST=of_repository(repositories.reconcile, Permission.RECONCILE)),
    ),
    ("/v1/repositories/{name}/approve", Endpoint(POST=of_repository(approvals.approve, APPROVE))),
    ("/v1/repositories/{name}/suspend", Endpoint(POST=of_repository(suspensions.suspend, SUSPEND))),
    ("/v1/repositories/{name}/resume", Endpoint(POST=of_repository(suspensions.resume, SUSPEND))),
    ("/v1/runs", Endpoint(GET=within_reach(runs.list_all, READ))),
    ("/v1/runs/{id}", Endpoint(GET=within_reach(runs.get, READ))),
    ("/v1/me", Endpoint(GET=known(identities.me))),
    ("/v1/me/password", Endpoint(PUT=known(identities.change_password))),
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
    ("/v1/api-keys", Endpoint(GET=known(api_keys.list_all), POST=known(api_keys.create))),
    ("/v1/api-keys/{id}", Endpoint(DELETE=known(api_keys.revoke))),
    ("/openapi.json", Endpoint(GET=public(openapi.serve))),
    ("/hooks/{repository}", Endpoint(POST=public(hooks.deliver))),
    ("/v1/{kind}/{name}/history", Endpoint(GET=in_project(resources.history, READ))),
    ("/v1/{kind}/{name}/history/redact", Endpoint(POST=in_project(redactions.redact, Permission.REDACT))),
)


def _pattern(path: str) -> re.Pattern[str]:
    """What a path with parameters matches: its fixed parts as they are written, and one part for each parameter."""
    fixed = re.split(r"\{\w+\}", path)
    return re.compile("[^/]+".join(map(re.escape, fixed)))


PUBLIC = frozenset(path for path, endpoint in ROUTES if endpoint.is_public)
"""The paths that need no credential. Any other does, also one that leads nowhere."""

_PUBLIC_PATTERNS = tuple(_pattern(path) for path in sorted(PUBLIC) if "{" in path)


def build(services: Services) -> Starlette:
    """The ASGI application that serves `services`."""
    openapi.encoded()  # made now, so that a fault in the document stops the start and no request waits for it
    browsing.built_in_digest()  # likewise
    app = Starlette(routes=[Route(path, endpoint) for path, endpoint in ROUTES])
    app.router.redirect_slashes = False  # `/v1/apply/` is no documented path, and a redirect of a POST loses its body
    app.router.default = unknown
    # The edge answers every exception itself. Starlette's own two layers for that would wrap each request twice more,
    # and answer what is unexpected outside the edge, without the headers of every answer.
    app.middleware_stack = Edge(app.router, services=services, public=is_public)
    return app


def is_public(path: str) -> bool:
    """Whether a request of this path needs no credential."""
    return path in PUBLIC or any(pattern.fullmatch(path) for pattern in _PUBLIC_PATTERNS)


async def unknown(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """A path that leads nowhere."""
    raise errors.NotFound("There is no such path; /openapi.json lists those that there are.")
