"""`reconciler user`, `whoami` and `auth explain`."""

import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import click

from reconciler.auth import changes, claims
from reconciler.auth.claims import ClaimNames, GrantedRoles, UnreadableClaims
from reconciler.cli import exits, output, tables
from reconciler.cli import session as cli_session
from reconciler.cli.client import Client
from reconciler.cli.options import OrderedGroup, form_option
from reconciler.cli.session import Session, connected
from reconciler.cli.tables import answer_at, answer_objects, answer_strings, answer_text
from reconciler.model import clock
from reconciler.model import names as naming
from reconciler.model.clock import rfc3339
from reconciler.model.errors import Refused
from reconciler.model.positions import MEBIBYTE, TextLimits
from reconciler.model.text import visible
from reconciler.model.values import Value

# `reconciler user password`, and where new passwords come from: a file, standard input or a terminal, no argument.

NOBODY = "nobody is here to be asked for the new password; name a file that holds it with --password-file, or -"
ANONYMOUS = (
    "sign in as yourself with --user or SERVICE_USER to change your password; `reconciler user password NAME` sets "
    "that of somebody else"
)

file_option = click.option(
    "--password-file",
    type=output.file_type,
    metavar="FILE",
    help="The file that holds the new password, - for standard input. Asked for on a terminal when left out.",
)


@click.command()
@click.argument("name", required=False)
@file_option
@connected
def password(session: Session, *, name: str | None, password_file: Path | None) -> None:
    """Change your own password, or, as an organization admin, that of the person NAME.

    One end of line at the end of FILE is not part of the password.
    """
    if name is None:
        name = _change_own(session, password_file)
    else:
        with cli_session.everywhere(session) as client:
            client.ask("PATCH", ("users", name), body={"password": new(name, password_file)})
    output.line(f"{name}: the password is changed")


def new(name: str, file: Path | None) -> str:
    """A new password for somebody. Raises Refused, OSError, click.Abort."""
    if file is None:
        found = output.ask_hidden_text(f"New password of {name}", otherwise=NOBODY, twice=True)
    else:
        found = output.read_hidden(file, output.PASSWORD)
    changes.check_password(found)
    return found


def _change_own(session: Session, file: Path | None) -> str:
    """The password that somebody signs in with is the one that the service wants to see once more."""
    if session.user is None:
        raise Refused(ANONYMOUS)
    target = cli_session.make_target(replace(session, project=None))
    body = {"password": target.password, "newPassword": new(session.user, file)}
    with Client(target) as client:
        client.ask("PUT", ("me", "password"), body=dict(body))
    return session.user


# `reconciler user`: the people of the organization.

HEADER = ("NAME", "DISPLAY NAME", "ORGANIZATION ADMIN", "PASSWORD", "CREATED", "PROJECTS")
KEYS_HEADER = ("ID", "NAME", "PROJECT", "ROLE")
DISPLAY_NAME = "What people call them, one line."


@click.group(cls=OrderedGroup)
def user() -> None:
    """Manage people, for organization admins, and your own password."""


@user.command("list")
@form_option
@connected
def list_all(session: Session, *, form: str) -> None:
    """Show everybody, with their roles."""
    with cli_session.everywhere(session) as client:
        found = answer_objects(client.get("users").get("users"))
    rows = [_row(one) for one in found]
    output.write(tables.listed("users", found, form=form, header=HEADER, rows=rows, colour=session.coloured))
    if not found:
        output.note("there are no users")


@user.command()
@click.argument("name")
@form_option
@connected
def show(session: Session, *, name: str, form: str) -> None:
    """Show the person NAME."""
    with cli_session.everywhere(session) as client:
        found = client.get("users", name).get("user")
    if form == "json":
        output.write(output.as_json(found))
    elif form == "yaml":
        output.write(output.as_yaml([found]))
    else:
        output.write(tables.render_table(HEADER, [_row(found)], colour=session.coloured))


@user.command()
@click.argument("name")
@click.option("--display-name", help=DISPLAY_NAME)
@click.option("--organization-admin", is_flag=True, help="They may do everything, in every project.")
@file_option
@connected
def create(
    session: Session, *, name: str, display_name: str | None, organization_admin: bool, password_file: Path | None
) -> None:
    """Create the person NAME, who signs in with a password. They have no role until `member set` gives them one."""
    body: dict[str, Value] = {"name": name}
    if display_name is not None:
        body["displayName"] = display_name
    if organization_admin:
        body["organizationAdmin"] = True
    with cli_session.everywhere(session) as client:
        body["password"] = new(name, password_file)
        client.post("users", body=body)
    output.line(f"{name}: created")


