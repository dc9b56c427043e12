"""`reconciler project`, `member`, `invitation` and `key`."""

import click

from reconciler.auth import invitations
from reconciler.cli import options, output, tables
from reconciler.cli import session as cli_session
from reconciler.cli.options import OrderedGroup, form_option
from reconciler.cli.session import Session, connected
from reconciler.cli.tables import answer_at, answer_objects, answer_strings, answer_text
from reconciler.model import directory
from reconciler.model.errors import Refused
from reconciler.model.principals import Role, Scope
from reconciler.model.values import Value

# `reconciler project`: the projects, and new ones.

HEADER = ("NAME", "CREATED")


@click.group(cls=OrderedGroup)
def project() -> None:
    """List and create projects."""


@project.command("list")
@form_option
@connected
def list_all(session: Session, *, form: str) -> None:
    """Show the projects that you have a role in, or all for an organization admin."""
    with cli_session.everywhere(session) as client:
        found = answer_objects(client.get("projects").get("projects"))
    rows = [(answer_text(one, "name"), output.moment_text(answer_text(one, "createdAt"))) for one in found]
    output.write(tables.listed("projects", found, form=form, header=HEADER, rows=rows, colour=session.coloured))
    if not found:
        output.note("you have a role in no project")


@project.command()
@click.argument("name")
@connected
def create(session: Session, *, name: str) -> None:
    """Create the project NAME. For organization admins."""
    with cli_session.everywhere(session) as client:
        client.post("projects", body={"name": name})
    output.line(f"{name}: created")


# `reconciler member`: who has which role in a project, which is the session's.

MEMBER_HEADER = ("USER", "ROLE")


@click.group(cls=OrderedGroup)
def member() -> None:
    """Give people roles in a project: the one of --project. For its admins."""


@member.command("list")
@form_option
@connected
def list_members(session: Session, *, form: str) -> None:
    """Show the members and their roles. Organization admins need no membership."""
    with cli_session.everywhere(session) as client:
        project = options.chosen_project(client, session)
        with cli_session.unknown_project(project):
            found = answer_objects(client.get("projects", project, "members").get("members"))
    rows = [(answer_text(one, "user"), answer_text(one, "role")) for one in found]
    output.write(tables.listed("members", found, form=form, header=MEMBER_HEADER, rows=rows, colour=session.coloured))
    if not found:
        output.note(f"{project} has no members")


@member.command("set")
@click.argument("name", metavar="USER")
@click.option("--role", type=click.Choice([role.value for role in Role]), required=True, help="What they may do.")
@connected
def set_role(session: Session, *, name: str, role: str) -> None:
    """Give USER a role in the project, in place of the one they have."""
    with cli_session.everywhere(session) as client:
        project = options.chosen_project(client, session)
        with cli_session.unknown_project(project):
            client.ask("PUT", ("projects", project, "members", name), body={"role": role})
    output.line(f"{name}: {role} of {project}")


@member.command()
@click.argument("name", metavar="USER")
@connected
def remove(session: Session, *, name: str) -> None:
    """Take USER out of the project."""
    with cli_session.everywhere(session) as client:
        project = options.chosen_project(client, session)
        with cli_session.unknown_project(project):
            client.ask("DELETE", ("projects", project, "members", name))
    output.line(f"{name}: no member of {project} any more")


# `reconciler invitation`: roles in a project, which is the session's, that wait for people whom a provider knows.

INVITATION_HEADER = ("ID", "FOR", "ROLE", "EXPIRES", "CREATED BY")
NO_ID = "an invitation is revoked by its ID, which `reconciler invitation list` shows"
OPTIONS = {"/role": "--role", "/email": "--email", "/expiry": "--expiry"}


@click.group(cls=OrderedGroup)
def invitation() -> None:
    """Invite people to a project: the one of --project. For its admins, where people sign in through a provider."""


@invitation.command("list")
@form_option
@connected
def list_invitations(session: Session, *, form: str) -> None:
    """Show the invitations that wait, the oldest first, without their codes."""
    with cli_session.everywhere(session) as client:
        project = options.chosen_project(client, session)
        with cli_session.unknown_project(project):
            found = answer_objects(client.get("projects", project, "invitations").get("invitations"))
    rows = [_row(one) for one in found]
    output.write(
        tables.listed("invitations", found, form=form, header=INVITATION_HEADER, rows=rows, colour=session.coloured)
    )
    if not found:
        output.note(f"nobody is invited to {project}")


@invitation.command("create")
@click.option("--role", type=click.Choice([role.value for role in Role]), required=True, help="What they may do.")
@click.option("--email", metavar="ADDRESS", help="For whoever signs in with this address, instead of a code.")
@click.option("--expiry", metavar="WHEN", help="When it ends: 72h from now, or at 2026-12-31T00:00:00Z.")
@connected
def create_invitation(session: Session, *, role: str, email: str | None, expiry: str | None) -> None:
    """Invite somebody to the project: whoever brings the code, or signs in with a verified e-mail address.

    The code alone goes to standard output. It is shown this once, and admits one person.
    """
    given: dict[str, Value] = {"role": role, "email": email, "expiry": expiry}
    body: dict[str, Value] = {name: value for name, value in given.items() if value is not None}
    with cli_session.everywhere(session) as client, cli_session.make_options(OPTIONS):
        project = options.chosen_project(client, session)
        with cli_session.unknown_project(project):
            made = client.post("projects", project, "invitations", body=body).get("invitation")
    if email is None:
        output.line(answer_text(made, "code"))
    output.note(_remark(made, by_code=email is None))


