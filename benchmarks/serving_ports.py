"""Ports of this machine for a daemon that is asked before it could tell where it listens."""

import json
import socket
from pathlib import Path


def free() -> int:
    """One that nobody has now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def of(settings: Path) -> int:
    """The one that a file of settings names."""
    return int(str(json.loads(settings.read_text())["listen"]).rpartition(":")[2])
