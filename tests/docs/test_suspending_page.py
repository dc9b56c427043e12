"""docs/suspending.md tells a night that goes so: its sessions are what the program says, but for time and ids."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import daemons
from tests.cli.conftest import Program
from tests.docs import pages, sessions
from tests.repositories import Repository

PAGE = pages.read(pages.ROOT / "docs/suspending.md")
SESSIONS = pages.blocks(PAGE, "console")
CHANGING = re.compile(r"\b([0-9a-f]{12}|[0-9A-Z]{26}|[0-9]{4}-[0-9-]{5}T[0-9:]{8}(\.[0-9]{3})?Z)\b")
HOST, STANDBY = "siem.example.org", "standby.example.org"


@pytest.fixture
def document() -> str:
    """The Destination of the page."""
    return pages.blocks(PAGE, "yaml")[0]


@pytest.fixture
def source(tmp_path: Path, document: str) -> Repository:
    source = Repository.init(tmp_path / "source")
    source.write("siem.yaml", document)
    source.commit()
    return source


@pytest.fixture
def program(tmp_path: Path, source: Repository, document: str) -> Iterator[Program]:
    """The program in a folder with the file of the night, and a service that follows the repository."""
    watched = [daemons.watched("telemetry", source.path)]
    with daemons.running(tmp_path / "daemon", repositories=watched) as daemon:
        daemon.run_of("telemetry", source.head())
        address = f"http://127.0.0.1:{daemon.port}"
        program = Program(tmp_path / "night", {"SERVICE_SERVER": address, "SERVICE_API_KEY": daemon.key})
        program.write("standby.yaml", document.replace(HOST, STANDBY))
        yield program


def said(program: Program, session: str) -> str:
    """Return what the commands of a session say."""
    return still(sessions.told(program, session))


def still(text: str) -> str:
    """The text with everything of the same length that another night would show."""
    return CHANGING.sub(lambda found: "#" * len(found[0]), text)


@pytest.mark.slow
def test_the_night_goes_as_it_is_told(program: Program, source: Repository, document: str) -> None:
    assert len(SESSIONS) == 5
    forbidden, suspended, seen, back, stays = map(still, SESSIONS)
    assert [said(program, session) for session in SESSIONS[:4]] == [forbidden, suspended, seen, back]
    # The other morning: the standby stays.
    assert said(program, SESSIONS[1]) == suspended
    source.write("siem.yaml", document.replace(HOST, STANDBY))
    source.commit()
    assert said(program, SESSIONS[4]) == stays


def test_the_commands_at_the_top_are_those_of_the_night() -> None:
    [top] = pages.blocks(PAGE, "sh")
    told = "".join(SESSIONS)
    assert [command for command in top.splitlines() if f"$ {command}\n" not in told] == []
