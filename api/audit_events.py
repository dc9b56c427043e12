"""The audit: who did what, when and from where, as a page of JSON or as lines of JSON for whoever keeps it elsewhere.

Belongs here: what a query says, whose events are shown, both forms. Does not: finding events (the store).
"""

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from starlette.responses import Response

from api import errors, judging, queries, streams
from api.calls import Call
from reconciler.auditing import filters
from reconciler.model import principals
from reconciler.model.principals import Permission
from reconciler.store.contract import AuditPlace, AuditWanted

PARAMETERS = frozenset({"kind", "name", "actor", "action", "since", "until", "project", "limit", "after", "documents"})
PAGE, LARGEST_PAGE = 100, 1_000  # events of an answer in JSON
LARGEST_EXPORT = 1_000_000_000  # of lines, which is as many as there are
LINES = b"application/x-ndjson"
EXPORT_SECONDS = 3600.0  # a slow client holds no read of the store open: each page is read by itself
ORGANIZATION = ""  # the project of what concerns no single one
_INSTANT = re.compile(
    r"([0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])"
    r"(?:\.([0-9]{1,3}))?Z"
)
_PLACE = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


async def list_all(call: Call) -> Response:
    """GET /v1/audit-events"""
    as_lines = any(LINES in value.lower() for value in call.header(b"accept"))
    query = queries.Query(call.query, known=PARAMETERS, strict=False)
    highest, usual = (LARGEST_EXPORT, LARGEST_EXPORT) if as_lines else (LARGEST_PAGE, PAGE)
    limit = query.integer("limit", lowest=1, highest=highest, default=usual)
    documents = query.boolean("documents")
    wanted = _wanted(query)._replace(projects=_projects(call))
    query.check()
    wanted = wanted._replace(projects=_of_one(call, wanted.projects, query.text("project")))
    pages = call.services.store.event_pages(wanted, limit=limit, documents=documents)
    if not as_lines:
        return streams.Streamed(streams.stream_array(b"events", pages))
    content_type = (b"content-type", LINES)
    return streams.Streamed(_lines(pages), content_type=content_type, whole_seconds=EXPORT_SECONDS)


def _wanted(query: queries.Query) -> AuditWanted:
    since, until = _instant(query, "since"), _instant(query, "until")
    if since is not None and until is not None and since > until:
        query.problems.append("The query parameter `since` is later than `until`.")
    return AuditWanted(
        kind=_known(query, "kind", filters.kind_filter),
        name=query.text("name"),
        actor=_known(query, "actor", filters.actor_filter),
        action=_known(query, "action", filters.action_filter),
        since=since,
        until=until,
        after=_after(query),
    )


def _projects(call: Call) -> frozenset[str] | None:
    """The projects whose events are shown: those within reach of which the caller may read the audit.

    An organization admin who chooses no project reads all events, those of the organization among them. Raises
    `Forbidden` when there is no such project.
    """
    reachable = judging.reach(call)
    if reachable is None and call.principal.organization_admin:
        return None
    known = call.services.accounts.directory.projects if reachable is None else reachable
    permitted = frozenset(one for one in known if judging.permits(call, Permission.READ_AUDIT, project=one))
    if not permitted:
        raise _forbidden(call)
    return permitted


def _of_one(call: Call, within: frozenset[str] | None, project: str | None) -> frozenset[str] | None:
    """Only those of one project of these; the empty name is for those of the organization. Raises `NotFound`,
    `Forbidden`, `BadRequest`.
    """
    if project is None:
        return within
    if project == ORGANIZATION and within is None:
        return frozenset({project})
    if judging.HEADER in call.headers and not judging.is_within(within, project):
        raise errors.BadRequest("The query parameter `project` is another project than X-Service-Project.")
    if project == ORGANIZATION:
        raise errors.Forbidden(f"{call.principal.name} may not do this; it takes an organization admin.")
    reachable = judging.reach(call)
    if project not in call.services.accounts.directory.projects or not judging.is_within(reachable, project):
        raise judging.missing(call, judging.NO_PROJECT, project=project)
    call.state["project"] = project
    if not judging.is_within(within, project):
        raise _forbidden(call)
    return frozenset({project})


def _forbidden(call: Call) -> errors.Forbidden:
    takes = principals.required_for(Permission.READ_AUDIT, call.principal.scopes)
    return errors.Forbidden(f"{call.principal.name} may not do this; it takes {takes}.")


def _known(query: queries.Query, name: str, meant: Callable[[str], str]) -> str | None:
    text = query.text(name)
    try:
        return None if text is None else meant(text)
    except filters.NoSuchFilter as problem:
        query.problems.append(f"The query parameter `{name}` {problem}")
        return None


def _instant(query: queries.Query, name: str) -> str | None:
    """An instant as the store keeps them, which are compared as text."""
    text = query.text(name)
    if text is None:
        return None
    match = _INSTANT.fullmatch(text)
    if match is None:
        query.problems.append(f"The query parameter `{name}` is not an instant in UTC such as 2026-11-21T08:00:00Z.")
        return None
    return f"{match[1]}.{match[2] or '':0<3}Z"


def _after(query: queries.Query) -> AuditPlace | None:
    text = query.text("after")
    if text is None:
        return None
    match = _PLACE.fullmatch(text)
    if match is None:
        query.problems.append("The query parameter `after` is not the id of an event.")
        return None
    return AuditPlace(int(match[1]), int(match[2]))


async def _lines(pages: AsyncGenerator[list[bytes], None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(pages):
        async for page in pages:
            yield b"\n".join(page) + b"\n"
    yield b""
