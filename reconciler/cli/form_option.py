"""The option `-o`: table, YAML or JSON, for the commands whose tables have one width."""

import click

form_option = click.option(
    "-o", "--output", "form", type=click.Choice(("table", "yaml", "json")), default="table", help="How to show them."
)
