"""A clean folder to follow a page in: a clone of the project, a home of its own, free ports."""

import contextlib
import os
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needs
from tests.scenarios.walks.following import Walk

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
SERVICE, RECEIVER, CLONE = "127.0.0.1:3001", "8088", "/home/ada/reconciler"  # as pages have them


def clone(folder: Path) -> None:
    """The project's files, as somebody has them who cloned it."""
    told = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        timeout=30,
        check=False,
    )
    if told.returncode != 0:
        pytest.skip("this is no git checkout")
    for name in filter(None, told.stdout.split(b"\0")):
        source, target = ROOT / os.fsdecode(name), folder / os.fsdecode(name)
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def installed(folder: Path) -> None:
    """Return what `make install` leaves there: this interpreter's environment."""
    (folder / ".venv").mkdir()
    (folder / ".venv" / "bin").symlink_to(BIN)
    (folder / ".venv" / "installed").touch()  # last, so that it is newer than what it is made of


def free_port() -> int:
    """A port that nobody has, and that nobody gets who asks for any: those begin at 32768."""
    while True:
        port = random.randrange(20_000, 32_000)  # noqa: S311 - no secret
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def environment(home: Path) -> dict[str, str]:
    """Return what a reader's shell has, and nothing of whoever runs the tests."""
    home.mkdir()
    # As on a clean machine, where git does not know whose commits it makes; some guess that from the machine's name.
    (home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        # On a terminal the log is text.
        "SERVICE_LOG_FORMAT": "text",
    }


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    """A reader in an empty folder."""
    for program in ("bash", "curl", "git", "make"):
        needs.require(program)
    port, receiver = free_port(), free_port()
    address = f"127.0.0.1:{port}"
    for name in ("folder", "transcripts"):
        (tmp_path / name).mkdir()
    walk = Walk(
        tmp_path / "folder",
        tmp_path / "transcripts",
        {
            **environment(tmp_path / "home"),
            "SERVICE_LISTEN": address,
            "SERVICE_SERVER": f"http://{address}",
        },
        {SERVICE: address, RECEIVER: str(receiver), CLONE: str(tmp_path / "folder")},
    )
    try:
        yield walk
    finally:
        walk.close()
