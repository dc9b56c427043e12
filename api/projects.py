"""Projects and their members."""

import json
from collections.abc import Mapping

from starlette.responses import Response

from api import answers, judging, objects, queries
from api.answers import Empty, Json
from api.calls import Call
from reconciler.auth import changes
from reconciler.model.clock import rfc3339
from reconciler.model.directory import Directory, Project
from reconciler.model.principals import Role


async def list_all(call: Call) -> Response:
    """GET /v1/projects"""
    reachable = judging.reach(call)
    directory = call.services.accounts.directory
    found = [one for name, one in sorted(directory.projects.items()) if judging.is_within(reachable, name)]
    return Json(answers.json_array(b"projects", map(_encoded, found)))


async def create(call: Call) -> Response:
    """POST /v1/projects"""
    queries.none_known(call.query)
    body = await objects.read_object(call, known=("name",))
    name = body.text("name", required=True) or ""
    body.check()
    at = rfc3339(call.services.clock())
    await call.services.accounts.amend(
        lambda directory: changes.create_project(directory, name, at=at),
        actor=call.principal.name,
        request=call.request,
    )
    return Json(answers.json_member(b"project", _encoded(Project(name, at))), status=201)


async def get(call: Call) -> Response:
    """GET /v1/projects/{name}"""
    return Json(answers.json_member(b"project", _encoded(call.services.accounts.directory.projects[call.project])))


async def list_members(call: Call) -> Response:
    """GET /v1/projects/{name}/members"""
    members = _members(call.services.accounts.directory, call.project)
    return Json(answers.json_array(b"members", (_member(name, role) for name, role in members.items())))


async def set_member(call: Call) -> Response:
    """PUT /v1/projects/{name}/members/{user}"""
    queries.none_known(call.query)
    body = await objects.read_object(call, known=("role",))
    role = Role(body.choice("role", list(Role), required=True) or Role.VIEWER)
    body.check()
    name, project = call.parameter("user"), call.project
    await call.services.accounts.amend(
        lambda directory: changes.set_member(directory, project=project, name=name, role=role),
        actor=call.principal.name,
        request=call.request,
    )
    return Json(answers.json_member(b"member", _member(name, role)))


async def remove_member(call: Call) -> Response:
    """DELETE /v1/projects/{name}/members/{user}"""
    queries.none_known(call.query)
    name, project = call.parameter("user"), call.project
    await call.services.accounts.amend(
        lambda directory: changes.remove_member(directory, project=project, name=name),
        actor=call.principal.name,
        request=call.request,
    )
    return Empty(status=204)


def _members(directory: Directory, project: str) -> Mapping[str, Role]:
    """The members by name, sorted. Organization admins are none: they need no membership."""
    roles = directory.members.get(project, {})
    return {name: roles[user.id] for name, user in sorted(directory.users.items()) if user.id in roles}


def _encoded(project: Project) -> bytes:
    return json.dumps({"name": project.name, "createdAt": project.created_at}).encode()


def _member(name: str, role: Role) -> bytes:
    return json.dumps({"user": name, "role": role}).encode()
