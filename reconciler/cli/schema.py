"""`reconciler schema`: the JSON Schema of a kind, for editors and checks."""

import click

import schemas
from reconciler.cli import output
from reconciler.cli.kind_argument import kind_argument, known_kind


@click.command()
@kind_argument
def schema(*, kind: str) -> None:
    """Print the JSON Schema (2020-12) of a kind's documents."""
    output.write(output.as_json(schemas.load(schema_name(kind))))


def schema_name(kind: str) -> str:
    """The name of a kind's schema, whatever way the kind is spelled."""
    return kind if kind in schemas.names() else known_kind(kind).name
