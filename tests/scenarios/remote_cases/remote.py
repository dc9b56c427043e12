"""A repository that a daemon follows from a URL: what is pushed there, what becomes of it, and that no secret shows.

The servers are in `tests/servers`; what is expected is in the tests.
"""

import os
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tests import canaries
from tests.daemons import Daemon, destination, until
from tests.repositories import Repository
from tests.servers import processes

NAME = "telemetry.git"
OFTEN = "1s"  # between two looks, so that nothing waits for a poll
RECOVERY_SECONDS = 30.0

T = TypeVar("T")


class Upstream:
    """A repository as somebody works on it, and the bare one that a server shows and gets what is pushed."""

    def __init__(self, folder: Path) -> None:
        """It holds one commit with the Destinations a and b."""
        self.source = Repository.init(folder / "source")
        self.served = folder / "served"
        self.source.write("a.yaml", destination("a"))
        self.source.write("b.yaml", destination("b"))
        self.source.commit()
        self.bare = self.source.bare(self.served / NAME)

    def push(self, name: str = "c", *, size: int = 0) -> str:
        """Push a commit with one Destination more, and with a file of so many bytes that nothing compresses."""
        self.source.write(f"{name}.yaml", destination(name))
        if size:
            self.source.write(f"{name}.bin", noise(size))
        commit = self.source.commit()
        self.source.push()
        return commit


class Remote:
    """One entry of a daemon's settings, alone in a project of its own, and what became of it."""

    def __init__(self, daemon: Daemon, *, name: str, url: str, **settings: object) -> None:
        self.daemon = daemon
        self.name = name
        self.settings: dict[str, object] = {"name": name, "url": url, "branch": "main"}
        self.settings |= {"project": name, "interval": OFTEN, **settings}

    def follow(self, **settings: object) -> "Remote":
        """Let the daemon follow it, with other settings where some are given; None takes one away."""
        changed = {**self.settings, **settings}
        self.settings = {key: value for key, value in changed.items() if value is not None}
        self.daemon.follow(self.settings)
        return self

    def reads(self, commit: str) -> dict[str, Any]:
        """The repository, once this commit is applied and all is well. Nobody asks for a look."""

        def applied() -> dict[str, Any] | None:
            shown = self.shown()
            return shown if (shown["state"], shown["commit"]) == ("ready", commit) else None

        shown = self._until(applied, f"{self.name} applies {commit}")
        assert shown["message"] is None
        return shown

    def fails(self, state: str, *words: str) -> str:
        """The message, once the repository is in this state and its message has these words in it."""

        def failed() -> str | None:
            shown = self.shown()
            message = str(shown["message"])
            return message if shown["state"] == state and all(word in message for word in words) else None

        message = self._until(failed, f"{self.name} is {state} and tells {words}")
        assert message.isprintable(), message
        return message

    def _until(self, look: Callable[[], T | None], what: str) -> T:
        try:
            return until(look, what, seconds=RECOVERY_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {self.shown()}") from error

    def shown(self) -> dict[str, Any]:
        """The repository as the API shows it."""
        return self.daemon.repository(self.name)

    def versions(self) -> dict[str, int]:
        """The versions of the Destinations of its project."""
        found = self.daemon.resources("Destination", project=self.name)
        return {str(one["metadata"]["name"]): int(one["metadata"]["version"]) for one in found}

    def looks(self) -> dict[str, Any]:
        """A run that somebody asks for now, once it ended."""
        return self.daemon.reconcile(self.name)


def mirrors(daemon: Daemon) -> list[Path]:
    """The mirrors that a daemon keeps."""
    return sorted((daemon.state / "mirrors").glob("[!.]*"))  # others are being removed


def noise(size: int) -> bytes:
    """Bytes that no compression makes shorter; the same ones each time."""
    return random.Random(size).randbytes(size)  # noqa: S311 - it protects nothing


def secret_file(path: Path, content: str | bytes) -> Path:
    """Write a file as a careful person does: nobody else can read it, and it appears at once."""
    new = path.with_name(f"{path.name}.new")
    new.touch(mode=0o600)
    new.write_bytes(content if isinstance(content, bytes) else content.encode())
    new.replace(path)
    return path


def secrets_shown(daemon: Daemon, names: Sequence[str], *, keys: Sequence[Path] = ()) -> list[str]:
    """Places where a secret of these tests shows, and private keys: log, answers, files, arguments, variables."""
    needles = [_body(key) for key in keys]
    return [
        place
        for place, data in _places(daemon, names).items()
        if canaries.leaks(data) or any(needle in data for needle in needles)
    ]


def _places(daemon: Daemon, names: Sequence[str]) -> Mapping[str, bytes]:
    """Everything that a daemon tells or keeps, by where it is."""
    found = {"the log": daemon.log.read_bytes()}
    paths = ["/v1/repositories", "/v1/runs?limit=100"]
    for name in names:
        paths += [f"/v1/repositories/{name}", f"/v1/runs?limit=100&repository={name}"]
        paths += [f"/v1/runs/{run['id']}" for run in daemon.runs(name)]
    found |= {path: repr(daemon.get(path).body).encode() for path in paths}
    for file in _files(daemon.state):
        if file.is_file() and not file.is_symlink():
            found[str(file)] = _content(file)
    found |= {f"arguments: {line!r}": line for line in processes.command_lines(daemon.process.pid)}
    return found | {f"variables of {one}": _content(Path(f"/proc/{one}/environ")) for one in _others(daemon)}


def _files(folder: Path) -> list[Path]:
    """Return what is below a folder, of which the daemon may remove some meanwhile."""
    return [Path(place, name) for place, _, names in os.walk(folder) for name in names]


def _others(daemon: Daemon) -> list[int]:
    """The processes that a daemon runs. One that has not yet become another program is still the daemon itself, whose
    own variables hold the key of the tests.
    """
    itself = _content(Path(f"/proc/{daemon.process.pid}/cmdline"))
    return [
        one for one in processes.descendants(daemon.process.pid) if _content(Path(f"/proc/{one}/cmdline")) != itself
    ]


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # it is gone by now
        return b""


def _body(key: Path) -> bytes:
    """A line from the middle of a private key, which no public key has in it."""
    lines = key.read_bytes().splitlines()
    return lines[len(lines) // 2]
