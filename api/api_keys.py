"""API keys: made and shown once, listed without what is secret, revoked.

A key belongs to a person, or to a project or the organization. People manage their own; admins make the others, and
see and revoke all keys of what they administer.
"""

import json
import os
from datetime import datetime

from starlette.responses import Response

from api import answers, errors, instants, judging, objects, queries
from api.answers import Empty, Json
from api.calls import Call
from api.objects import Members
from reconciler.auth import changes
from reconciler.model import directory, ids, principals
from reconciler.model.clock import rfc3339
from reconciler.model.directory import Key
from reconciler.model.principals import UNLISTED, AccessVerdict, Permission, Principal, Role, Scope

MEMBERS = ("name", "project", "role", "scopes", "expiry", "personal")
NO_KEYS_BY_KEYS = "A key makes no keys, so that whoever finds one cannot stay: a person makes them, or SERVICE_API_KEY."


async def list_keys(call: Call) -> Response:
    """GET /v1/api-keys"""
    if call.principal.user is not None:
        pass  # who may manage none has keys of their own
    elif judging.HEADER in call.headers:
        _check_may_manage(call, judging.chosen(call))
    elif not may_manage_any(call.principal):
        takes = principals.required_for(Permission.MANAGE_KEYS, call.principal.scopes)
        raise errors.Forbidden(f"{call.principal.name} may not do this; it takes {takes}.")
    return Json(answers.json_array(b"apiKeys", (json.dumps(_shown_key(one)).encode() for one in visible(call))))


async def create_key(call: Call) -> Response:
    """POST /v1/api-keys"""
    queries.none_known(call.query)
    key, text = await make_key(call, await objects.read_object(call, known=MEMBERS))
    return Json(answers.json_member(b"apiKey", json.dumps({**_shown_key(key), "key": text}).encode()), status=201)


async def revoke_key(call: Call) -> Response:
    """DELETE /v1/api-keys/{id}"""
    queries.none_known(call.query)
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
    reachable = judging.reach(call)
    if key.project is not None and not judging.is_within(reachable, key.project):
        # As where a path names another one than the header.
        raise judging.missing(call, judging.NO_PROJECT, project=key.project)
    if key.owner is None:
        _check_may_manage(call, key.project)
    elif key.project is not None and principal.role_in(key.project) is None:
        raise judging.missing(call, judging.NO_PROJECT, project=key.project)
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
    asked = instants.expiry(body, now=now, longest=changes.KEY_LASTS)
    is_organizations = "project" in body.value and body.value["project"] is None
    project = None if is_organizations else body.text("project")
    if "project" not in body.value:
        project = judging.chosen(call)
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
        expires_at=instants.instant_text(changes.key_expiry(asked, is_personal=is_personal, now=now)),
        owner=call.principal.user if is_personal else None,
    )


def may_manage_any(principal: Principal) -> bool:
    """Whether there is any project whose keys somebody may manage."""
    roles = {*principal.roles.values(), principal.everywhere}
    return any(principals.may(principal, Permission.MANAGE_KEYS, role=role) for role in roles)


def _check_may_manage(call: Call, project: str | None) -> None:
    """Raises `NotFound` for a project out of reach, `Forbidden`."""
    is_missing = project is not None and project not in call.services.accounts.directory.projects
    verdict = AccessVerdict.UNKNOWN if is_missing else _verdict(call, project)
    if verdict is AccessVerdict.UNKNOWN:
        raise judging.missing(call, judging.NO_PROJECT, project=project)
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
    reachable = judging.reach(call)
    found = sorted(call.services.accounts.directory.keys.values(), key=lambda key: key.id)
    if reachable is not None:
        is_chosen = judging.HEADER in call.headers
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
