"""`reconciler auth explain`: the roles that claims would grant, and the rule for each, without signing in."""

import re
from pathlib import Path

import click

from reconciler.auth import claims
from reconciler.auth.claims import GrantedRoles, UnreadableClaims
from reconciler.cli import exits, options, output, tables
from reconciler.cli.options import OrderedGroup
from reconciler.model.errors import Refused
from reconciler.model.positions import MEBIBYTE, TextLimits
from reconciler.model.values import Value

HEADER = ("PROJECT", "ROLE", "BECAUSE")
LIMIT = output.FileLimit(MEBIBYTE, "the 1 MiB that claims may have")
_TOKEN = re.compile(rb"\s*\"?[\w-]+(\.[\w-]*){2,4}\"?\s*")  # compact: signed has three parts, encrypted five


@click.group(cls=OrderedGroup)
def auth() -> None:
    """Look into signing in through a provider."""


@auth.command()
@click.option(
    "--claims",
    "file",
    type=output.file_type,
    required=True,
    help="A file with the claims, as JSON; - is standard input.",
)
@click.option("--config", type=click.Path(path_type=Path), help="The settings file with the names of the claims.")
@click.option("--project", "projects", multiple=True, help="A project there is; may be given more than once.")
def explain(*, file: Path, config: Path | None, projects: tuple[str, ...]) -> int:
    """Show what the claims of an ID token grant, and by which rule.

    It ends with 0 when they can be read, also when they grant nothing, else with 1. Nothing is asked of a service.
    """
    given = _read_claims(file)
    oidc = options.local_settings(config).auth.oidc
    found = claims.granted_roles(given, oidc.custom_claims, projects=projects or None)
    decides = oidc.disable_invitations
    if isinstance(found, GrantedRoles) and found.roles:
        rows = [(project, role.value, found.because[project]) for project, role in found.roles.items()]
        output.write(tables.aligned(HEADER, rows) + "\n")
    output.lines(_sentences(found, decides=decides))
    if not projects and isinstance(found, GrantedRoles) and found.roles:
        output.note("every project that is named is taken to exist; --project says which do")
    return exits.ERROR if isinstance(found, UnreadableClaims) else exits.OK


def _read_claims(file: Path) -> dict[str, Value]:
    """Return the claims of a file. Raises Refused, OSError; neither repeats the content."""
    where, data = output.shown_path(file), output.read_whole(file, LIMIT)
    if _TOKEN.fullmatch(data):
        # Taking it apart here would show claims of a token that nobody has checked as if they counted.
        raise Refused(f"{where} holds a token; give its payload, the JSON object between the first dot and the second")
    from reconciler.model import documents as model_documents  # noqa: PLC0415 - PyYAML is for this command alone

    try:
        documents = model_documents.read(data, syntax=model_documents.Syntax.JSON, limits=TextLimits(bytes=LIMIT.bytes))
    except model_documents.DocumentError as problem:
        raise Refused(f"{where}:{problem.line}:{problem.column}: {problem.message}") from None
    value = documents[0].value if documents else None
    if not isinstance(value, dict):
        raise Refused(f"{where} must hold the claims as one JSON object, such as {{}}")
    return value


def _sentences(found: GrantedRoles | UnreadableClaims, *, decides: bool) -> list[str]:
    """`decides` is the setting `auth.oidc.disableInvitations`."""
    if isinstance(found, UnreadableClaims):
        others = "Nobody new is let in." if decides else "Somebody new needs an invitation."
        told = f"The claims cannot be read, and change nothing. {found.reason}"
        return [told, f"Who is known keeps what they have. {others}"]
    if decides:
        last = "Whoever has something loses it, and nobody is let in." if found.is_nothing else "It replaces what was."
        effect = f"This counts at each sign-in, since auth.oidc.disableInvitations is true. {last}"
    elif found.is_nothing:
        effect = "Somebody new needs an invitation."
    else:
        effect = "This counts when somebody comes for the first time; afterwards admins and invitations decide."
    return [*found.notes, effect]