@user.command()
@click.argument("name")
@click.option("--display-name", help=DISPLAY_NAME)
@click.option(
    "--organization-admin/--no-organization-admin", default=None, help="Whether they may do everything, everywhere."
)
@connected
def change(session: Session, *, name: str, display_name: str | None, organization_admin: bool | None) -> None:
    """Change what the options name of the person NAME."""
    given: dict[str, Value] = {"displayName": display_name, "organizationAdmin": organization_admin}
    body: dict[str, Value] = {key: value for key, value in given.items() if value is not None}
    if not body:
        raise click.UsageError("give --display-name, --organization-admin or --no-organization-admin")
    with cli_session.everywhere(session) as client:
        client.ask("PATCH", ("users", name), body=body)
    output.line(f"{name}: changed")


@user.command()
@click.argument("name")
@connected
def delete(session: Session, *, name: str) -> None:
    """Remove the person NAME, with their roles, their own keys and the invitations that they made.

    Keys that they made for projects stay. They are listed: revoke those that should not stay.
    """
    with cli_session.everywhere(session) as client:
        client.ask("DELETE", ("users", name))
        output.line(f"{name}: deleted")
        found = answer_objects(client.get("api-keys").get("apiKeys"))
    rows = [_key_row(one) for one in found if _was_made_by(name, one, now=rfc3339(clock.now()))]
    if rows:
        output.note(f"{name} made these keys and may know them; `reconciler key revoke ID` ends one")
        output.write(tables.render_table(KEYS_HEADER, rows, colour=session.coloured))


user.add_command(password)


def _was_made_by(name: str, key: Value, *, now: str) -> bool:
    """Whether a key that is no person's own was made by somebody of this name, and has not ended."""
    ends = answer_text(key, "expiresAt")
    is_over = bool(ends) and ends <= now
    return answer_text(key, "createdBy") == f"user:{name}" and answer_at(key, "personal") is not True and not is_over


def _key_row(one: Value) -> tuple[str, ...]:
    return tuple(answer_text(one, name) for name in ("id", "name", "project", "role"))


def _row(one: Value) -> tuple[str, ...]:
    roles = [
        f"{answer_text(each, 'name')}:{answer_text(each, 'role')}"
        for each in answer_objects(answer_at(one, "projects"))
    ]
    return (
        answer_text(one, "name"),
        answer_text(one, "displayName"),
        "yes" if answer_at(one, "organizationAdmin") is True else "",
        "yes" if answer_at(one, "hasPassword") is True else "",
        output.moment_text(answer_text(one, "createdAt")),
        ", ".join(roles),
    )


# `reconciler whoami`: who the service takes you for, and what you may reach.

WHOAMI_HEADER = ("NAME", "ORGANIZATION ADMIN", "SCOPES")
PROJECTS = ("PROJECT", "ROLE")


@click.command()
@form_option
@connected
def whoami(session: Session, *, form: str) -> None:
    """Show who you are, and your role in each project."""
    with cli_session.everywhere(session) as client:
        me = client.get("me").get("me")
    if form == "json":
        output.write(output.as_json(me))
    elif form == "yaml":
        output.write(output.as_yaml([me]))
    else:
        output.write(_shown(me, colour=session.coloured))


def _shown(me: Value, *, colour: bool) -> str:
    row = (
        answer_text(me, "name"),
        "yes" if answer_at(me, "organizationAdmin") is True else "",
        ", ".join(answer_strings(answer_at(me, "scopes"))),
    )
    roles = [(answer_text(one, "name"), answer_text(one, "role")) for one in answer_objects(answer_at(me, "projects"))]
    second = "\n" + tables.render_table(PROJECTS, roles, colour=colour) if roles else ""
    return tables.render_table(WHOAMI_HEADER, [row], colour=colour) + second


# `reconciler auth explain`: what claims would grant, and by which rule, without a service and without signing in.

AUTH_HEADER = ("PROJECT", "ROLE", "BECAUSE")
LIMITS = TextLimits(bytes=MEBIBYTE)
_TOKEN = re.compile(rb"\s*\"?[\w-]+(\.[\w-]*){2,4}\"?\s*")  # compact: signed has three parts, encrypted five


@click.group(cls=OrderedGroup)
def auth() -> None:
    """Look into signing in through a provider."""


