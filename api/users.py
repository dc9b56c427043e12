"""People, the caller's own identity, and passwords."""

from dataclasses import replace

from starlette.responses import Response

from api import auth, errors, requests
from api.calls import Call, Subject
from api.requests import Members
from api.responses import Empty, json_answer
from api.routing import Routes
from reconciler.auth import changes
from reconciler.model.clock import rfc3339
from reconciler.model.directory import Amendment, Directory, User
from reconciler.model.error_codes import ErrorCode
from reconciler.model.principals import Permission, Principal

routes = Routes()

# Passwords in bodies: what a new one must be.


def chosen_password(body: Members, name: str, *, required: bool = True) -> str:
    """Return the new password in a body; empty if it is missing, or wrong and recorded as a mistake."""
    text = body.text(name, required=required)
    if text is None:
        return ""
    try:
        changes.check_password(text)
    except changes.Invalid as problem:
        body.mistake(name, problem.message[0].lower() + problem.message[1:].rstrip("."))
    return text


# `GET /v1/me`: the caller as the service knows them, and the caller's own password.

ANOTHER = "The present password is another one."


class WrongPassword(errors.Forbidden):
    """The given present password is wrong."""

    code = ErrorCode.WRONG_PASSWORD


@routes.add("GET /v1/me", Subject.KNOWN)
async def me(call: Call) -> Response:
    """Show the caller."""
    return json_answer({"me": described_person(call.principal, call.directory)})


@routes.add("PUT /v1/me/password", Subject.KNOWN)
async def change_password(call: Call) -> Response:
    """Change the caller's own password."""
    body = await requests.read_object(call, known=("password", "newPassword"))
    old, new = body.text("password", required=True), chosen_password(body, "newPassword")
    body.check()
    await replace_password(call, old or "", new)
    return Empty(status=204)


async def replace_password(call: Call, old: str, new: str) -> None:
    """Change the caller's password, given the present one (`old`); `new` is a valid one.

    Raises `WrongPassword`, `Forbidden` for a caller without a password, `Throttled`.
    """
    user = call.directory.user(call.principal.user or "")
    if user is None:
        raise errors.Forbidden("Only a person has a password; a key is made anew with POST /v1/api-keys.")
    before = user.id, user.password
    if call.services.auth_type == "oidc":
        sentence = "Passwords open nothing here: people sign in through the provider."
        raise errors.Forbidden(sentence, code=ErrorCode.PASSWORDS_DISABLED)
    if await call.services.signing_in.principal(user.name, old, address=auth.address(call)) is None:
        raise WrongPassword(ANOTHER)
    encoded = await call.services.signing_in.encode(new)

    def decide(directory: Directory) -> Amendment:
        now = changes.user(directory, user.name)
        if (now.id, now.password) != before:  # another request set a password meanwhile: that one stays
            raise WrongPassword(ANOTHER)
        return changes.change_user(directory, changes.with_password(now, encoded))

    await call.amend(decide)


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
    """Return the identity of a person at the provider; empty for a person with a password."""
    if person.identity is None:
        return {}
    return {
        "identity": {"issuer": person.identity.issuer, "subject": person.identity.subject},
        "email": person.email,
    }


# People, for organization admins.

CHANGEABLE = ("displayName", "organizationAdmin", "password")
BY_PROVIDER = (
    "People sign in through the provider here, so somebody created by hand never could; invite them to a project, or "
    "give them a group or a claim at the provider."
)


@routes.add("GET /v1/users", Subject.ORGANIZATION, Permission.MANAGE_ORGANIZATION)
async def list_all(call: Call) -> Response:
    """List the people by name."""
    return json_answer({"users": [_shown(user, call.directory) for _, user in sorted(call.directory.users.items())]})


@routes.add("POST /v1/users", Subject.ORGANIZATION, Permission.MANAGE_ORGANIZATION)
async def create(call: Call) -> Response:
    """Create a person who signs in with a password."""
    body = await requests.read_object(call, known=("name", *CHANGEABLE))
    name = body.text("name", required=True)
    password = chosen_password(body, "password", required=False)
    new = User(
        id=call.services.new_id(),
        name=name or "",
        created_at=rfc3339(call.services.clock()),
        display_name=body.text("displayName") or "",
        organization_admin=body.boolean("organizationAdmin") or False,
    )
    body.check()
    if call.services.auth_type == "oidc":
        raise errors.Conflict(BY_PROVIDER)
    if password:
        new = changes.with_password(new, await call.services.signing_in.encode(password))
        auth.again(call)
    await call.amend(lambda directory: changes.create_user(directory, new))
    return _answer(call, new.name, status=201)


@routes.add("GET /v1/users/{name}", Subject.ORGANIZATION, Permission.MANAGE_ORGANIZATION)
async def get(call: Call) -> Response:
    """Show one person."""
    return _answer(call, call.parameters["name"])


@routes.add("PATCH /v1/users/{name}", Subject.ORGANIZATION, Permission.MANAGE_ORGANIZATION)
async def change(call: Call) -> Response:
    """Change a person. Fields that are not in the body stay."""
    body = await requests.read_object(call, known=CHANGEABLE)
    name, password = call.parameters["name"], chosen_password(body, "password", required=False)
    display_name, is_admin = body.text("displayName"), body.boolean("organizationAdmin")
    body.check()
    encoded = None
    if password:
        changes.check_has_password(changes.user(call.directory, name))
        encoded = await call.services.signing_in.encode(password)
    auth.again(call)

    def decide(directory: Directory) -> Amendment:
        after = changes.user(directory, name)
        if display_name is not None:
            after = replace(after, display_name=display_name)
        if is_admin is not None:
            after = replace(after, organization_admin=is_admin)
        return changes.change_user(directory, changes.with_password(after, encoded) if encoded else after)

    await call.amend(decide)
    return _answer(call, name)


@routes.add("DELETE /v1/users/{name}", Subject.ORGANIZATION, Permission.MANAGE_ORGANIZATION)
async def remove(call: Call) -> Response:
    """Remove a person."""
    requests.none_known(call.query)
    name = call.parameters["name"]
    await call.amend(lambda directory: changes.remove_user(directory, name))
    return Empty(status=204)


def _answer(call: Call, name: str, *, status: int = 200) -> Response:
    return json_answer({"user": _shown(changes.user(call.directory, name), call.directory)}, status=status)


def _shown(user: User, directory: Directory) -> dict[str, object]:
    return {
        "name": user.name,
        "displayName": user.display_name,
        "organizationAdmin": user.organization_admin,
        "createdAt": user.created_at,
        "hasPassword": user.password is not None,
        "projects": [{"name": name, "role": role} for name, role in directory.roles_of(user).items()],
        **shown_identity(user),
    }
