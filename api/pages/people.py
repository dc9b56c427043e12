"""Access: projects with their members and invitations, people, and keys."""

from typing import Any

from starlette.responses import Response

from api import errors
from api.calls import Call, Subject
from api.pages import console, forms, parts
from api.pages.api_client import Api
from api.pages.console import View
from api.pages.forms import PagePath
from api.requests import Query
from reconciler.model.principals import Role

ROLES = [role.value for role in Role]
MOST_ROWS = 100
ONE = f"{PagePath.PROJECTS}/{{of}}"


@console.page(f"GET {PagePath.PROJECTS}", known=("q", "after"))
async def show_projects(view: View) -> Response:
    """Show the projects within reach, or those whose name holds a text."""
    projects = (await view.api.ask("GET /v1/projects"))["projects"]
    asked = view.text("q").lower()
    found = [one for one in projects if asked in one["name"]]
    return view.page(
        "projects",
        section="Projects",
        asked=asked,
        part=parts.of(view, found, most=MOST_ROWS),
        may_create=view.may("create-project", project=""),
    )


@console.page(f"GET {ONE}", known=("q", "after"))
async def show_project(view: View) -> Response:
    """Show a project with its members, invitations and keys, as far as the visitor may see them."""
    return await _project(view, code="")


@console.routes.add(f"POST {ONE}/invite", Subject.PUBLIC)
async def invite(call: Call) -> Response:
    """Make an invitation, and show its code this once."""
    form = await forms.read_own_form(call)
    project = call.parameters["of"]
    body = {"role": form.text("role")}
    if form.text("email"):
        body["email"] = form.text("email")
    try:
        answer = await Api(call).ask("POST /v1/projects/{name}/invitations", body=body, name=project)
    except errors.Problem as problem:
        return await console.refused(call, form, problem)
    view = View(call, Query(b"", known=frozenset(), strict=False), here=f"{PagePath.PROJECTS}/{project}")
    return await _project(view, code=answer["invitation"].get("code", ""))


async def _project(view: View, *, code: str) -> Response:
    name = view.call.parameters["of"]
    project = (await view.api.ask("GET /v1/projects/{name}", name=name))["project"]
    members = await view.api.maybe("GET /v1/projects/{name}/members", name=name)
    asked = view.text("q").lower()
    found = [one for one in members["members"] if asked in one["user"].lower()] if members else ()
    invitations = await view.api.maybe("GET /v1/projects/{name}/invitations", name=name)
    keys = await view.api.maybe("GET /v1/api-keys", project=name)
    return view.page(
        "project",
        section="Projects",
        project=project,
        asked=asked,
        part=parts.of(view, found, most=MOST_ROWS) if members else None,
        invitations=invitations["invitations"] if invitations else (),
        keys=keys["apiKeys"] if keys else (),
        most=MOST_ROWS,
        roles=ROLES,
        may_manage=view.may("member", project=name),
        takes_invitations=view.call.services.takes_invitations,
        code=code,
    )


@console.page(f"GET {PagePath.PEOPLE}", known=("q", "after"))
async def show_people(view: View) -> Response:
    """Show everybody who has an account, or whose name holds a text."""
    users: list[dict[str, Any]] = (await view.api.ask("GET /v1/users"))["users"]
    asked = view.text("q").lower()
    found = [one for one in users if asked in one["name"].lower() or asked in one["displayName"].lower()]
    return view.page(
        "people",
        section="People",
        asked=asked,
        part=parts.of(view, found, most=MOST_ROWS),
        has_passwords=view.call.services.auth_type == "local",
        me=view.call.principal.user,
    )


@console.page(f"GET {PagePath.KEYS}", known=("q", "after"))
async def show_keys(view: View) -> Response:
    """Show the keys that the visitor may see."""
    answer = await view.api.maybe("GET /v1/api-keys", project=view.chosen)
    keys: list[dict[str, Any]] = answer["apiKeys"] if answer else []
    asked = view.text("q").lower()
    found = [one for one in keys if asked in one["name"].lower() or asked in (one["project"] or "")]
    return view.page("keys", section="Keys", asked=asked, part=parts.of(view, found, most=MOST_ROWS))
