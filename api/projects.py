"""Projects, members, invitations and API keys."""

import json
import os
from collections.abc import Mapping
from datetime import datetime

from starlette.responses import Response

from api import calls, errors, requests, responses
from api.calls import Call
from api.requests import Members
from api.responses import Empty, Json
from reconciler.auth import changes
from reconciler.model import directory, ids, principals
from reconciler.model.clock import rfc3339
from reconciler.model.directory import Directory, Invitation, Key, Project
from reconciler.model.principals import UNLISTED, AccessVerdict, Permission, Principal, Role, Scope

# Projects and their members.


async def list_all(call: Call) -> Response:
    """GET /v1/projects"""
    reachable = calls.reach(call)
    directory = call.services.accounts.directory
    found = [one for name, one in sorted(directory.projects.items()) if calls.is_within(reachable, name)]
    return Json(responses.json_array(b"projects", map(_encoded, found)))


async def create(call: Call) -> Response:
    """POST /v1/projects"""
    requests.none_known(call.query)
    body = await requests.read_object(call, known=("name",))
    name = body.text("name", required=True) or ""
    body.check()
    at = rfc3339(call.services.clock())
    await call.services.accounts.amend(
        lambda directory: changes.create_project(directory, name, at=at),
        actor=call.principal.name,
        request=call.request,
    )
    return Json(responses.json_member(b"project", _encoded(Project(name, at))), status=201)


async def get(call: Call) -> Response:
    """GET /v1/projects/{name}"""
    return Json(responses.json_member(b"project", _encoded(call.services.accounts.directory.projects[call.project])))


async def list_members(call: Call) -> Response:
    """GET /v1/projects/{name}/members"""
    members = _members(call.services.accounts.directory, call.project)
    return Json(responses.json_array(b"members", (_member(name, role) for name, role in members.items())))


async def set_member(call: Call) -> Response:
    """PUT /v1/projects/{name}/members/{user}"""
    requests.none_known(call.query)
    body = await requests.read_object(call, known=("role",))
    role = Role(body.choice("role", list(Role), required=True) or Role.VIEWER)
    body.check()
    name, project = call.parameter("user"), call.project
    await call.services.accounts.amend(
        lambda directory: changes.set_member(directory, project=project, name=name, role=role),
        actor=call.principal.name,
        request=call.request,
    )
    return Json(responses.json_member(b"member", _member(name, role)))


async def remove_member(call: Call) -> Response:
    """DELETE /v1/projects/{name}/members/{user}"""
    requests.none_known(call.query)
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


# Invitations to a project: made, with a code that is shown once or for an e-mail address; listed; withdrawn.

MEMBERS = ("role", "email", "expiry")
NO_PROVIDER = (
    "Nobody comes in by an invitation here, since people sign in without a provider (`auth.type`); create a user, and "
    "give them a role in the project."
)
CLAIMS_DECIDE = (
    "Nobody comes in by an invitation here, since claims decide who does (`auth.oidc.disableInvitations`); give the "
    "person a group or a claim at the provider."
)


async def list_invitations(call: Call) -> Response:
    """GET /v1/projects/{name}/invitations"""
    now = rfc3339(call.services.clock())
    found = changes.waiting_invitations(call.services.accounts.directory, now=now, project=call.project)
    return Json(responses.json_array(b"invitations", (json.dumps(_shown(one)).encode() for one in found)))


async def create_invitation(call: Call) -> Response:
    """POST /v1/projects/{name}/invitations"""
    requests.none_known(call.query)
    body = await requests.read_object(call, known=MEMBERS)
    now = call.services.clock()
    code = "" if "email" in body.value else changes.make_code(os.urandom(changes.CODE_RANDOM_BYTES))
    invitation = _read(body, code, call=call, now=now)
    _check_admits(call)
    await call.services.accounts.amend(
        lambda directory: changes.invite(directory, invitation, now=rfc3339(now)),
        actor=call.principal.name,
        request=call.request,
    )
    shown = {**_shown(invitation), "code": code} if code else _shown(invitation)
    return Json(responses.json_member(b"invitation", json.dumps(shown).encode()), status=201)


