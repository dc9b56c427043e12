"""Audit events: listed, and written for sign-ins."""

import json
import logging
import re
from typing import TypeAlias

from starlette.responses import Response

from api import access, auth, requests, responses
from api.calls import Call, Subject
from api.routing import Routes
from reconciler.model import names
from reconciler.model.clock import rfc3339
from reconciler.model.directory import User
from reconciler.model.principals import Permission
from reconciler.store.contract import StoreFault
from reconciler.store.records import AuditPlace, AuditRow, AuditWanted

# Events about actions that change no resource: signing in and out, and handling queues.

log = logging.getLogger(__name__)
routes = Routes()

Detail: TypeAlias = dict[str, object]
PASSWORD = "password"  # noqa: S105 - how somebody came in


async def signed_in(call: Call, user: User) -> None:
    """Record a sign-in with a browser, by a password or through a provider."""
    by = PASSWORD if user.identity is None else user.identity.issuer
    await _record(
        call, actor=f"user:{user.name}", action="signed-in", kind="Session", name=user.name, detail={"by": by}
    )


async def signed_out(call: Call, user: User | None) -> None:
    """Record a sign-out; None for a person who was removed."""
    if user is not None:
        await _record(call, actor=f"user:{user.name}", action="signed-out", kind="Session", name=user.name)


async def handled_delivery(call: Call, name: str, action: str, detail: Detail) -> None:
    """Record that a caller replayed or discarded records of a destination of the call's project."""
    actor, project = call.principal.name, call.project
    await _record(call, actor=actor, action=action, kind="Destination", name=name, project=project, detail=detail)


async def _record(
    call: Call, *, actor: str, action: str, kind: str, name: str, project: str = "", detail: Detail | None = None
) -> None:
    """Write an event. If the disk fails, it is only logged: the action has already happened."""
    event = AuditRow(
        at=rfc3339(call.services.clock()),
        project=project,
        actor=actor,
        action=action,
        kind=kind,
        name=name,
        request=call.request,
        detail=None if detail is None else json.dumps(detail, sort_keys=True),
        address=auth.address(call),
    )
    try:
        await call.services.store.tell((event,))
    except StoreFault as fault:
        log.error("The audit misses that %s %s %s %s: %s", actor, action, kind, name, fault.message)


# The audit: who did what, when and from where.

PARAMETERS = frozenset({"kind", "name", "actor", "action", "since", "until", "project", "limit", "after", "documents"})
PAGE, LARGEST_PAGE = 100, 1_000  # events
_INSTANT = re.compile(
    r"([0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])"
    r"(?:\.([0-9]{1,3}))?Z"
)
_PLACE = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


@routes.add("GET /v1/audit-events", Subject.REACH, Permission.READ_AUDIT)
async def list_all(call: Call) -> Response:
    """List the events that the caller may read, the newest first."""
    query = requests.Query(call.query, known=PARAMETERS, strict=False)
    limit = query.integer("limit", lowest=1, highest=LARGEST_PAGE, default=PAGE)
    documents = query.boolean("documents")
    wanted = _wanted(query)._replace(projects=_projects(call, query.text("project")))
    query.check()
    pages = call.services.store.event_pages(wanted, limit=limit, documents=documents)
    return responses.Streamed(responses.stream_array(b"events", pages))


def _wanted(query: requests.Query) -> AuditWanted:
    since, until = query.parsed("since", _instant), query.parsed("until", _instant)
    if since is not None and until is not None and since > until:
        query.problems.append("The query parameter `since` is later than `until`.")
    return AuditWanted(
        kind=_kind(query.text("kind")),
        name=query.text("name"),
        actor=query.text("actor"),
        action=query.text("action"),
        since=since,
        until=until,
        after=query.parsed("after", _place),
    )


def _kind(text: str | None) -> str | None:
    """Return a kind as events spell it. For a kind of resources, the query may have any form that paths take."""
    found = None if text is None else names.find_kind(text)
    return text if found is None else found.name


def _projects(call: Call, project: str | None) -> frozenset[str] | None:
    """Return the projects whose events are shown: the chosen one, or those within reach whose audit the caller may
    read.

    An organization admin who chooses no project reads all events. Events of the organization belong to the project
    without a name. Raises `Forbidden` when there is no such project, `NotFound`.
    """
    reachable = access.reach(call)
    if reachable is None and call.principal.organization_admin:
        return None if project is None else frozenset({project})
    known = call.directory.projects if reachable is None else reachable
    permitted = frozenset(one for one in known if access.permits(call, Permission.READ_AUDIT, project=one))
    if project is not None and project not in permitted:
        call.project = access.reached(call, project)
    elif permitted:
        return permitted if project is None else frozenset({project})
    raise access.forbidden(call, Permission.READ_AUDIT)


def _instant(text: str) -> str:
    """Return an instant in the store's form, since instants are compared as text. Raises ValueError."""
    match = _INSTANT.fullmatch(text)
    if match is None:
        raise ValueError("is not an instant in UTC such as 2026-11-21T08:00:00Z.")
    return f"{match[1]}.{match[2] or '':0<3}Z"


def _place(text: str) -> AuditPlace:
    """Return the place of an event. Raises ValueError."""
    match = _PLACE.fullmatch(text)
    if match is None:
        raise ValueError("is not the id of an event.")
    return AuditPlace(int(match[1]), int(match[2]))
