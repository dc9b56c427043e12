"""Projects, members, invitations and API keys."""

import os
from datetime import datetime

from starlette.responses import Response

from api import access, errors, requests
from api.calls import Call, Subject
from api.requests import Members
from api.responses import Empty, json_answer
from api.routing import Routes
from reconciler.auth import changes
from reconciler.model import directory, principals
from reconciler.model.clock import rfc3339
from reconciler.model.directory import Invitation, Key, Project
from reconciler.model.principals import UNLISTED, Permission, Principal, Role, Scope

routes = Routes()

# Projects and their members.


@routes.add("GET /v1/projects", Subject.REACH, Permission.READ)
async def list_all(call: Call) -> Response:
    """List the projects within reach."""
    reachable, projects = access.reach(call), call.directory.projects
    return json_answer(
        {"projects": [_shown(one) for name, one in sorted(projects.items()) if access.is_within(reachable, name)]}
    )


@routes.add("POST /v1/projects", Subject.ORGANIZATION, Permission.MANAGE_ORGANIZATION)
async def create(call: Call) -> Response:
    """Create a project."""
    body = await requests.read_object(call, known=("name",))
    name = body.text("name", required=True) or ""
    body.check()
    at = rfc3339(call.services.clock())
    await call.amend(lambda directory: changes.create_project(directory, name, at=at))
    return json_answer({"project": _shown(Project(name, at))}, status=201)


@routes.add("GET /v1/projects/{name}", Subject.NAMED_PROJECT, Permission.READ)
async def get(call: Call) -> Response:
    """Show one project."""
    return json_answer({"project": _shown(call.directory.projects[call.project])})


@routes.add("GET /v1/projects/{name}/members", Subject.NAMED_PROJECT, Permission.MANAGE_MEMBERS)
async def list_members(call: Call) -> Response:
    """List the members of a project by name. Organization admins are none: they need no membership."""
    roles, users = call.directory.members.get(call.project, {}), sorted(call.directory.users.items())
    return json_answer({"members": [_member(name, roles[user.id]) for name, user in users if user.id in roles]})


@routes.add("PUT /v1/projects/{name}/members/{user}", Subject.NAMED_PROJECT, Permission.MANAGE_MEMBERS)
async def set_member(call: Call) -> Response:
    """Give somebody a role in a project."""
    body = await requests.read_object(call, known=("role",))
    role = Role(body.choice("role", list(Role), required=True) or Role.VIEWER)
    body.check()
    name, project = call.parameters["user"], call.project
    await call.amend(lambda directory: changes.set_member(directory, project=project, name=name, role=role))
    return json_answer({"member": _member(name, role)})


@routes.add("DELETE /v1/projects/{name}/members/{user}", Subject.NAMED_PROJECT, Permission.MANAGE_MEMBERS)
async def remove_member(call: Call) -> Response:
    """Remove a person from a project."""
    requests.none_known(call.query)
    name, project = call.parameters["user"], call.project
    await call.amend(lambda directory: changes.remove_member(directory, project=project, name=name))
    return Empty(status=204)


def _shown(project: Project) -> dict[str, object]:
    return {"name": project.name, "createdAt": project.created_at}


def _member(name: str, role: Role) -> dict[str, object]:
    return {"user": name, "role": role}


# Invitations to a project: creating one, with a code that is shown once or for an e-mail address; listing; withdrawing.

MEMBERS = ("role", "email", "expiry")
NO_PROVIDER = (
    "Nobody comes in by an invitation here, since people sign in without a provider (`auth.type`); create a user, and "
    "give them a role in the project."
)
CLAIMS_DECIDE = (
    "Nobody comes in by an invitation here, since claims decide who does (`auth.oidc.disableInvitations`); give the "
    "person a group or a claim at the provider."
)


@routes.add("GET /v1/projects/{name}/invitations", Subject.NAMED_PROJECT, Permission.MANAGE_MEMBERS)
async def list_invitations(call: Call) -> Response:
    """List the unused invitations to a project."""
    now = rfc3339(call.services.clock())
    found = changes.waiting_invitations(call.directory, now=now, project=call.project)
    return json_answer({"invitations": [_shown_invitation(one) for one in found]})


