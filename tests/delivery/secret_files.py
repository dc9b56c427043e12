"""The files of a project's folder of secrets, put there as docs/secrets.md says: whole, or not at all."""

from pathlib import Path

from tests.daemons import Daemon

PROJECT = "default"


def place(daemon: Daemon, name: str) -> Path:
    """Return the path of a file of this name."""
    return daemon.state / "secrets" / PROJECT / name


def put(daemon: Daemon, name: str, content: str | Path) -> None:
    """A text, or what another file holds, instead of what was there."""
    file = place(daemon, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f".{file.name}")
    fresh.write_text(content if isinstance(content, str) else content.read_text())
    fresh.rename(file)