async def withdraw_invitation(call: Call) -> Response:
    """DELETE /v1/projects/{name}/invitations/{id}"""
    requests.none_known(call.query)
    project, identifier, now = call.project, call.parameter("id"), rfc3339(call.services.clock())
    await call.services.accounts.amend(
        lambda directory: changes.withdraw_invitation(directory, project=project, identifier=identifier, now=now),
        actor=call.principal.name,
        request=call.request,
    )
    return Empty(status=204)


def _read(body: Members, code: str, *, call: Call, now: datetime) -> Invitation:
    """The invitation that a body asks for, of the project in the path. Raises `BadRequest`."""
    role = body.choice("role", list(Role), required=True)
    email = _email(body)
    until = _until(body, email=email, now=now)
    body.check()
    return Invitation(
        id=ids.ulid(milliseconds=int(now.timestamp() * 1000), randomness=os.urandom(ids.RANDOM_BYTES)),
        project=call.project,
        role=Role(role or Role.VIEWER),
        created_at=rfc3339(now),
        created_by=call.principal.name,
        expires_at=rfc3339(until),
        digest=changes.code_digest(code),
        email=email,
    )


def _email(body: Members) -> str:
    """The address in a body, as it is kept; empty when it is not given, or noted as a mistake."""
    text = body.text("email")
    if text is None:
        return ""
    email = changes.invited_address(text)
    if email is None:
        body.mistake("email", changes.EMAIL_RULE)
    return email or ""


def _until(body: Members, *, email: str, now: datetime) -> datetime:
    """When it ends; any instant where a mistake in it was noted."""
    try:
        return changes.invitation_expiry(requests.expiry(body, now=now), email=email, now=now)
    except changes.Invalid as problem:
        body.mistake("expiry", problem.message.removeprefix("The expiry ").rstrip("."))
        return now


def _check_admits(call: Call) -> None:
    """Raises `Conflict` where an invitation would never admit anybody."""
    if not call.services.takes_invitations:
        raise errors.Conflict(CLAIMS_DECIDE if call.services.auth_type == "oidc" else NO_PROVIDER)


def _shown(invitation: Invitation) -> dict[str, object]:
    """All but the code."""
    return {
        "id": invitation.id,
        "project": invitation.project,
        "role": invitation.role,
        "email": invitation.email or None,
        "createdAt": invitation.created_at,
        "createdBy": invitation.created_by,
        "expiresAt": invitation.expires_at,
    }


# API keys: made and shown once, listed without what is secret, revoked.
#
# A key belongs to a person, or to a project or the organization. People manage their own; admins make the others, and
# see and revoke all keys of what they administer.

API_KEY_MEMBERS = ("name", "project", "role", "scopes", "expiry", "personal")
NO_KEYS_BY_KEYS = "A key makes no keys, so that whoever finds one cannot stay: a person makes them, or SERVICE_API_KEY."


async def list_keys(call: Call) -> Response:
    """GET /v1/api-keys"""
    if call.principal.user is not None:
        pass  # who may manage none has keys of their own
    elif calls.HEADER in call.headers:
        _check_may_manage(call, calls.chosen(call))
    elif not may_manage_any(call.principal):
        takes = principals.required_for(Permission.MANAGE_KEYS, call.principal.scopes)
        raise errors.Forbidden(f"{call.principal.name} may not do this; it takes {takes}.")
    return Json(responses.json_array(b"apiKeys", (json.dumps(_shown_key(one)).encode() for one in visible(call))))


async def create_key(call: Call) -> Response:
    """POST /v1/api-keys"""
    requests.none_known(call.query)
    key, text = await make_key(call, await requests.read_object(call, known=API_KEY_MEMBERS))
    return Json(responses.json_member(b"apiKey", json.dumps({**_shown_key(key), "key": text}).encode()), status=201)


async def revoke_key(call: Call) -> Response:
    """DELETE /v1/api-keys/{id}"""
    requests.none_known(call.query)
    await end_key(call, call.parameter("id"))
    return Empty(status=204)


