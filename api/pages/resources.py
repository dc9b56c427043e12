"""Resources: the search, and a page for each with its YAML, source, status, history and references."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from api import errors
from api.pages import console, forms, states
from api.pages.console import View
from api.pages.forms import PagePath
from reconciler.model import names, yaml_documents
from reconciler.model.conditions import State
from reconciler.model.desired import CONFIGURATION, SERVER_KEYS

PAGE = 100  # lines of the search
MOST_VERSIONS = 20  # with all that they hold
FILTERS = ("q", "kind", "label", "status", "owner", "after")
STATES = ("", *State)
OWNED = ("apiVersion", "kind", "metadata", "spec")


@console.page(f"GET {PagePath.RESOURCES}", known=FILTERS)
async def search(view: View) -> Response:
    """Show the resources that a search finds in the chosen projects, project by project."""
    asked = {name: view.text(name) for name in FILTERS}
    mistakes, found, following = list[str](), list[dict[str, Any]](), ""
    try:
        found, following = await _search(view, asked)
    except errors.BadRequest as problem:
        mistakes = [*problem.sentences]
    return view.page(
        "resources",
        section="Resources",
        live="resource",
        status=400 if mistakes else 200,
        asked=asked,
        is_filtered=any(asked.values()),
        mistakes=mistakes,
        found=[{**one, "state": states.wanting_word(one)} for one in found],
        following=view.link(PagePath.RESOURCES, **{**asked, "after": following}) if following else "",
        kinds=[kind.name for kind in names.KINDS],
        statuses=STATES,
        page_of=states.resource_page,
    )


async def _search(view: View, asked: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
    """Return at most a page of rows, each with its `project`, and the beginning of the next page:
    `project/Kind/name`.
    """
    begin, _, after = asked["after"].partition("/")
    found: list[dict[str, Any]] = []
    for project in (one for one in view.scope if one >= begin):
        query = {**asked, "after": after if project == begin else "", "limit": PAGE - len(found)}
        answer = await view.api.ask("GET /v1/resources", project=project, query=query)
        found += [{**one, "project": project} for one in answer["resources"]]
        if answer["next"]:
            return found, f"{project}/{answer['next']}"
        if len(found) == PAGE:
            return found, f"{project}/{found[-1]['kind']}/{found[-1]['name']}"
    return found, ""


@console.page(f"GET {PagePath.RESOURCES}/{{of}}/{{kind}}/{{name}}", known=("version", "from"))
async def show(view: View) -> Response:
    """Show one resource."""
    project, kind, name = (view.call.parameters[part] for part in ("of", "kind", "name"))
    if kind == CONFIGURATION:
        page = quote(states.resource_page(project, kind, name))
        return forms.elsewhere(view.link(page, **{part: view.text(part) for part in ("version", "from")}))
    facts = await read(view, project, kind, name)
    return view.page(
        "resource", section="Resources", live="resource", page_of=states.resource_page, project=project, **facts
    )


async def read(view: View, project: str, kind: str, name: str) -> dict[str, Any]:
    """Return everything that the page of a resource shows: its YAML, history, references, and a requested difference.

    A deleted resource has its history alone. Raises `NotFound` for one that never existed.
    """
    about = {"project": project, "kind": kind, "name": name}
    versions = await history(view, about, limit=MOST_VERSIONS)
    answer = await view.api.maybe("GET /v1/resources/{kind}/{name}", **about)
    resource = answer["resource"] if answer else None
    latest = resource or (versions or await history(view, about, limit=1))[0]
    status, source = latest.get("status", {}), latest.get("status", {}).get("source", {})
    repositories = await states.repositories(view) if source.get("repository") else []
    repository = next((one for one in repositories if one["name"] == source.get("repository")), {})
    path, line = source.get("path"), source.get("line")
    return {
        "resource": latest,
        "is_deleted": resource is None,
        "verdict": states.State("deleted") if resource is None else states.of_resource(status),
        "source": source,
        "repository": repository,
        "address": states.line_address(repository, source.get("commit"), path, line) if path and line else "",
        "yaml": to_yaml(latest),
        "versions": versions,
        "references": await view.api.maybe("GET /v1/resources/{kind}/{name}/references", **about),
        "change": await _change(view, about, latest["metadata"].get("version", 0)),
        "most": MOST_VERSIONS,
    }


async def history(view: View, about: Mapping[str, str], *, limit: int) -> list[dict[str, Any]]:
    """Return the last versions; none if they are too large together. Raises `NotFound`."""
    try:
        answer = await view.api.ask("GET /v1/{kind}/{name}/history", query={"limit": limit}, **about)
    except errors.TooLarge:
        return []
    found: list[dict[str, Any]] = answer["versions"]
    return found


async def _change(view: View, about: Mapping[str, str], latest: int) -> dict[str, Any] | None:
    """Return the fields that differ between the two versions in the query, by default the last two."""
    version = _number(view.text("version"), highest=latest) or latest
    earlier = _number(view.text("from"), highest=latest)
    query = {"from": earlier} if earlier else {}
    changed: dict[str, Any] | None = await view.api.maybe(
        "GET /v1/{kind}/{name}/history/{version}/changes", query=query, version=str(version), **about
    )
    return changed


def _number(text: str, *, highest: int) -> int | None:
    """Return the version number in a query; None for any other text."""
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(highest))
    return int(text) if is_number and 0 < int(text) <= highest else None


def to_yaml(resource: Mapping[str, Any]) -> str:
    """Return the parts of a resource that a user owns as YAML. Secrets are masked already."""
    owned = {key: resource[key] for key in OWNED if key in resource}
    if isinstance(owned.get("metadata"), dict):
        owned["metadata"] = {key: value for key, value in owned["metadata"].items() if key not in SERVER_KEYS}
    return yaml_documents.to_yaml([owned])
