"""Invitations to a project: made, with a code that is shown once or for an e-mail address; listed; withdrawn."""

import json
import os
from datetime import datetime

from starlette.responses import Response

from api import answers, errors, instants, objects, queries
from api.answers import Empty, Json
from api.calls import Call
from api.objects import Members
from reconciler.auth import changes, invitations
from reconciler.model import ids
from reconciler.model.clock import rfc3339
from reconciler.model.directory import Invitation
from reconciler.model.principals import Role

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
    found = invitations.waiting(call.services.accounts.directory, now=now, project=call.project)
    return Json(answers.json_array(b"invitations", (json.dumps(_shown(one)).encode() for one in found)))


async def create_invitation(call: Call) -> Response:
    """POST /v1/projects/{name}/invitations"""
    queries.none_known(call.query)
    body = await objects.read_object(call, known=MEMBERS)
    now = call.services.clock()
    code = "" if "email" in body.value else invitations.make_code(os.urandom(invitations.RANDOM_BYTES))
    invitation = _read(body, code, call=call, now=now)
    _check_admits(call)
    await call.services.accounts.amend(
        lambda directory: invitations.invite(directory, invitation, now=rfc3339(now)),
        actor=call.principal.name,
        request=call.request,
    )
    shown = {**_shown(invitation), "code": code} if code else _shown(invitation)
    return Json(answers.json_member(b"invitation", json.dumps(shown).encode()), status=201)


async def withdraw_invitation(call: Call) -> Response:
    """DELETE /v1/projects/{name}/invitations/{id}"""
    queries.none_known(call.query)
    project, identifier, now = call.project, call.parameter("id"), rfc3339(call.services.clock())
    await call.services.accounts.amend(
        lambda directory: invitations.withdraw(directory, project=project, identifier=identifier, now=now),
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
        digest=invitations.code_digest(code),
        email=email,
    )


def _email(body: Members) -> str:
    """The address in a body, as it is kept; empty when it is not given, or noted as a mistake."""
    text = body.text("email")
    if text is None:
        return ""
    email = invitations.invited_address(text)
    if email is None:
        body.mistake("email", invitations.EMAIL_RULE)
    return email or ""


def _until(body: Members, *, email: str, now: datetime) -> datetime:
    """When it ends; any instant where a mistake in it was noted."""
    try:
        return invitations.invitation_expiry(instants.expiry(body, now=now), email=email, now=now)
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
