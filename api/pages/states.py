"""The state of a repository, a resource and a delivery in one word, with the reason; as pages of the console say it."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from api import errors
from api.pages.console import View
from api.pages.forms import PagePath
from reconciler.git.faults import RepositoryState
from reconciler.model import conditions
from reconciler.model.text import counted

LIVE, BEHIND = "live", "behind"
MOST_SEARCHED = 200
MOST_ASKED = 8  # projects at a time
STARTING = 503  # the status of a delivery that is not up yet
WANTING = ",".join(state for state in conditions.State if state is not conditions.State.READY)


class State(NamedTuple):
    """A word, and one sentence with the reason, which may be empty. The word decides the colour (`words.tone`), unless
    `tone` names one.
    """

    word: str
    reason: str = ""
    tone: str = ""


FINE = frozenset({"idle", "sending", "closed"})  # states of a delivery


def of_repository(repository: Mapping[str, Any]) -> State:
    """Say if the last commit of a repository is live."""
    if repository["state"] == RepositoryState.PRUNE_HELD and not (repository["held"] or {}).get("count"):
        return State("deletions blocked", repository["message"] or "")  # until a file is corrected
    if repository["state"] != RepositoryState.READY:
        return State(repository["state"], repository["message"] or "")
    if repository["head"] != repository["commit"]:
        return State(BEHIND, "Its head is not applied yet.")
    run = repository["run"]
    if run and run["outcome"] == "partial" and run["commit"] == repository["commit"]:
        return State("partly live", run["message"] or "")
    return State(LIVE)


def of_resource(status: Mapping[str, Any]) -> State:
    """Say if a resource works as declared, by its `status`."""
    word, reason = conditions.condition_of(status)
    if word is not conditions.State.READY:
        return State(wanting_word({"state": word}), reason or "")
    if status.get("delivery", {}).get("delivers"):
        return State("delivers")
    return State("rendered" if status.get("rendering", {}).get("hash") else word)


def of_delivering(deliveries: Iterable[Mapping[str, Any]]) -> State:
    """Say if a Configuration that delivers reaches its destinations, by their deliveries."""
    wrong = Counter(one["state"] for one in deliveries if one["state"] not in FINE)
    told = "; ".join(f"{counted(count, 'destination')} {_is(count)} {state}" for state, count in wrong.items())
    return State("delivers", f"{told}.", "warn") if told else State("delivers")


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def wanting_word(row: Mapping[str, Any]) -> str:
    """Return the state of a row of the search. The word for an idle Configuration differs from that for a destination
    without work.
    """
    return "does not deliver" if row["state"] == conditions.State.IDLE else str(row["state"])


def resource_page(project: str, kind: str, name: str) -> str:
    """Return the page of a resource."""
    if kind == "Configuration":
        return f"{PagePath.CONFIGURATIONS}/{project}/{name}"
    return f"{PagePath.RESOURCES}/{project}/{kind}/{name}"


def line_address(repository: Mapping[str, Any], commit: str | None, path: str, line: int) -> str:
    """Return the address of a line at the forge; empty if it is unknown."""
    pattern = repository.get("link") or ""
    told = {"{commit}": quote(commit or ""), "{path}": quote(path), "{line}": str(line)}
    return re.sub(r"\{(?:commit|path|line)\}", lambda found: told[found[0]], pattern) if commit else ""


async def search(view: View, states: str, kind: str = "") -> tuple[list[dict[str, Any]], bool]:
    """Return the first resources of each chosen project in these states, as rows of the API's search, each with its
    `project`; and True if a project has more.
    """
    query = {"status": states, "kind": kind, "limit": MOST_SEARCHED}
    found, is_cut = list[dict[str, Any]](), False
    for project in view.scope:
        answer = await view.api.maybe("GET /v1/resources", project=project, query=query)
        if answer:
            found += [{**one, "state": wanting_word(one), "project": project} for one in answer["resources"]]
            is_cut = is_cut or answer["next"] is not None
    return found, is_cut


class Configurations(NamedTuple):
    """The Configurations of the chosen projects: those that deliver, with their `verdict`, those that are only rendered
    for Collectors, and those that do not work as declared. `has_more_rendered` and `has_more_wanting`: a project has
    more than are searched.
    """

    delivering: list[dict[str, Any]]
    rendered: list[dict[str, Any]]
    wanting: list[dict[str, Any]]
    has_more_rendered: bool
    has_more_wanting: bool


async def configurations(view: View, deliveries: Iterable[Mapping[str, Any]]) -> Configurations:
    """Return the Configurations of the chosen projects, given the deliveries."""
    reached: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for one in deliveries:
        for name in one["configurations"]:
            reached.setdefault((one["project"], name), []).append(one)
    delivering: list[dict[str, Any]] = [
        {"project": project, "name": name, "verdict": of_delivering(found)}
        for (project, name), found in sorted(reached.items())
    ]
    delivering.sort(key=lambda one: not one["verdict"].reason)
    wanting, has_more_wanting = await search(view, WANTING, "Configuration")
    ready, has_more_ready = await search(view, conditions.State.READY, "Configuration")
    # While the service reads Configurations, it is unknown which ready ones deliver.
    known = [one for one in ready if one["project"] not in view.unread]
    rendered = [one for one in known if (one["project"], one["name"]) not in reached]
    return Configurations(delivering, rendered, wanting, has_more_ready, has_more_wanting)


async def repositories(view: View) -> list[dict[str, Any]]:
    """Return the repositories of the chosen projects, each with its `verdict`, and its `run`, the last recorded one."""
    answer = await view.api.ask("GET /v1/repositories", project=view.chosen)
    found = []
    for one in answer["repositories"]:
        runs = await view.api.ask("GET /v1/runs", query={"repository": one["name"], "limit": 1})
        known = {**one, "run": next(iter(runs["runs"]), None)}
        found.append({**known, "verdict": of_repository(known)})
    return found


async def deliveries(view: View) -> list[dict[str, Any]]:
    """Return the deliveries of the chosen projects, each with its `project`. Those with problems come first, then the
    order is by age of the oldest record, then by depth. Projects whose Configurations are still being read are added to
    `view.unread`, and instances that did not answer to `view.missing`.
    """
    turns = asyncio.Semaphore(MOST_ASKED)

    async def ask(project: str) -> list[dict[str, Any]]:
        try:
            async with turns:
                answer = await view.api.maybe("GET /v1/deliveries", project=project) or {}
        except errors.Problem as problem:
            if problem.status != STARTING:
                raise
            view.unread.append(project)
            return []
        note_missing(view, answer)
        return [{**one, "project": project} for one in answer.get("deliveries", ())]

    # All at once, because each may wait for a replica that does not answer.
    found = [one for each in await asyncio.gather(*map(ask, view.scope)) for one in each]
    found.sort(key=lambda one: (one["project"], one["destination"]))
    found.sort(key=lambda one: -one["queue"]["records"])
    found.sort(key=lambda one: one["queue"]["oldest"] or "9")
    found.sort(key=lambda one: one["state"] in FINE and not one["deadLetters"]["batches"])
    return found


def note_missing(view: View, answer: Mapping[str, Any]) -> None:
    """Add the instances whose part is missing in an answer to `view.missing`."""
    view.missing |= {one["instance"]: one["problem"] for one in answer.get("instances", ()) if one["problem"]}


async def notifications(view: View, *, is_open: bool = True) -> list[dict[str, Any]]:
    """Return the notifications that the visitor sees, the newest first: open ones that they did not dismiss, or all."""
    answer = await view.api.maybe("GET /v1/api/notifications", project=view.chosen)
    found: list[dict[str, Any]] = (answer or {}).get("notifications", [])
    return [one for one in found if not is_open or is_pending(one)]


def is_pending(notification: Mapping[str, Any]) -> bool:
    """Return True for an open notification that the visitor did not dismiss."""
    labels, status = notification["metadata"]["labels"], notification["status"]["userStatus"]
    return bool(labels.get("service/state") == "open" and status != "dismissed")
