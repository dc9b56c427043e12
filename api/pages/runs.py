"""Runs and plans: what a commit did, field by field, and what a proposal would do."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from api import repositories
from api.pages import console, parts, states, words
from api.pages.console import View
from api.pages.forms import PagePath

MOST_RUNS = 50
MOST_STATUSES = 200  # of a run or a plan, at once
MOST_CHANGES = 50  # resources of a run whose fields are shown
GRAVE = ("invalid", "error", "forbidden", "in-use", "not-found", "deleted", "deprecated", "configured", "created")


@console.page(f"GET {PagePath.RUNS}", known=("repository",))
async def show_runs(view: View) -> Response:
    """Show the last runs, and the repository if one is chosen."""
    name = view.text("repository")
    found = [one for one in await states.repositories(view) if name in ("", one["name"])]
    query = {"repository": name, "limit": MOST_RUNS}
    runs = (await view.api.ask("GET /v1/runs", project=view.chosen, query=query))["runs"]
    if name and not found and not runs:
        raise repositories.missing()
    repository = found[0] if name and found else None
    return view.page(
        "runs",
        section="Runs",
        live="run repository",
        runs=runs,
        most=MOST_RUNS,
        repository=repository,
        followed={one["name"]: one for one in found},
        actions=_actions(view, repository) if repository else (),
    )


def _actions(view: View, repository: Mapping[str, Any]) -> list[str]:
    """Return the buttons for a repository that the visitor may use."""
    project = repository["project"]
    wanted = ["resume"] if repository["suspension"] else ["reconcile", "suspend"]
    if repository["held"] and repository["held"]["approvable"]:
        wanted.append("approve")
    return [name for name in wanted if view.may(name, project=project)]


@console.page(f"GET {PagePath.RUNS}/{{id}}", known=("after",))
async def show_run(view: View) -> Response:
    """Show a run with each status, and the fields that it changed."""
    number = view.call.parameters["id"]
    run = (await view.api.ask("GET /v1/runs/{id}", project=view.chosen, id=number))["run"]
    changes: dict[str, Any] = {"changes": [], "more": False}
    if run["phase"] == "finished":
        query = {"limit": MOST_CHANGES}
        changes = await view.api.ask("GET /v1/runs/{id}/changes", project=view.chosen, query=query, id=number)
    part = parts.of(view, sorted(run.pop("statuses", ()), key=_gravity), most=MOST_STATUSES)
    found = {one["name"]: one for one in await states.repositories(view)}
    repository = found.get(run["repository"], {})
    return view.page(
        "run",
        section="Runs",
        live="repository" if run["phase"] == "finished" else "run",
        run=run,
        statuses=_linked(repository, run["commit"], part.lines),
        part=part,
        held=_held_deletions(repository, run["commit"]),
        fields={(one["kind"], one["name"]): one for one in changes["changes"]},
        has_more=changes["more"],
        repository=repository,
        page_of=states.resource_page,
    )


def _held_deletions(repository: Mapping[str, Any], commit: str | None) -> Mapping[str, Any] | None:
    """Return the deletions that are held at a commit; None if there are none."""
    held: Mapping[str, Any] | None = repository.get("held")
    return held if held and held["commit"] == commit else None


def _gravity(status: Mapping[str, Any]) -> tuple[int, str, str]:
    place = GRAVE.index(status["status"]) if status["status"] in GRAVE else len(GRAVE)
    return place, status["kind"] or "", status["name"] or ""


def _linked(
    repository: Mapping[str, Any], commit: str | None, statuses: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return statuses with the `address` of each place at the forge."""
    return [
        {**one, "address": states.line_address(repository, commit, one["path"], one["line"]) if one.get("path") else ""}
        for one in statuses
    ]


@console.page(f"GET {PagePath.PLANS}")
async def show_plans(view: View) -> Response:
    """Show the plans that are kept."""
    plans = (await view.api.ask("GET /v1/plans", project=view.chosen, query={"limit": MOST_RUNS}))["plans"]
    return view.page("plans", section="Plans", live="repository resource", plans=plans)


@console.page(f"GET {PagePath.PLANS}/{{id}}", known=("after",))
async def show_plan(view: View) -> Response:
    """Show a plan: flows, statuses with their fields, and what Collectors would run."""
    plan = (await view.api.ask("GET /v1/plans/{id}", project=view.chosen, id=view.call.parameters["id"]))["plan"]
    part = parts.of(view, plan.pop("statuses"), most=MOST_STATUSES)
    pattern = {"link": plan.get("link")}
    shown = [
        {**one, "address": states.line_address(pattern, plan["head"]["commit"], one["at"]["path"], one["at"]["line"])}
        if one.get("at")
        else {**one, "address": ""}
        for one in part.lines
    ]
    found = {one["name"]: one for one in await states.repositories(view)}
    renderings = [
        {**one, **words.difference(one.get("old", ""), one.get("new", ""))} for one in plan.get("renderings", ())
    ]
    return view.page(
        "plan",
        section="Plans",
        live="repository resource",
        plan=plan,
        statuses=shown,
        part=part,
        repository=found.get(plan["repository"], {}),
        renderings=renderings,
        page_of=states.resource_page,
    )
