"""docs/redacting.md: its session is what the program says, and its mirror is where the daemon keeps one."""

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from reconciler.git.remotes.credentials import ANONYMOUS
from reconciler.server import mirror_folders
from tests import daemons
from tests.cli.conftest import Program
from tests.daemons import destination
from tests.docs import pages, sessions
from tests.repositories import Repository

PAGE = pages.read(pages.ROOT / "docs/redacting.md")
TOKEN = "canary-token-of-the-siem"


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """The program beside a service that read a token in a description, and the mend of that."""
    source = Repository.init(tmp_path / "source")
    source.write("siem.yaml", destination("siem", f"token: {TOKEN}"))
    first = source.commit()
    with daemons.running(tmp_path / "daemon", repositories=[daemons.watched("telemetry", source.path)]) as daemon:
        daemon.run_of("telemetry", first)
        source.write("siem.yaml", destination("siem", "mended"))
        daemon.run_of("telemetry", source.commit())
        address = f"http://127.0.0.1:{daemon.port}"
        program = Program(tmp_path / "work", {"SERVICE_SERVER": address, "SERVICE_API_KEY": daemon.key})
        program.write("token.txt", f"{TOKEN}\n")
        yield program


@pytest.mark.slow
def test_the_session_goes_as_it_is_told(program: Program) -> None:
    (session,) = pages.blocks(PAGE, "console")
    assert sessions.told(program, session) == session


def test_the_commands_at_the_top_are_those_of_the_session() -> None:
    (top, _) = pages.blocks(PAGE, "sh")
    (session,) = pages.blocks(PAGE, "console")
    assert [command for command in top.splitlines() if f"$ {command}\n" not in session] == []


def test_the_folder_that_is_removed_is_a_mirror() -> None:
    (_, steps) = pages.blocks(PAGE, "sh")
    (pattern,) = re.findall(r"^rm -r (.+)$", steps, re.MULTILINE)
    mirror = f"{mirror_folders.MIRRORS}/{mirror_folders.remote_place('/srv/git/telemetry.git', ANONYMOUS)}.git"
    assert fnmatch(f"/var/lib/reconciler/{mirror}", pattern)