async def make_key(call: Call, body: Members) -> tuple[Key, str]:
    """Make the key that somebody asks for; with the key itself, which nobody sees again.

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
    reachable = calls.reach(call)
    if key.project is not None and not calls.is_within(reachable, key.project):
        # As where a path names another one than the header.
        raise calls.no_project(call, key.project)
    if key.owner is None:
        _check_may_manage(call, key.project)
    elif key.project is not None and principal.role_in(key.project) is None:
        raise calls.no_project(call, key.project)
    if Scope.METRICS in key.scopes and not call.principal.organization_admin:
        raise errors.Forbidden("The scope metrics reads what is the whole service's; it takes an organization admin.")
    await call.services.accounts.amend(
        lambda directory: changes.create_key(directory, key, now=rfc3339(now)),
        actor=call.principal.name,
        request=call.request,
    )
    return key, text


async def end_key(call: Call, identifier: str) -> None:
    """Revoke a key. Raises `Missing`, `NotFound`, `Forbidden`."""
    key = _within_reach(call, identifier)
    if not _is_own(call, key):
        _check_may_manage(call, key.project)
    await call.services.accounts.amend(
        lambda directory: changes.revoke_key(directory, key), actor=call.principal.name, request=call.request
    )


def _read_key(body: Members, text: str, *, call: Call, now: datetime) -> Key:
    """The key that a body asks for: of the chosen project, unless it says `"project": null`."""
    name = body.text("name", required=True)
    role = body.choice("role", list(Role), required=True)
    scopes = body.choices("scopes", list(Scope))
    is_personal = body.boolean("personal") or False
    asked = requests.expiry(body, now=now, longest=changes.KEY_LASTS)
    is_organizations = "project" in body.value and body.value["project"] is None
    project = None if is_organizations else body.text("project")
    if "project" not in body.value:
        project = calls.chosen(call)
    return Key(
        id=ids.ulid(milliseconds=int(now.timestamp() * 1000), randomness=os.urandom(ids.RANDOM_BYTES)),
        name=name or "",
        prefix=directory.key_prefix(text) or "",
        digest=directory.key_digest(text),
        project=project,
        role=Role(role or Role.VIEWER),
        scopes=frozenset(map(Scope, scopes)) if scopes is not None else frozenset({Scope.RESOURCES}),
        created_at=rfc3339(now),
        created_by=call.principal.name,
        expires_at=requests.instant_text(changes.key_expiry(asked, is_personal=is_personal, now=now)),
        owner=call.principal.user if is_personal else None,
    )


def may_manage_any(principal: Principal) -> bool:
    """Return True when the caller may manage the keys of some project."""
    roles = {*principal.roles.values(), principal.everywhere}
    return any(principals.may(principal, Permission.MANAGE_KEYS, role=role) for role in roles)


def _check_may_manage(call: Call, project: str | None) -> None:
    """Raises `NotFound` for a project out of reach, `Forbidden`."""
    is_missing = project is not None and project not in call.services.accounts.directory.projects
    verdict = AccessVerdict.UNKNOWN if is_missing else _verdict(call, project)
    if verdict is AccessVerdict.UNKNOWN:
        raise calls.no_project(call, project)
    if verdict is AccessVerdict.FORBIDDEN:
        whose = "the organization" if project is None else f"the project {project}"
        raise errors.Forbidden(f"{call.principal.name} may not manage the keys of {whose}.")


def visible(call: Call) -> list[Key]:
    """The keys that whoever asks may manage, their own among them, of the projects that they mean, by their ids: the
    oldest first.
    """
    return [
        key for key in _reachable(call) if _is_own(call, key) or _verdict(call, key.project) is AccessVerdict.ALLOWED
    ]


def _within_reach(call: Call, identifier: str) -> Key:
    """A key of a project that whoever asks may know of. Raises `Missing`."""
    for key in _reachable(call):
        if key.id == identifier:
            return key
    raise changes.Missing(changes.NO_KEY)


def _reachable(call: Call) -> list[Key]:
    """The keys of the projects that whoever asks means; an organization admin who chooses none means every key."""
    reachable = calls.reach(call)
    found = sorted(call.services.accounts.directory.keys.values(), key=lambda key: key.id)
    if reachable is not None:
        is_chosen = calls.HEADER in call.headers
        return [key for key in found if key.project in reachable or (not is_chosen and _is_own(call, key))]
    return [key for key in found if key.project is not None or call.principal.organization_admin]


def _is_own(call: Call, key: Key) -> bool:
    return key.owner is not None and key.owner == call.principal.user


def _verdict(call: Call, project: str | None) -> AccessVerdict:
    permission = Permission.MANAGE_ORGANIZATION if project is None else Permission.MANAGE_KEYS
    return principals.judge(call.principal, permission, project=project)


def _shown_key(key: Key) -> dict[str, object]:
    """All but the key itself."""
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
