"""The audit, searched, and notifications."""

import re
from datetime import datetime, timedelta

from starlette.responses import Response

from api import errors
from api.pages import console, states
from api.pages.console import View
from api.pages.forms import PagePath
from reconciler.model import names
from reconciler.model.clock import rfc3339

PAGE = 100  # events
DURATION = re.compile(r"([0-9]{1,4}) ?([smhdw])")  # days and weeks too, which durations of settings do not have
UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
RESOURCE_KINDS = frozenset(kind.name for kind in names.KINDS)
FILTERS = ("kind", "name", "actor", "action", "since", "until")


@console.page(f"GET {PagePath.AUDIT}", known=(*FILTERS, "after"))
async def show_audit(view: View) -> Response:
    """Show the events that a search finds, the newest first."""
    asked = {name: view.text(name) for name in FILTERS}
    bounds = {name: _instant(asked[name], view.now) for name in ("since", "until")}
    query = {**asked, **bounds, "project": view.chosen, "after": view.text("after"), "limit": PAGE}
    mistakes, events = list[str](), list[dict[str, object]]()
    try:
        events = (await view.api.ask("GET /v1/audit-events", query=query))["events"]
    except errors.BadRequest as problem:
        mistakes = [*problem.sentences]
    following = view.link(PagePath.AUDIT, **asked, after=events[-1]["id"]) if len(events) == PAGE else ""
    return view.page(
        "audit",
        section="Audit",
        status=400 if mistakes else 200,
        asked=asked,
        mistakes=mistakes,
        events=events,
        following=following,
        is_filtered=any(asked.values()),
        page_of=states.resource_page,
        resource_kinds=RESOURCE_KINDS,
    )


def _instant(text: str, now: datetime) -> str:
    """Return the instant at a duration before now, such as `24h`. Return any other text unchanged."""
    found = DURATION.fullmatch(text.strip())
    return rfc3339(now - int(found[1]) * UNITS[found[2]]) if found else text


@console.page(f"GET {PagePath.NOTIFICATIONS}", known=("all",))
async def show_notifications(view: View) -> Response:
    """Show the open notifications, or all."""
    is_all = bool(view.text("all"))
    found = await states.notifications(view, is_open=not is_all)
    return view.page(
        "notifications",
        section="Notifications",
        live="notification",
        notifications=found[:PAGE],
        more=len(found) - PAGE,
        is_all=is_all,
        may_note=view.call.principal.user is not None or view.call.services.anybody is not None,
    )
