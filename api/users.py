"""People, for organization admins."""

import json
import os
from dataclasses import replace

from starlette.responses import Response

from api import answers, errors, identities, judging, objects, queries
from api.answers import Empty, Json
from api.calls import Call
from api.objects import Members
from api.passwords import chosen_password
from reconciler.auth import changes
from reconciler.model import ids
from reconciler.model.clock import rfc3339
from reconciler.model.directory import Amendment, Directory, User

CHANGEABLE = ("displayName", "organizationAdmin", "password")
BY_PROVIDER = (
    "People sign in through the provider here, so somebody created by hand never could; invite them to a project, or "
    "give them a group or a claim at the provider."
)


async def list_all(call: Call) -> Response:
    """GET /v1/users"""
    directory = call.services.accounts.directory
    return Json(
        answers.json_array(b"users", (_encoded(user, directory) for _, user in sorted(directory.users.items())))
    )


async def create(call: Call) -> Response:
    """POST /v1/users"""
    queries.none_known(call.query)
    body = await objects.read_object(call, known=("name", *CHANGEABLE))
    name = body.text("name", required=True)
    password = chosen_password(body, "password", required=False)
    now = call.services.clock()
    new = User(
        id=ids.ulid(milliseconds=int(now.timestamp() * 1000), randomness=os.urandom(ids.RANDOM_BYTES)),
        name=name or "",
        created_at=rfc3339(now),
        display_name=body.text("displayName") or "",
        organization_admin=body.boolean("organizationAdmin") or False,
    )
    body.check()
    if call.services.auth_type == "oidc":
        raise errors.Conflict(BY_PROVIDER)
    if password:
        new = changes.with_password(new, await call.services.signing_in.encode(password))
        judging.again(call)
    await call.services.accounts.amend(
        lambda directory: changes.create_user(directory, new), actor=call.principal.name, request=call.request
    )
    return _shown(call, new.name, status=201)


async def get(call: Call) -> Response:
    """GET /v1/users/{name}"""
    return _shown(call, call.parameter("name"))


async def change(call: Call) -> Response:
    """PATCH /v1/users/{name}"""
    queries.none_known(call.query)
    body = await objects.read_object(call, known=CHANGEABLE)
    name, password = call.parameter("name"), chosen_password(body, "password", required=False)
    change = _Change(body)
    body.check()
    if password:
        changes.check_has_password(changes.user(call.services.accounts.directory, name))
    encoded = await call.services.signing_in.encode(password) if password else None
    judging.again(call)
    await call.services.accounts.amend(
        lambda directory: change.of(directory, name, password=encoded),
        actor=call.principal.name,
        request=call.request,
    )
    return _shown(call, name)


async def remove(call: Call) -> Response:
    """DELETE /v1/users/{name}"""
    queries.none_known(call.query)
    name = call.parameter("name")
    await call.services.accounts.amend(
        lambda directory: changes.remove_user(directory, name), actor=call.principal.name, request=call.request
    )
    return Empty(status=204)


class _Change:
    """What a body changes; what it does not name stays."""

    def __init__(self, body: Members) -> None:
        self.display_name = body.text("displayName")
        self.organization_admin = body.boolean("organizationAdmin")

    def of(self, directory: Directory, name: str, *, password: str | None) -> Amendment:
        """The change of a person as they are now. Raises what `change_user` does."""
        after = changes.user(directory, name)
        if self.display_name is not None:
            after = replace(after, display_name=self.display_name)
        if self.organization_admin is not None:
            after = replace(after, organization_admin=self.organization_admin)
        if password is not None:
            after = changes.with_password(after, password)
        return changes.change_user(directory, after)


def _shown(call: Call, name: str, *, status: int = 200) -> Response:
    directory = call.services.accounts.directory
    return Json(answers.json_member(b"user", _encoded(changes.user(directory, name), directory)), status=status)


def _encoded(user: User, directory: Directory) -> bytes:
    return json.dumps(
        {
            "name": user.name,
            "displayName": user.display_name,
            "organizationAdmin": user.organization_admin,
            "createdAt": user.created_at,
            "hasPassword": user.password is not None,
            "projects": [{"name": name, "role": role} for name, role in directory.roles_of(user).items()],
            **identities.shown_identity(user),
        }
    ).encode()
