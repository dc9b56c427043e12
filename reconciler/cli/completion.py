"""`reconciler completion`: the script that a shell loads."""

import click
from click import shell_completion

from reconciler.cli import output

VARIABLE = "_RECONCILER_COMPLETE"  # click's rule for the program's name


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(context: click.Context, *, shell: str) -> None:
    """Print a script that completes commands, options and kinds in SHELL.

    For bash: eval "$(reconciler completion bash)"
    """
    kind = shell_completion.get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell}")
    root = context.find_root()
    script = kind(root.command, {}, root.info_name or "reconciler", VARIABLE).source()
    output.write(script if script.endswith("\n") else script + "\n")