def _projects(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    for name in given:
        if (rule := naming.wrong_project(name)) is not None:
            raise click.BadParameter(f"a project's name {rule}")
    return given


@auth.command()
@click.option(
    "--claims",
    "file",
    type=output.file_type,
    required=True,
    help="A file with the claims, as JSON; - is standard input.",
)
@click.option("--config", type=click.Path(path_type=Path), help="The settings file with the names of the claims.")
@click.option(
    "--project", "projects", multiple=True, callback=_projects, help="A project there is; may be given more than once."
)
@click.option(
    "-o", "--output", "form", type=click.Choice(("text", "json")), default="text", help="How to show it (text)."
)
@click.pass_context
def explain(context: click.Context, *, file: Path, config: Path | None, projects: tuple[str, ...], form: str) -> None:
    """Show what the claims of an ID token grant, and by which rule.

    It ends with 0 when they can be read, also when they grant nothing, else with 1. Nothing is asked of a service.
    """
    given = _claims(file)
    names, decides = _settings(config)
    found = claims.granted_roles(given, names, projects=projects or None)
    output.write(
        output.as_json(_value(found, decides=decides)) if form == "json" else _shown_claims(found, decides=decides)
    )
    if not projects and isinstance(found, GrantedRoles) and found.roles:
        output.note("every project that is named is taken to exist; --project says which do")
    context.exit(exits.ERROR if isinstance(found, UnreadableClaims) else exits.OK)


def _claims(file: Path) -> dict[str, Value]:
    """The claims of a file. Raises Refused, OSError; neither repeats what is in it."""
    where = "standard input" if str(file) == "-" else str(file)
    data = _data(file)
    if len(data) > LIMITS.bytes:
        raise Refused(f"{where} holds more than the 1 MiB that claims may have")
    if _TOKEN.fullmatch(data):
        # Taking it apart here would show claims of a token that nobody has checked as if they counted.
        raise Refused(f"{where} holds a token; give its payload, the JSON object between the first dot and the second")
    from reconciler.model import documents as model_documents  # noqa: PLC0415 - PyYAML is for those who explain claims

    try:
        documents = model_documents.read(data, syntax=model_documents.Syntax.JSON, limits=LIMITS)
    except model_documents.DocumentError as problem:
        raise Refused(f"{where}:{problem.line}:{problem.column}: {problem.message}") from None
    value = documents[0].value if documents else None
    if not isinstance(value, dict):
        raise Refused(f"{where} must hold the claims as one JSON object, such as {{}}")
    return value


def _data(file: Path) -> bytes:
    if str(file) == "-":
        return sys.stdin.buffer.read(LIMITS.bytes + 1)
    with file.open("rb") as opened:
        return opened.read(LIMITS.bytes + 1)


def _settings(config: Path | None) -> tuple[ClaimNames, bool]:
    """What claims are called, and whether they decide at each sign-in. Raises SettingsError."""

    from reconciler.settings import loading  # noqa: PLC0415 - it takes long, and a wrong file of claims needs none

    # Otherwise the settings of a provider would have to be whole, with the client's secret, which none of this needs.
    loaded = loading.load(config=config, environment=os.environ, overrides={"auth.type": "local"})
    oidc = loaded.settings.auth.oidc
    return claims.claim_names(oidc.custom_claims), oidc.disable_invitations


def _shown_claims(found: GrantedRoles | UnreadableClaims, *, decides: bool) -> str:
    if isinstance(found, UnreadableClaims):
        lines = [f"The claims cannot be read, and change nothing. {found.reason}", _when_unreadable(decides=decides)]
        return _lines(lines)
    rows = [(project, role.value, found.because[project]) for project, role in found.roles.items()]
    table = tables.render_table(AUTH_HEADER, rows, colour=False) + "\n" if rows else ""
    return table + _lines([*found.notes, _when(found, decides=decides)])


def _lines(lines: list[str]) -> str:
    return "".join(visible(line) + "\n" for line in lines)


def _when_unreadable(*, decides: bool) -> str:
    known = "Who is known keeps what they have."
    return f"{known} {'Nobody new is let in.' if decides else 'Somebody new needs an invitation.'}"


def _when(found: GrantedRoles, *, decides: bool) -> str:
    """What `auth.oidc.disableInvitations` makes of it."""
    if decides:
        last = "Whoever has something loses it, and nobody is let in." if found.is_nothing else "It replaces what was."
        return f"This counts at each sign-in, since auth.oidc.disableInvitations is true. {last}"
    if found.is_nothing:
        return "Somebody new needs an invitation."
    return "This counts when somebody comes for the first time; afterwards admins and invitations decide."


def _value(found: GrantedRoles | UnreadableClaims, *, decides: bool) -> dict[str, Value]:
    if isinstance(found, UnreadableClaims):
        return {"decision": "unreadable", "reasons": [found.reason], "disableInvitations": decides}
    roles: list[Value] = [
        {"name": project, "role": role.value, "because": found.because[project]}
        for project, role in found.roles.items()
    ]
    return {
        "decision": "nothing" if found.is_nothing else "granted",
        "organizationAdmin": found.organization_admin,
        "projects": roles,
        "unknown": list[Value](found.unknown),
        "reasons": list[Value](found.notes),
        "disableInvitations": decides,
    }
