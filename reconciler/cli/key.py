"""`reconciler key`: API keys of people, of projects and of the organization."""

import click

from reconciler.cli import client, output, tables
from reconciler.cli.options import OrderedGroup, Session, connected, form_option
from reconciler.cli.tables import Column, flag, joined, moment
from reconciler.model import directory
from reconciler.model.errors import Refused
from reconciler.model.principals import Role, Scope
from reconciler.model.values import Value

COLUMNS = (
    Column("ID", "id"),
    Column("NAME", "name"),
    Column("PREFIX", "prefix"),
    Column("PROJECT", "project"),
    Column("PERSONAL", flag("personal")),
    Column("ROLE", "role"),
    Column("SCOPES", joined("scopes")),
    Column("EXPIRES", moment("expiresAt")),
    Column("LAST USED", moment("lastUsedAt")),
    Column("CREATED BY", "createdBy"),
)
NO_ID = "a key is revoked by its ID, which `reconciler key list` shows beside its prefix"
OPTIONS = {"/name": "NAME", "/role": "--role", "/scopes": "--scope", "/expiry": "--expiry"}


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
    with session.client() as service:
        found = client.objects(service.get("api-keys").get("apiKeys"))
    empty = "there are no keys that you may manage"
    tables.write_list("apiKeys", found, COLUMNS, form=form, colour=session.coloured, empty=empty)


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
    with session.client() as service:
        made = service.post("api-keys", body=body, options=OPTIONS).get("apiKey")
    project = None if client.at(made, "project") is None else f"the project {client.text(made, 'project')}"
    if client.at(made, "personal") is True:
        owner = f"your own key in {project or 'every project of yours'}"
    else:
        owner = f"a key of {project or 'the organization'}"
    output.line(client.text(made, "key"))
    output.note(f"{client.text(made, 'id')}: {owner}; it is shown this once, so keep it now")


@key.command("revoke")
@click.argument("id")
@connected
def revoke_key(session: Session, *, id: str) -> None:  # noqa: A002 - the argument's name in the help
    """Revoke the key ID, as `key list` shows it: it opens nothing from the next request on."""
    if id.startswith(directory.KEY_MARK):  # a key, or its beginning: it must not be printed, nor stand in a URL
        raise Refused(NO_ID)
    missing = f"there is no key {id} that you may manage; `reconciler key list` shows those there are"
    with session.everywhere() as service:
        service.ask("DELETE", ("api-keys", id), missing=missing)
    output.line(f"{id}: revoked")
