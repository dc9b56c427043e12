"""The `reconciler` program: the table of its commands, its exit codes, and the commands `version` and `schema`.

The other commands are in modules beside this one. This module imports none of them, and no library that is slow to
import; a test measures it.
"""

import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, cast

import click

from reconciler.cli import exits, output
from reconciler.cli.client import Client
from reconciler.cli.options import OrderedGroup, connected, kind_argument, known_kind
from reconciler.cli.output import ClosedPipe
from reconciler.model.errors import ReconcilerError
from reconciler.version import __version__

PROGRAM = "reconciler"
DETAILED = "--detailed-exitcode"


class CommandEntry(NamedTuple):
    """A command: where it is defined (`module:attribute`), and its line in the list of commands."""

    target: str
    summary: str


ENTRIES = {
    "serve": CommandEntry("reconciler.cli.serve:serve", "Run the service."),
    "demo": CommandEntry("reconciler.cli.demo:demo", "Try the service with an example repository."),
    "validate": CommandEntry("reconciler.cli.validate:validate", "Check files without a server."),
    "render": CommandEntry("reconciler.cli.render:render", "Print what a Collector runs, without a server."),
    "plan": CommandEntry("reconciler.cli.plan:plan", "Show what merging a branch would do."),
    "diff": CommandEntry("reconciler.cli.diff:diff", "Show how files or a repository differ from what is stored."),
    "apply": CommandEntry("reconciler.cli.apply:apply", "Create or update resources from files."),
    "delete": CommandEntry("reconciler.cli.apply:delete", "Delete resources."),
    "get": CommandEntry("reconciler.cli.resources:get", "Show resources."),
    "history": CommandEntry("reconciler.cli.resources:history", "Show the versions of a resource."),
    "export": CommandEntry("reconciler.cli.export:export", "Write resources to files."),
    "status": CommandEntry("reconciler.cli.repositories:status", "Show repositories and their last runs."),
    "runs": CommandEntry("reconciler.cli.runs:runs", "Show what runs did, and why something is not stored."),
    "reconcile": CommandEntry("reconciler.cli.repositories:reconcile", "Poll repositories now."),
    "suspend": CommandEntry("reconciler.cli.repositories:suspend", "Stop polling a repository."),
    "resume": CommandEntry("reconciler.cli.repositories:resume", "Poll a suspended repository again."),
    "approve": CommandEntry("reconciler.cli.repositories:approve", "Approve deletions that a repository holds."),
    "queue": CommandEntry("reconciler.cli.queue:queue", "Manage the queues of webhooks."),
    "send-test": CommandEntry("reconciler.cli.queue:send_test", "Send a test record to a webhook."),
    "notification": CommandEntry("reconciler.cli.notification:notification", "Show notifications; send test alerts."),
    "whoami": CommandEntry("reconciler.cli.access:whoami", "Show who you are, and your roles."),
    "project": CommandEntry("reconciler.cli.access:project", "List and create projects."),
    "member": CommandEntry("reconciler.cli.access:member", "Give people roles in a project."),
    "invitation": CommandEntry("reconciler.cli.access:invitation", "Invite people to a project."),
    "user": CommandEntry("reconciler.cli.access:user", "Manage people, and your own password."),
    "key": CommandEntry("reconciler.cli.access:key", "Create, list and revoke API keys."),
    "audit": CommandEntry("reconciler.cli.audit:audit", "Read the audit, and verify its chain."),
    "doctor": CommandEntry("reconciler.cli.doctor:doctor", "Check the service on this machine."),
    "backup": CommandEntry("reconciler.cli.backup:backup", "Back up the store of the service on this machine."),
    "restore": CommandEntry("reconciler.cli.backup:restore", "Restore a backup on this machine."),
    "store": CommandEntry("reconciler.cli.store:store", "Move the store to another database."),
    "schema": CommandEntry("reconciler.cli.main:schema", "Print the JSON Schema of a kind."),
    "version": CommandEntry("reconciler.cli.main:version", "Print the version."),
}


def documentation(prefix: Path) -> str | None:
    """Return a sentence that says where `docs/` is installed; None in a clone."""
    folder = prefix / "share" / PROGRAM / "docs"
    return f"The documentation, docs/ in messages, is in {folder}" if folder.is_dir() else None


class Program(OrderedGroup):
    """The group of all commands. It imports a command when it is used, so that quick commands start quickly."""

    def summaries(self) -> dict[str, str]:
        """Return the sentences of the table."""
        return {name: entry.summary for name, entry in ENTRIES.items()}

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        if cmd_name not in ENTRIES:
            if ctx.resilient_parsing:
                return None
            raise click.NoSuchCommand(cmd_name, possibilities=ENTRIES, ctx=ctx)
        module, _, attribute = ENTRIES[cmd_name].target.partition(":")
        return cast("click.Command", getattr(import_module(module), attribute))


@click.group(
    cls=Program,
    name=PROGRAM,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=documentation(Path(sys.prefix)),
)
@click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s", help="Print the version.")
def program() -> None:
    """Keep telemetry configuration in sync with Git, and work with it."""


def main() -> int:
    """Run the program. Each failure is one sentence on standard error and an exit code."""
    output.prepare()
    try:
        code = program.main(prog_name=PROGRAM, standalone_mode=False)
        output.finish()
    except (ClosedPipe, BrokenPipeError):
        output.give_up()
        return exits.CLOSED_PIPE
    except Exception as problem:  # no traceback reaches the user
        return _failed(problem)
    return code if isinstance(code, int) else exits.OK


def _failed(problem: Exception) -> int:
    with suppress(ClosedPipe, BrokenPipeError):
        if isinstance(problem, click.Abort):
            return exits.INTERRUPTED
        if isinstance(problem, click.exceptions.NoArgsIsHelpError):
            output.notes(problem.format_message())
            return problem.exit_code
        if isinstance(problem, click.ClickException):
            if isinstance(problem, click.UsageError) and problem.ctx is not None:
                output.notes(f"{problem.ctx.get_usage()}\nTry '{problem.ctx.command_path} --help' for help.\n")
            output.error(problem.format_message())
            # With this option, 2 means changes.
            return exits.ERROR if DETAILED in sys.argv else problem.exit_code
        if os.environ.get("SERVICE_DEBUG") == "1":
            output.trace(problem)
        for line in _lines(problem):
            output.note(line)
    return exits.ERROR


def _lines(problem: Exception) -> list[str]:
    if isinstance(problem, ReconcilerError):
        # Lines that begin with a place get no prefix, so that editors can jump there.
        return list(getattr(problem, "lines", None) or [f"error: {output.error_sentence(problem.message)}"])
    if isinstance(problem, OSError) and problem.strerror:
        where = f"{os.fsdecode(problem.filename)}: " if isinstance(problem.filename, str | bytes) else ""
        return [f"error: {where}{problem.strerror.lower()}"]
    return [f"error: unexpected {type(problem).__name__}; set SERVICE_DEBUG=1 to see the stack trace, and report it"]


@click.command()
@connected
def version(service: Client) -> None:
    """Print the version.

    With --server (or SERVICE_SERVER) also that of the server.
    """
    output.line(f"client {__version__}")
    if service.is_named:
        output.line(f"server {service.ask('GET', ('version',))}")


@click.command()
@kind_argument
def schema(*, kind: str) -> None:
    """Print the JSON Schema (2020-12) of a kind's documents."""
    import schemas  # noqa: PLC0415 - only this command needs it

    output.write(output.as_json(schemas.load(kind if kind in schemas.names() else known_kind(kind).name)))