@routes.add("POST /v1/projects/{name}/invitations", Subject.NAMED_PROJECT, Permission.MANAGE_MEMBERS)
async def create_invitation(call: Call) -> Response:
    """Invite somebody to a project."""
    body = await requests.read_object(call, known=MEMBERS)
    now = call.services.clock()
    code = "" if "email" in body.value else changes.make_code(os.urandom(changes.CODE_RANDOM_BYTES))
    invitation = _read(body, code, call=call, now=now)
    if not call.services.takes_invitations:  # it would never admit anybody
        raise errors.Conflict(CLAIMS_DECIDE if call.services.auth_type == "oidc" else NO_PROVIDER)
    await call.amend(lambda directory: changes.invite(directory, invitation, now=rfc3339(now)))
    shown = _shown_invitation(invitation) | ({"code": code} if code else {})
    return json_answer({"invitation": shown}, status=201)


@routes.add("DELETE /v1/projects/{name}/invitations/{id}", Subject.NAMED_PROJECT, Permission.MANAGE_MEMBERS)
async def withdraw_invitation(call: Call) -> Response:
    """Withdraw an invitation."""
    requests.none_known(call.query)
    project, identifier, now = call.project, call.parameters["id"], rfc3339(call.services.clock())
    await call.amend(
        lambda directory: changes.withdraw_invitation(directory, project=project, identifier=identifier, now=now)
    )
    return Empty(status=204)


def _read(body: Members, code: str, *, call: Call, now: datetime) -> Invitation:
    """Return the requested invitation to the project in the path. Raises `BadRequest`."""
    role = body.choice("role", list(Role), required=True)
    email, lasts, longest = "", changes.CODE_LASTS, changes.LONGEST_CODE
    if (address := body.text("email")) is not None:
        email, lasts, longest = changes.invited_address(address) or "", changes.ADDRESS_LASTS, changes.LONGEST_ADDRESS
        if not email:
            body.mistake("email", changes.EMAIL_RULE)
    until = requests.expiry(body, now=now, longest=longest) or now + lasts
    body.check()
    return Invitation(
        id=call.services.new_id(),
        project=call.project,
        role=Role(role or Role.VIEWER),
        created_at=rfc3339(now),
        created_by=call.principal.name,
        expires_at=rfc3339(until),
        digest=changes.code_digest(code),
        email=email,
    )


def _shown_invitation(invitation: Invitation) -> dict[str, object]:
    """Return an invitation as JSON shows it, without the code."""
    return {
        "id": invitation.id,
        "project": invitation.project,
        "role": invitation.role,
        "email": invitation.email or None,
        "createdAt": invitation.created_at,
        "createdBy": invitation.created_by,
        "expiresAt": invitation.expires_at,
    }


# API keys: creating one, which is shown once; listing without secrets; revoking.
#
# A key belongs to a person, a project or the organization. People manage their own keys. Admins create the others, and
# see and revoke all keys of the projects that they administer.

API_KEY_MEMBERS = ("name", "project", "role", "scopes", "expiry", "personal")
NO_KEYS_BY_KEYS = "A key makes no keys, so that whoever finds one cannot stay: a person makes them, or SERVICE_API_KEY."


@routes.add("GET /v1/api-keys", Subject.KNOWN)
async def list_keys(call: Call) -> Response:
    """List the keys that the caller may see."""
    if call.principal.user is not None:
        pass  # who may manage none has keys of their own
    elif access.HEADER in call.named:
        _check_may_manage(call, access.chosen(call))
    elif not may_manage_any(call.principal):
        raise access.forbidden(call, Permission.MANAGE_KEYS)
    return json_answer({"apiKeys": [_shown_key(one) for one in visible(call)]})


@routes.add("POST /v1/api-keys", Subject.KNOWN)
async def create_key(call: Call) -> Response:
    """Create a key. Only this answer shows it."""
    key, text = await make_key(call, await requests.read_object(call, known=API_KEY_MEMBERS))
    return json_answer({"apiKey": {**_shown_key(key), "key": text}}, status=201)


@routes.add("DELETE /v1/api-keys/{id}", Subject.KNOWN)
async def revoke_key(call: Call) -> Response:
    """Revoke a key."""
    requests.none_known(call.query)
    await end_key(call, call.parameters["id"])
    return Empty(status=204)


