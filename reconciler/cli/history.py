"""`reconciler history`: the versions of one resource. `reconciler history redact` has a module of its own."""

from typing import Any

import click

from reconciler.cli import connecting, output, tables, targets, words
from reconciler.cli.answers import answer_objects, answer_text
from reconciler.cli.form_option import form_option
from reconciler.cli.kind_argument import kind_argument
from reconciler.cli.resource_tables import author, commit, source
from reconciler.cli.sessions import Session, connected
from reconciler.model.errors import Refused
from reconciler.model.values import Value

HEADER = ("VERSION", "MODIFIED", "HASH", "SOURCE", "COMMIT", "BY")


class _History(click.Command):
    """What follows is a resource, or the word `redact`, which is no kind."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args[:1] != ["redact"]:
            return super().make_context(info_name, args, parent, **extra)
        from reconciler.cli.redact import redact  # noqa: PLC0415 - for those who redact

        return redact.make_context(f"{info_name} redact", args[1:], parent, **extra)


@click.command(cls=_History)
@kind_argument
@click.argument("name", required=False)
@form_option
@connected
def history(session: Session, *, kind: str, name: str | None, form: str) -> None:
    """Show every stored version of the resource KIND NAME, or KIND/NAME, the newest first.

    `reconciler history redact KIND NAME` takes a secret out of them.
    """
    key = targets.target_key(kind, name)
    with connecting.make_client(session) as client:
        versions = answer_objects(client.get(*key, "history").get("versions"))
    if not versions:
        raise Refused(f"{key.kind} {key.name} has no history")
    if form == "json":
        output.write(output.as_json({"versions": list[Value](versions)}))
    elif form == "yaml":
        output.write(output.as_yaml(versions))
    else:
        output.write(tables.render_table(HEADER, [_row(version) for version in versions], colour=session.coloured))


def _row(version: Value) -> tuple[str, ...]:
    return (
        answer_text(version, "metadata", "version"),
        words.moment_text(answer_text(version, "metadata", "dateModified")),
        answer_text(version, "metadata", "hash")[:12],
        source(version),
        commit(version),
        author(version),
    )
