"""All problems in one list: each with the thing, its place, the cause, and buttons for actions that may help."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from starlette.responses import Response

from api import errors
from api.pages import console, states
from api.pages.console import View
from api.pages.forms import PagePath
from reconciler.model.text import counted

MOST_OF_ONE = 200  # refused resources of a repository
REFUSED = ("invalid", "error", "forbidden", "in-use")
SHOWN_ELSEWHERE = frozenset(  # notifications whose causes are in this list anyway
    {
        *("RepositoryUnreachable", "RepositoryHeld", "PruneHeld", "ResourcesInvalid", "ConfigurationIncomplete"),
        *("DeliveryStale", "DeliveryFailing", "DeadLetters"),
    }
)


WANTING = "Resources that do not work"


class Problem(NamedTuple):
    """One line of the list: the state, the thing with its page, its place with the address at the forge, the cause, and
    the subject of its buttons. `actions` are names of blocks in the template.
    """

    state: str
    project: str
    name: str
    page: str
    cause: str
    place: str = ""
    address: str = ""
    actions: tuple[str, ...] = ()
    about: Mapping[str, Any] | None = None


@console.page(f"GET {PagePath.PROBLEMS}")
async def show(view: View) -> Response:
    """Show the problems of the chosen projects, by kind."""
    repositories = await states.repositories(view)
    wanting, is_cut = await states.search(view, states.WANTING)
    groups = [
        ("Repositories", [problem for one in repositories for problem in _of_repository(view, one)]),
        ("Resources that are not stored as committed", await _refused(view, repositories)),
        (WANTING, [_of_resource(one, repositories) for one in wanting]),
        ("Delivery", [problem for one in await states.deliveries(view) for problem in _of_delivery(view, one)]),
        ("Instances", [Problem("missing", "", name, PagePath.DELIVERY, why) for name, why in view.missing.items()]),
        ("Everything else", [_of_notification(view, one) for one in await states.notifications(view) if _is_new(one)]),
    ]
    return view.page(
        "problems",
        section="Problems",
        live="repository run resource delivery notification",
        groups=[(heading, problems) for heading, problems in groups if problems],
        wanting=WANTING,
        is_cut=is_cut,
    )


def _of_repository(view: View, one: Mapping[str, Any]) -> Iterator[Problem]:
    verdict, project = one["verdict"], one["project"]
    may = [name for name in ("reconcile", "approve", "suspend") if view.may(name, project=project)]
    actions: list[str] = []
    if one["held"] and one["held"]["approvable"] and "approve" in may:
        actions.append("approve")
    if one["suspension"] and "suspend" in may:
        actions.append("resume")
    elif verdict.word != states.LIVE and "reconcile" in may:
        actions.append("reconcile")
    if verdict.word != states.LIVE or one["held"]:
        state = "held" if one["held"] and verdict.word == states.LIVE else verdict.word
        page = view.link(PagePath.RUNS, repository=one["name"])
        yield Problem(state, project, one["name"], page, _cause(one), actions=tuple(actions), about=one)


def _cause(one: Mapping[str, Any]) -> str:
    if suspension := one["suspension"]:
        ends = f" It ends at {suspension['until']}." if suspension["until"] else ""
        return f"{suspension['actor']} suspended it: {suspension['reason']}{ends}"
    return one["verdict"].reason or f"Held for approval: {counted(one['held']['count'], 'deletion')}."


async def _refused(view: View, repositories: list[dict[str, Any]]) -> list[Problem]:
    """Return what the last run of each repository refused, with file and line."""
    found = []
    for one in repositories:
        run = one["run"]
        if run is None or not any(run["counts"].get(status) for status in REFUSED):
            continue
        page = f"{PagePath.RUNS}/{run['id']}"
        try:
            statuses = (await view.api.ask("GET /v1/runs/{id}", id=run["id"]))["run"].get("statuses", ())
        except errors.TooLarge:
            count = sum(run["counts"].get(status, 0) for status in REFUSED)
            cause = f"{counted(count, 'resource')} refused; see the run."
            found.append(Problem("refused", one["project"], one["name"], page, cause))
            continue
        refused = [status for status in statuses if status["status"] in REFUSED]
        found += [_of_status(one, status, page) for status in refused[:MOST_OF_ONE]]
        if len(refused) > MOST_OF_ONE:
            cause = f"{counted(len(refused) - MOST_OF_ONE, 'more resource')} refused; see the run."
            found.append(Problem("refused", one["project"], one["name"], page, cause))
    return found


def _of_status(one: Mapping[str, Any], status: Mapping[str, Any], page: str) -> Problem:
    path, line = status.get("path"), status.get("line") or 1
    cause = status.get("reason") or " ".join(status.get("notes", ())) or CAUSES.get(status["status"], "")
    name = " ".join(filter(None, (status["kind"], status["name"]))) or path or one["name"]
    place = f"{path}:{line}" if path else ""
    address = states.line_address(one, one["run"]["commit"], path, line) if path else ""
    return Problem(status["status"], one["project"], name, page, cause, place, address)


CAUSES = {
    "forbidden": "Another repository, or the API, owns it.",
    "in-use": "Others refer to it, so it is not deleted.",
}


def _of_resource(one: Mapping[str, Any], repositories: list[dict[str, Any]]) -> Problem:
    """Return the line of a resource that is stored and does not do what it declares."""
    page, source = states.resource_page(one["project"], one["kind"], one["name"]), one["source"] or {}
    path, line, place, address = source.get("path"), source.get("line") or 1, "", ""
    if path:
        place = f"{path}:{line}"
        owner = next((each for each in repositories if each["name"] == source.get("repository")), {})
        address = states.line_address(owner, source.get("commit"), path, line)
    name = f"{one['kind']} {one['name']}"
    return Problem(one["state"], one["project"], name, page, one["reason"] or "", place, address)


def _of_delivery(view: View, one: Mapping[str, Any]) -> Iterator[Problem]:
    is_fine, dead = one["state"] in states.FINE, one["deadLetters"]
    page, project = f"{PagePath.DELIVERY}/{one['project']}/{one['destination']}", one["project"]
    if not is_fine:
        test = ("test",) if view.may("replay", project=project) else ()
        yield Problem(one["state"], project, one["destination"], page, one["message"], actions=test, about=one)
    if dead["batches"]:
        may = ("replay", "discard") if view.may("replay", project=project) else ()
        found = f"{counted(dead['records'], 'record')} in {counted(dead['batches'], 'batch', 'batches')}"
        cause = f"{found} were given up; {_last_failure(one)}"
        yield Problem("dead letters", project, one["destination"], page, cause, actions=may, about=one)


def _last_failure(one: Mapping[str, Any]) -> str:
    failure = one["lastFailure"]
    return f"the last failure was: {failure['cause']}" if failure else "no failure since the start."


def _is_new(notification: Mapping[str, Any]) -> bool:
    return notification["spec"]["notificationType"] not in SHOWN_ELSEWHERE


def _of_notification(view: View, one: Mapping[str, Any]) -> Problem:
    metadata, spec = one["metadata"], one["spec"]
    page = f"{view.link(PagePath.NOTIFICATIONS)}#n-{metadata['id']}"
    project, cause = spec.get("account", ""), metadata["additionalInfo"]["message"]
    name, is_person = metadata["displayName"], view.call.principal.user is not None
    return Problem(spec["severity"], project, name, page, cause, actions=("dismiss",) if is_person else (), about=one)
