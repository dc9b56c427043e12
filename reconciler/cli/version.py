"""`reconciler version`."""

import click

from reconciler.cli import output
from reconciler.cli.sessions import Session, connected
from reconciler.version import __version__


@click.command()
@connected
def version(session: Session) -> None:
    """Print the version.

    With --server (or SERVICE_SERVER) also that of the server.
    """
    output.line(f"client {__version__}")
    if session.server is not None:
        from reconciler.cli import connecting  # noqa: PLC0415 - only for those who ask a server

        with connecting.make_client(session) as client:
            output.line(f"server {client.ask('GET', ('version',))}")
