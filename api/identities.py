"""`GET /v1/me` and one's own password: who asks, as the service sees it."""

import json

from starlette.responses import Response

from api import answers, errors, objects, queries
from api.answers import Empty, Json
from api.calls import Call
from api.passwords import chosen_password
from reconciler.auth import changes
from reconciler.model.directory import Amendment, Directory, User
from reconciler.model.principals import Principal


class WrongPassword(errors.Forbidden):
    """The present password is not the one that was shown."""


async def me(call: Call) -> Response:
    """GET /v1/me"""
    shown = described_person(call.principal, call.services.accounts.directory)
    return Json(answers.json_member(b"me", json.dumps(shown).encode()))


async def change_password(call: Call) -> Response:
    """PUT /v1/me/password"""
    queries.none_known(call.query)
    body = await objects.read_object(call, known=("password", "newPassword"))
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
        raise errors.Forbidden("Passwords open nothing here: people sign in through the provider.")
    if await call.services.signing_in.principal(user.name, old, address=call.address) is None:
        raise _wrong()
    encoded = await call.services.signing_in.encode(new)
    await call.services.accounts.amend(
        lambda directory: _with_password(directory, user, encoded), actor=call.principal.name, request=call.request
    )


def described_person(principal: Principal, directory: Directory) -> dict[str, object]:
    """Who somebody is, and the projects within their reach with their role in each, sorted by name."""
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
    """Who a person is at the provider; nothing for one who signs in with a password."""
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
