"""The state of a repository, a resource and a delivery in one word, with the reason; as pages of the console say it."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from api import errors, nouns
from api.pages.console import View
from api.pages.forms import PagePath

LIVE, BEHIND = "live", "behind"
MOST_SEARCHED = 200
STARTING = 503  # the status of a delivery that is not up yet
WANTING = "wanting"  # the states of resources that do not do what they declare


class State(NamedTuple):
    """A word, and one sentence of why; empty if nothing is to be said. The word decides the colour (`words.tone`)."""

    word: str
    reason: str = ""


FINE = frozenset({"live", "delivers", "rendered", "for collectors", "stored", "idle", "sending", "closed"})


def of_repository(repository: Mapping[str, Any]) -> State:
    """Say if the last commit of a repository is live."""
    if repository["state"] != "ready":
        return State(repository["state"], repository["message"] or "")
    if repository["head"] != repository["commit"]:
        return State(BEHIND, "Its head is not applied yet.")
    run = repository["run"]
    if run and run["outcome"] == "partial" and run["commit"] == repository["commit"]:
        return State("partly live", run["message"] or "")
    return State(LIVE)


def of_resource(kind: str, status: Mapping[str, Any]) -> State:
    """Say if a resource does what it is for."""
    if incomplete := status.get("incomplete"):
        return State("incomplete", " ".join(incomplete))
    if kind != "Configuration":
        return State("stored")
    return _of_configuration(status)


def _of_configuration(status: Mapping[str, Any]) -> State:
    delivery, rendering = status.get("delivery", {}), status.get("rendering", {})
    reason = delivery.get("reason", "")
    if stale := delivery.get("stale"):
        return State("stale", f"Version {stale['version']} goes on: {stale['reason']}")
    if fault := rendering.get("fault"):
        return State("not rendered", fault["reason"])
    if not status.get("ready", True):
        return State("incomplete", reason)
    if delivery.get("delivers"):
        return State("delivers")
    if status.get("runsOn") == "collectors":
        return State("rendered" if rendering.get("hash") else "for collectors")
    return State("does not deliver", reason)


def resource_page(project: str, kind: str, name: str) -> str:
    """Return the page of a resource."""
    if kind == "Configuration":
        return f"{PagePath.CONFIGURATIONS}/{project}/{name}"
    return f"{PagePath.RESOURCES}/{project}/{kind}/{name}"


def line_address(repository: Mapping[str, Any], commit: str | None, path: str, line: int) -> str:
    """Return the address of a line at the forge; empty where nobody knows it."""
    pattern = repository.get("link") or ""
    told = {"{commit}": quote(commit or ""), "{path}": quote(path), "{line}": str(line)}
    return re.sub(r"\{(?:commit|path|line)\}", lambda found: told[found[0]], pattern) if commit else ""


async def searched(view: View, project: str, status: str) -> list[dict[str, Any]]:
    """Return the first resources of a project in a state, as the search of the API tells them."""
    query = {"status": status, "limit": MOST_SEARCHED}
    if "/v1/resources" not in nouns.ENDPOINTS:
        return []
    answer = await view.api.maybe("GET /v1/resources", project=project, query=query)
    found: list[dict[str, Any]] = (answer or {}).get("resources", [])
    return found


async def repositories(view: View) -> list[dict[str, Any]]:
    """Return the repositories of the chosen projects, each with its `verdict`, and its `run`, the last recorded one."""
    answer = await view.api.ask("GET /v1/repositories", project=view.chosen)
    found = []
    for one in answer["repositories"]:
        runs = await view.api.ask("GET /v1/runs", query={"repository": one["name"], "limit": 1})
        known = {"applied": None, "seen": None, "commitLink": None, **one}
        known["run"] = next(iter(runs["runs"]), None)
        found.append({**known, "verdict": of_repository(known)})
    return found


async def deliveries(view: View) -> list[dict[str, Any]]:
    """Return the deliveries of the chosen projects, each with its `project`: what needs somebody first, then by age of
    the oldest record, then by depth. Projects whose Configurations are still being read become `view.unread`.
    """
    found = []
    for project in view.scope:
        try:
            answer = await view.api.maybe("GET /v1/deliveries", project=project)
        except errors.Problem as problem:
            if problem.status != STARTING:
                raise
            answer = None
            view.unread.append(project)
        found += [{**one, "project": project} for one in (answer or {}).get("deliveries", ())]
    found.sort(key=lambda one: (one["project"], one["destination"]))
    found.sort(key=lambda one: -one["queue"]["records"])
    found.sort(key=lambda one: one["queue"]["oldest"] or "9")
    found.sort(key=lambda one: one["state"] in FINE and not one["deadLetters"]["batches"])
    return found


async def notifications(view: View, *, is_open: bool = True) -> list[dict[str, Any]]:
    """Return the notifications that the visitor sees, the newest first: open ones that they did not dismiss, or all."""
    answer = await view.api.maybe("GET /v1/api/notifications", project=view.chosen)
    found: list[dict[str, Any]] = (answer or {}).get("notifications", [])
    return [one for one in found if not is_open or is_pending(one)]


def is_pending(notification: Mapping[str, Any]) -> bool:
    """Return True for a notification whose cause goes on, and that the visitor did not dismiss."""
    labels, status = notification["metadata"]["labels"], notification["status"]["userStatus"]
    return bool(labels.get("service/state") == "open" and status != "dismissed")