async def make_key(call: Call, body: Members) -> tuple[Key, str]:
    """Create the requested key. Return it with the secret, which is not stored.

    Raises `BadRequest`, `NotFound`, `Forbidden`, and what refuses the change.
    """
    principal = call.principal
    if principal.user is None and principal not in UNLISTED:
        raise errors.Forbidden(NO_KEYS_BY_KEYS)
    text = directory.make_key(os.urandom(directory.RANDOM_BYTES))
    now = call.services.clock()
    key = _read_key(body, text, call=call, now=now)
    body.check()
    if key.owner is None and body.value.get("personal") is True:
        raise errors.Forbidden(f"A personal key is of a person, and {principal.name} is none.")
    access.reach(call)  # errors of the chosen project come first
    if key.project is not None:
        access.reached(call, key.project)
    if key.owner is None:
        _check_may_manage(call, key.project)
    if Scope.METRICS in key.scopes and not principal.organization_admin:
        raise errors.Forbidden("The scope metrics reads what is the whole service's; it takes an organization admin.")
    await call.amend(lambda directory: changes.create_key(directory, key))
    return key, text


async def end_key(call: Call, identifier: str) -> None:
    """Revoke a key. Raises `Missing`, `NotFound`, `Forbidden`."""
    key = next((key for key in _reachable(call) if key.id == identifier), None)
    if key is None:
        raise changes.Missing(changes.NO_KEY)
    if not _is_own(call, key):
        _check_may_manage(call, key.project)
    await call.amend(lambda directory: changes.revoke_key(directory, key))


def _read_key(body: Members, text: str, *, call: Call, now: datetime) -> Key:
    """Return the requested key. It belongs to the chosen project, unless the body says `"project": null`."""
    name = body.text("name", required=True)
    role = body.choice("role", list(Role), required=True)
    scopes = body.choices("scopes", list(Scope))
    is_personal = body.boolean("personal") or False
    until = requests.expiry(body, now=now, longest=changes.KEY_LASTS)
    if until is None and not is_personal:
        until = now + changes.KEY_LASTS
    is_organizations = "project" in body.value and body.value["project"] is None
    project = None if is_organizations else body.text("project")
    if "project" not in body.value:
        project = access.chosen(call)
    return Key(
        id=call.services.new_id(),
        name=name or "",
        prefix=directory.key_prefix(text) or "",
        digest=directory.key_digest(text),
        project=project,
        role=Role(role or Role.VIEWER),
        scopes=frozenset(map(Scope, scopes)) if scopes is not None else frozenset({Scope.RESOURCES}),
        created_at=rfc3339(now),
        created_by=call.principal.name,
        expires_at=None if until is None else rfc3339(until),
        owner=call.principal.user if is_personal else None,
    )


def may_manage_any(principal: Principal) -> bool:
    """Return True when the caller may manage the keys of some project."""
    roles = {*principal.roles.values(), principal.everywhere}
    return any(principals.may(principal, Permission.MANAGE_KEYS, role=role) for role in roles)


def _may_manage(call: Call, project: str | None) -> bool:
    if project is None:
        return principals.may(call.principal, Permission.MANAGE_ORGANIZATION, role=None)
    return access.permits(call, Permission.MANAGE_KEYS, project=project)


def _check_may_manage(call: Call, project: str | None) -> None:
    """Check that the caller may manage the keys of a project within reach, or of the organization. Raises
    `Forbidden`.
    """
    if not _may_manage(call, project):
        whose = "the organization" if project is None else f"the project {project}"
        raise errors.Forbidden(f"{call.principal.name} may not manage the keys of {whose}.")


def visible(call: Call) -> list[Key]:
    """Return the keys that the caller may manage, including their own, in the chosen projects: the oldest first."""
    return [key for key in _reachable(call) if _is_own(call, key) or _may_manage(call, key.project)]


def _reachable(call: Call) -> list[Key]:
    """Return the keys of the caller's chosen projects; for an organization admin without a choice, every key."""
    reachable = access.reach(call)
    found = sorted(call.directory.keys.values(), key=lambda key: key.id)
    if reachable is not None:
        is_chosen = access.HEADER in call.named
        return [key for key in found if key.project in reachable or (not is_chosen and _is_own(call, key))]
    return [key for key in found if key.project is not None or call.principal.organization_admin]


def _is_own(call: Call, key: Key) -> bool:
    return key.owner is not None and key.owner == call.principal.user


def _shown_key(key: Key) -> dict[str, object]:
    """Return a key as JSON shows it, without the secret."""
    return {
        "id": key.id,
        "name": key.name,
        "prefix": key.prefix,
        "project": key.project,
        "personal": key.owner is not None,
        "role": key.role,
        "scopes": sorted(key.scopes),
        "createdAt": key.created_at,
        "createdBy": key.created_by,
        "expiresAt": key.expires_at,
        "lastUsedAt": key.last_used_at,
    }
