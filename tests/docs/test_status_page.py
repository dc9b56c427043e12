"""docs/statuses.md has every status and every code, and its sessions are what the program really says."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from reconciler.model.outcomes import REFUSED, WITH_REASON, UpdateStatus
from tests import daemons
from tests.cli.conftest import Program
from tests.docs import pages
from tests.repositories import Repository

PAGE = pages.read(pages.ROOT / "docs/statuses.md")
OWNED = "apiVersion: service/v1\nkind: Fleet\nmetadata: {name: owned}\n"


def test_every_status_has_a_row_and_a_section() -> None:
    rows = pages.table(PAGE)
    expected = {f"[`{status}`](#{status})" for status in UpdateStatus}
    assert {row["status"] for row in rows} == expected
    assert len(rows) == len(expected)
    one_by_one = PAGE.partition("\n## One by one\n")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"^### (.+)$", one_by_one, re.MULTILINE)) == sorted(UpdateStatus)


def test_what_atomic_refuses_is_marked() -> None:
    marked = {row["status"]: row["`atomic` refuses"] for row in pages.table(PAGE)}
    for status in UpdateStatus:
        expected = "yes" if status in REFUSED else "through the API" if status is UpdateStatus.DEPRECATED else "no"
        assert marked[f"[`{status}`](#{status})"] == expected
    reasons = pages.section(PAGE, "Reasons").partition(" only.")[0]
    assert set(re.findall(r"`([a-z-]+)`", reasons)) - {"reason"} == WITH_REASON


def test_the_failures_of_changes_are_on_the_page_of_the_api() -> None:
    contract = yaml.safe_load((pages.ROOT / "api/openapi.yaml").read_text(encoding="utf-8"))
    paths = contract["paths"]
    operations = [
        paths["/v1/apply"]["post"],
        paths["/v1/delete"]["post"],
        paths["/v1/resources/{kind}/{name}"]["delete"],
    ]
    answered = {code for operation in operations for code in operation["responses"]} - {"default", "202", "204"}
    api = pages.read(pages.ROOT / "docs/api.md")
    told = {status for row in pages.table(pages.section(api, "Error codes")) for status in row["Status"].split(", ")}
    assert answered - told == set()


# Sessions


def commands(block: str) -> list[tuple[str, str]]:
    """(command, what it says), in order."""
    found = re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    return [(command, said) for command, said in found]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """The program in a folder with the files of the page, and a service as the page describes it."""
    folder: Path = tmp_path_factory.mktemp("page")
    for text in pages.blocks(PAGE, "yaml"):
        first = text.splitlines()[0]
        (folder / first.removeprefix("# ")).write_text(text, encoding="utf-8")
    source = Repository.init(tmp_path_factory.mktemp("source"))
    source.write("owned.yaml", OWNED)
    commit = source.commit()
    watched = [daemons.watched("telemetry", source.path)]
    with daemons.running(tmp_path_factory.mktemp("daemon"), repositories=watched) as daemon:
        daemon.run_of("telemetry", commit)
        address = f"http://127.0.0.1:{daemon.port}"
        yield Program(folder, {"SERVICE_SERVER": address, "SERVICE_API_KEY": daemon.key})


@pytest.mark.slow
def test_the_sessions_are_what_the_program_says(program: Program) -> None:
    sessions = [each for block in pages.blocks(PAGE, "console") for each in commands(block)]
    assert len(sessions) >= len(UpdateStatus)
    found = ""
    for command, _ in sessions:
        name, *arguments = shlex.split(command)
        assert name == "reconciler"
        outcome = program(*arguments)
        found += f"$ {command}\n{outcome.out}{outcome.err}"
    assert found == "".join(f"$ {command}\n{said}" for command, said in sessions)


def test_every_status_but_error_is_seen_in_a_session() -> None:
    said = "".join(said for block in pages.blocks(PAGE, "console") for _, said in commands(block))
    seen = {status for status in UpdateStatus if re.search(rf"^\S+/\S+ {status}\b", said, re.MULTILINE)}
    assert seen == set(UpdateStatus) - {UpdateStatus.ERROR}
