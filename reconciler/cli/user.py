"""`reconciler user`: the people of the organization. Passwords have a module of their own (`user_password`)."""

from pathlib import Path

import click

from reconciler.cli import connecting, output, tables, user_password, words
from reconciler.cli.answers import answer_at, answer_objects, answer_text
from reconciler.cli.form_option import form_option
from reconciler.cli.lazy import OrderedGroup
from reconciler.cli.sessions import Session, connected
from reconciler.model import clock
from reconciler.model.clock import rfc3339
from reconciler.model.values import Value

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
    with connecting.everywhere(session) as client:
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
    with connecting.everywhere(session) as client:
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
@user_password.file_option
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
    with connecting.everywhere(session) as client:
        body["password"] = user_password.new(name, password_file)
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
    with connecting.everywhere(session) as client:
        client.ask("PATCH", ("users", name), body=body)
    output.line(f"{name}: changed")


@user.command()
@click.argument("name")
@connected
def delete(session: Session, *, name: str) -> None:
    """Remove the person NAME, with their roles, their own keys and the invitations that they made.

    Keys that they made for projects stay. They are listed: revoke those that should not stay.
    """
    with connecting.everywhere(session) as client:
        client.ask("DELETE", ("users", name))
        output.line(f"{name}: deleted")
        found = answer_objects(client.get("api-keys").get("apiKeys"))
    rows = [_key_row(one) for one in found if _was_made_by(name, one, now=rfc3339(clock.now()))]
    if rows:
        output.note(f"{name} made these keys and may know them; `reconciler key revoke ID` ends one")
        output.write(tables.render_table(KEYS_HEADER, rows, colour=session.coloured))


user.add_command(user_password.password)


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
        words.moment_text(answer_text(one, "createdAt")),
        ", ".join(roles),
    )
