"""People, the caller's own identity, and passwords."""

import json
import os
from dataclasses import replace

from starlette.responses import Response

from api import auth, errors, requests, responses
from api.calls import Call
from api.requests import Members
from api.responses import Empty, Json
from reconciler.auth import changes
from reconciler.model import ids
from reconciler.model.clock import rfc3339
from reconciler.model.directory import Amendment, Directory, User
from reconciler.model.error_codes import ErrorCode
from reconciler.model.principals import Principal

# Passwords in bodies: what a new one must be.


def chosen_password(body: Members, name: str, *, required: bool = True) -> str:
    """A new password in a body; empty when it is not given, or noted as a mistake."""
    text = body.text(name, required=required)
    if text is None:
        return ""
    try:
        changes.check_password(text)
    except changes.Invalid as problem:
        body.mistake(name, problem.message[0].lower() + problem.message[1:].rstrip("."))
    return text


# `GET /v1/me` and one's own password: who asks, as the service sees it.


class WrongPassword(errors.Forbidden):
    """The present password is not the one that was shown."""

    code = ErrorCode.WRONG_PASSWORD


async def me(call: Call) -> Response:
    """GET /v1/me"""
    shown = described_person(call.principal, call.services.accounts.directory)
    return Json(responses.json_member(b"me", json.dumps(shown).encode()))


async def change_password(call: Call) -> Response:
    """PUT /v1/me/password"""
    requests.none_known(call.query)
    body = await requests.read_object(call, known=("password", "newPassword"))
    old, new = body.text("password", required=True), chosen_password(body, "newPassword")
    body.check()
    await replace_password(call, old or "", new)
    return Empty(status=204)


async def replace_password(call: Call, old: str, new: str) -> None:
    """Change the password of whoever asks, who shows the present one; `new` is one that may be.

    Raises `WrongPassword` for another one, `Forbidden` where nobody has one, `Throttled`.
    """
    user = _person(call)
    if call.services.auth_type == "oidc":
        sentence = "Passwords open nothing here: people sign in through the provider."
        raise errors.Forbidden(sentence, code=ErrorCode.PASSWORDS_DISABLED)
    if await call.services.signing_in.principal(user.name, old, address=auth.address(call)) is None:
        raise _wrong()
    encoded = await call.services.signing_in.encode(new)
    await call.services.accounts.amend(
        lambda directory: _with_password(directory, user, encoded), actor=call.principal.name, request=call.request
    )


def described_person(principal: Principal, directory: Directory) -> dict[str, object]:
    """Describe a person, and the projects within their reach with their role in each, sorted by name."""
    roles = {name: principal.role_in(name) for name in sorted(directory.projects)}
    person = None if principal.user is None else directory.user(principal.user)
    return {
        "name": principal.name,
        "organizationAdmin": principal.organization_admin,
        "scopes": sorted(principal.scopes),
        "projects": [{"name": name, "role": role} for name, role in roles.items() if role is not None],
        **({} if person is None else shown_identity(person)),
    }


def shown_identity(person: User) -> dict[str, object]:
    """Return the identity of a person at the provider; nothing for one who signs in with a password."""
    if person.identity is None:
        return {}
    return {
        "identity": {"issuer": person.identity.issuer, "subject": person.identity.subject},
        "email": person.email,
    }


def _person(call: Call) -> User:
    for user in call.services.accounts.directory.users.values():
        if user.id == call.principal.user:
            return user
    raise errors.Forbidden("Only a person has a password; a key is made anew with POST /v1/api-keys.")


def _with_password(directory: Directory, before: User, encoded: str) -> Amendment:
    """The change, unless somebody set another password while the present one was compared: that one stays."""
    user = changes.user(directory, before.name)
    if (user.id, user.password) != (before.id, before.password):
        raise _wrong()
    return changes.change_user(directory, changes.with_password(user, encoded))


def _wrong() -> WrongPassword:
    return WrongPassword("The present password is another one.")


# People, for organization admins.

CHANGEABLE = ("displayName", "organizationAdmin", "password")
BY_PROVIDER = (
    "People sign in through the provider here, so somebody created by hand never could; invite them to a project, or "
    "give them a group or a claim at the provider."
)


async def list_all(call: Call) -> Response:
    """GET /v1/users"""
    directory = call.services.accounts.directory
    return Json(
        responses.json_array(b"users", (_encoded(user, directory) for _, user in sorted(directory.users.items())))
    )


async def create(call: Call) -> Response:
    """POST /v1/users"""
    requests.none_known(call.query)
    body = await requests.read_object(call, known=("name", *CHANGEABLE))
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
        auth.again(call)
    await call.services.accounts.amend(
        lambda directory: changes.create_user(directory, new), actor=call.principal.name, request=call.request
    )
    return _shown(call, new.name, status=201)


async def get(call: Call) -> Response:
    """GET /v1/users/{name}"""
    return _shown(call, call.parameter("name"))


async def change(call: Call) -> Response:
    """PATCH /v1/users/{name}"""
    requests.none_known(call.query)
    body = await requests.read_object(call, known=CHANGEABLE)
    name, password = call.parameter("name"), chosen_password(body, "password", required=False)
    change = _Change(body)
    body.check()
    if password:
        changes.check_has_password(changes.user(call.services.accounts.directory, name))
    encoded = await call.services.signing_in.encode(password) if password else None
    auth.again(call)
    await call.services.accounts.amend(
        lambda directory: change.of(directory, name, password=encoded),
        actor=call.principal.name,
        request=call.request,
    )
    return _shown(call, name)


async def remove(call: Call) -> Response:
    """DELETE /v1/users/{name}"""
    requests.none_known(call.query)
    name = call.parameter("name")
    await call.services.accounts.amend(
        lambda directory: changes.remove_user(directory, name), actor=call.principal.name, request=call.request
    )
    return Empty(status=204)


class _Change:
    """The members of a body that changes a person; absent ones stay."""

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
    return Json(responses.json_member(b"user", _encoded(changes.user(directory, name), directory)), status=status)


def _encoded(user: User, directory: Directory) -> bytes:
    return json.dumps(
        {
            "name": user.name,
            "displayName": user.display_name,
            "organizationAdmin": user.organization_admin,
            "createdAt": user.created_at,
            "hasPassword": user.password is not None,
            "projects": [{"name": name, "role": role} for name, role in directory.roles_of(user).items()],
            **shown_identity(user),
        }
    ).encode()
