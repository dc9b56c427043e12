"""`reconciler history redact`: taking a secret out of the versions of one resource, and what to do besides.

The secret is read from a file or asked for. It is in no argument, where every process of the machine could read it.
"""

from pathlib import Path

import click

from reconciler.cli import connecting, hidden, output, targets, words
from reconciler.cli.answers import answer_at, answer_text
from reconciler.cli.kind_argument import kind_argument
from reconciler.cli.sessions import Session, connected
from reconciler.model.values import Value

# In bytes, the most characters that the service takes.
TEXT = hidden.HiddenLimit(65_536 * 4, "the 65,536 characters that a text may have")
NOBODY = "nobody is here to be asked for the text; name a file that holds it with --value-file, or -"
ASKED = "The text to take out (it is not shown)"
NEXT = (
    "Whoever could read it may know it: replace the secret where it is used. Git's history still holds it, and the "
    "service's mirror of that: rewrite the history, push it, and have the mirror made anew (docs/redacting.md has the "
    "steps). So do backups of the store."
)
NOT_ERASED = (
    "The store's files still hold traces, since somebody reads an older revision or the disk is full. The service goes "
    "on trying, and its log tells the end; the same command again tells it, too."
)


@click.command()
@kind_argument
@click.argument("name", required=False)
@click.option(
    "--value-file",
    type=hidden.file_type,
    metavar="FILE",
    help="The file that holds the text, - for standard input. Asked for on a terminal when left out.",
)
@click.option("--dry-run", is_flag=True, help="Only show which versions would be rewritten.")
@connected
def redact(session: Session, *, kind: str, name: str | None, value_file: Path | None, dry_run: bool) -> None:
    """Take a text out of every stored version of the resource KIND NAME, or KIND/NAME.

    For a secret that was stored where it is shown. Mend the resource first: what it holds now is not rewritten. One end
    of line at the end of FILE is not part of the text.
    """
    key = targets.target_key(kind, name)
    value = (
        hidden.ask_hidden_text(ASKED, otherwise=NOBODY) if value_file is None else hidden.read_hidden(value_file, TEXT)
    )
    which = f"{key.kind}/{key.name}"
    body: dict[str, Value] = {"value": value}
    query = {"dryRun": "true"} if dry_run else {}
    with (
        connecting.make_client(session) as client,
        connecting.explain_missing(f"{key.kind} {key.name} has no history"),
        connecting.make_options({"/value": "the text"}),
    ):
        answer = client.post(*key, "history", "redact", body=body, query=query)
    output.line(_told(which, answer, dry_run=dry_run))
    if not dry_run:
        if answer_at(answer, "erased") is not True:
            output.line(NOT_ERASED)
        output.line(NEXT)


def _told(which: str, answer: Value, *, dry_run: bool) -> str:
    found = answer_at(answer, "versions")
    versions = [str(version) for version in found] if isinstance(found, list) else []
    places = words.counted(int(answer_text(answer, "places") or 0), "place")
    would = "would be rewritten" if dry_run else "rewritten"
    if not versions:
        return f"{which}: no version shows the text; {places} elsewhere {would}"
    noun = "version" if len(versions) == 1 else "versions"
    return f"{which}: {noun} {', '.join(versions)} {would}, {places}"
