"""`reconciler key`: API keys of people, of projects and of the organization."""

import click

from reconciler.cli import connecting, output, tables, words
from reconciler.cli.answers import answer_at, answer_objects, answer_strings, answer_text
from reconciler.cli.form_option import form_option
from reconciler.cli.lazy import OrderedGroup
from reconciler.cli.sessions import Session, connected
from reconciler.model import directory
from reconciler.model.errors import Refused
from reconciler.model.principals import Role, Scope
from reconciler.model.values import Value

HEADER = ("ID", "NAME", "PREFIX", "PROJECT", "PERSONAL", "ROLE", "SCOPES", "EXPIRES", "LAST USED", "CREATED BY")
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
    with connecting.make_client(session) as client:
        found = answer_objects(client.get("api-keys").get("apiKeys"))
    rows = [_key_row(one) for one in found]
    output.write(tables.listed("apiKeys", found, form=form, header=HEADER, rows=rows, colour=session.coloured))
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
    with connecting.make_client(session) as client, connecting.make_options(OPTIONS):
        made = client.post("api-keys", body=body).get("apiKey")
    output.line(answer_text(made, "key"))
    output.note(_key_remark(made))


@key.command("revoke")
@click.argument("id")
@connected
def revoke_key(session: Session, *, id: str) -> None:  # noqa: A002 - the argument's name in the help
    """Revoke the key ID, as `key list` shows it: it opens nothing from the next request on."""
    if id.startswith(directory.KEY_MARK):  # a key, or its beginning: it must not be printed, nor stand in a URL
        raise Refused(NO_ID)
    unknown = f"there is no key {id} that you may manage; `reconciler key list` shows those there are"
    with connecting.everywhere(session) as client, connecting.explain_missing(unknown):
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
        words.moment_text(answer_text(one, "expiresAt")),
        words.moment_text(answer_text(one, "lastUsedAt")),
        answer_text(one, "createdBy"),
    )