@invitation.command()
@click.argument("id")
@connected
def revoke(session: Session, *, id: str) -> None:  # noqa: A002 - the argument's name in the help
    """Revoke the invitation ID, as `invitation list` shows it: it admits nobody from now on."""
    if id.startswith(invitations.MARK):  # a code, or its beginning: it must not be printed, nor stand in a URL
        raise Refused(NO_ID)
    with cli_session.everywhere(session) as client:
        project = options.chosen_project(client, session)
        unknown = f"no invitation {id} to {project} waits; `reconciler invitation list` shows those that do"
        with cli_session.explain_missing(unknown), cli_session.unknown_project(project):
            client.ask("DELETE", ("projects", project, "invitations", id))
    output.line(f"{id}: revoked")


def _remark(made: Value, *, by_code: bool) -> str:
    what = (
        f"{answer_text(made, 'role')} of {answer_text(made, 'project')}, until "
        f"{output.moment_text(answer_text(made, 'expiresAt'))}"
    )
    if by_code:
        return f"{answer_text(made, 'id')}: whoever brings the code is {what}; it is shown this once, so keep it now"
    return f"{answer_text(made, 'id')}: whoever signs in as {answer_text(made, 'email')} is {what}"


def _row(one: Value) -> tuple[str, ...]:
    return (
        answer_text(one, "id"),
        answer_text(one, "email") or "whoever has the code",
        answer_text(one, "role"),
        output.moment_text(answer_text(one, "expiresAt")),
        answer_text(one, "createdBy"),
    )


# `reconciler key`: API keys of people, of projects and of the organization.

KEY_HEADER = ("ID", "NAME", "PREFIX", "PROJECT", "PERSONAL", "ROLE", "SCOPES", "EXPIRES", "LAST USED", "CREATED BY")
KEY_NO_ID = "a key is revoked by its ID, which `reconciler key list` shows beside its prefix"
KEY_OPTIONS = {"/name": "NAME", "/role": "--role", "/scopes": "--scope", "/expiry": "--expiry"}


@click.group(cls=OrderedGroup)
def key() -> None:
    """Make, list and revoke API keys: your own, as an admin those of your project, and those of the organization as its
    admin.
    """


@key.command("list")
@form_option
@connected
def list_keys(session: Session, *, form: str) -> None:
    """Show your own keys and those you manage, the oldest first; with --project those of that project alone."""
    with cli_session.make_client(session) as client:
        found = answer_objects(client.get("api-keys").get("apiKeys"))
    rows = [_key_row(one) for one in found]
    output.write(tables.listed("apiKeys", found, form=form, header=KEY_HEADER, rows=rows, colour=session.coloured))
    if not found:
        output.note("there are no keys that you may manage")


@key.command("create")
@click.argument("name")
@click.option("--role", type=click.Choice([role.value for role in Role]), required=True, help="What it may do.")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([scope.value for scope in Scope]),
    multiple=True,
    help="What it is for (default: resources); may be given more than once.",
)
@click.option(
    "--expiry", metavar="WHEN", help="When it ends: 720h from now, or at 2026-12-31T00:00:00Z; 400 days away at most."
)
@click.option("--organization", is_flag=True, help="A key of the organization, with its role in every project.")
@click.option(
    "--personal", is_flag=True, help="Your own key: it has at most your role and ends with you. You need not be admin."
)
@connected
def create_key(
    session: Session,
    *,
    name: str,
    role: str,
    scopes: tuple[str, ...],
    expiry: str | None,
    organization: bool,
    personal: bool,
) -> None:
    """Make a key of the project, of the organization or of your own, that people know as NAME.

    The key alone goes to standard output. It is shown this once. With --personal and --organization it is your own key
    in every project of yours.
    """
    body: dict[str, Value] = {"name": name, "role": role}
    if scopes:
        body["scopes"] = list[Value](dict.fromkeys(scopes))
    if expiry is not None:
        body["expiry"] = expiry
    if organization:
        body["project"] = None
    if personal:
        body["personal"] = True
    with cli_session.make_client(session) as client, cli_session.make_options(KEY_OPTIONS):
        made = client.post("api-keys", body=body).get("apiKey")
    output.line(answer_text(made, "key"))
    output.note(_key_remark(made))


@key.command("revoke")
@click.argument("id")
@connected
def revoke_key(session: Session, *, id: str) -> None:  # noqa: A002 - the argument's name in the help
    """Revoke the key ID, as `key list` shows it: it opens nothing from the next request on."""
    if id.startswith(directory.KEY_MARK):  # a key, or its beginning: it must not be printed, nor stand in a URL
        raise Refused(KEY_NO_ID)
    unknown = f"there is no key {id} that you may manage; `reconciler key list` shows those there are"
    with cli_session.everywhere(session) as client, cli_session.explain_missing(unknown):
        client.ask("DELETE", ("api-keys", id))
    output.line(f"{id}: revoked")


def _key_remark(made: Value) -> str:
    has_project = answer_at(made, "project") is not None
    project = f"the project {answer_text(made, 'project')}"
    if answer_at(made, "personal") is True:
        whose = f"your own key in {project if has_project else 'every project of yours'}"
    else:
        whose = f"a key of {project if has_project else 'the organization'}"
    return f"{answer_text(made, 'id')}: {whose}; it is shown this once, so keep it now"


def _key_row(one: Value) -> tuple[str, ...]:
    return (
        answer_text(one, "id"),
        answer_text(one, "name"),
        answer_text(one, "prefix"),
        answer_text(one, "project"),
        "yes" if answer_at(one, "personal") is True else "",
        answer_text(one, "role"),
        ", ".join(answer_strings(answer_at(one, "scopes"))),
        output.moment_text(answer_text(one, "expiresAt")),
        output.moment_text(answer_text(one, "lastUsedAt")),
        answer_text(one, "createdBy"),
    )
