"""`git daemon`: the git:// protocol, without sign-in and without encryption."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import needs
from tests.servers import processes
from tests.servers.processes import ADDRESS


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs; its log says what was asked."""

    folder: Path
    port: int
    log: Path

    def url(self, name: str = "telemetry.git", *, port: int | None = None) -> str:
        """The URL of a repository beneath the folder; `port` is that of a proxy before the server."""
        return f"git://{ADDRESS}:{self.port if port is None else port}/{name}"

    def requests(self) -> int:
        """How often something was asked."""
        return self.log.read_text(errors="replace").count(" Request upload-pack for ")


@contextlib.contextmanager
def serving(folder: Path, *, log: Path) -> Iterator[Server]:
    """Serve the bare repositories beneath a folder."""
    port = processes.free_port()
    place = [f"--listen={ADDRESS}", f"--port={port}", f"--base-path={folder}"]
    command = [needs.require("git"), "daemon", "--verbose", "--reuseaddr", "--export-all", *place, str(folder)]
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    with processes.listening(command, port=port, log=log, environment=environment):
        yield Server(folder, port, log)
