"""docs/access.md tells a first start that goes so, and the table of who may do what is the program's."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.auth import changes, rate_limits
from reconciler.auth import sign_in as auth_sign_in
from reconciler.model import directory, principals
from reconciler.model.principals import Permission, Role, Scope
from reconciler.server import sign_in
from tests import daemons
from tests.cli.conftest import Program
from tests.daemons import Daemon
from tests.docs import pages, sessions

PAGE = pages.read(pages.ROOT / "docs/access.md")
SESSIONS = pages.blocks(PAGE, "console")
CHANGING = re.compile(r"\b[0-9A-Z]{26}\b")
FILES = {"admin.txt": "canary-password-of-admin", "ana.txt": "canary-password-of-ana", "mine.txt": "canary-ana-s-own"}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with daemons.running(tmp_path / "daemon") as daemon:
        yield daemon


@pytest.fixture
def program(tmp_path: Path, daemon: Daemon) -> Program:
    """The program of the admin, who has replaced the first password, in a folder with everybody's."""
    variables = {"SERVICE_SERVER": f"http://127.0.0.1:{daemon.port}", "SERVICE_USER": sign_in.NAME}
    program = Program(tmp_path / "admin", variables)
    for name, text in FILES.items():
        program.write(name, f"{text}\n")
    first = str(daemon.state / sign_in.FILE)
    changed = program("user", "password", "--password-file", "admin.txt", SERVICE_PASSWORD_FILE=first)
    assert changed == (0, "admin: the password is changed\n", "")
    program.environment["SERVICE_PASSWORD_FILE"] = "admin.txt"
    return program


def said(program: Program, session: str) -> str:
    """Return what the commands of a session say, less what goes to files."""
    return still(sessions.told(program, session))


def still(text: str) -> str:
    """The text without what another first start would show."""
    return CHANGING.sub(lambda found: "#" * len(found[0]), text)


@pytest.mark.slow
def test_the_first_start_goes_as_it_is_told(program: Program) -> None:
    admins, anas = map(still, SESSIONS[:2])
    assert said(program, SESSIONS[0]) == admins
    # Ana changes the password that she signs in with.
    program.environment["SERVICE_PASSWORD_FILE"] = "ana.txt"
    command, rest = SESSIONS[1].split("$ reconciler whoami")
    assert said(program, command) == still(command)
    program.environment["SERVICE_PASSWORD_FILE"] = "mine.txt"
    assert said(program, f"$ reconciler whoami{rest}") == anas.removeprefix(still(command))
    assert_keys_open_what_they_are_for(program)


def assert_keys_open_what_they_are_for(program: Program) -> None:
    by_key = {name: (program.folder / f"{name}.key").read_text().strip() for name in ("pipeline", "collectors")}
    assert {directory.key_prefix(text) is not None for text in by_key.values()} == {True}
    assert program("get", "destinations", "--api-key", by_key["pipeline"]).code == 0
    outcome = program("get", "destinations", "--api-key", by_key["collectors"])
    assert (outcome.code, outcome.out) == (1, "")
    assert " may not do this" in outcome.err


def test_the_first_password_is_where_the_page_says() -> None:
    start, passwords = pages.blocks(PAGE, "sh")
    assert f"/var/lib/reconciler/{sign_in.FILE} " in start
    assert f"export SERVICE_USER={sign_in.NAME}\n" in start
    assert set(re.findall(r"> (\S+\.txt)", passwords)) == set(re.findall(r"--password-file (\S+)", "".join(SESSIONS)))


def test_the_table_of_roles_is_the_program_s() -> None:
    rows = pages.table(pages.section(PAGE, "Roles"))
    assert [row["permission"] for row in rows] == [f"`{permission}`" for permission in Permission]
    for row, permission in zip(rows, Permission, strict=True):
        roles = {role: "yes" if permission in principals.OF_ROLE[role] else "-" for role in Role}
        assert {role: row[role] for role in Role} == roles
        assert row["organization admin"] == "yes"
        scopes = [f"`{scope}`" for scope in Scope if permission in principals.OF_SCOPE[scope]]
        assert row["scope of a key"] == ", ".join(scopes)


def test_the_limits_of_guessing_are_the_program_s() -> None:
    section = pages.section(PAGE, "Guessing passwords")
    limits = [row["limit"] for row in pages.table(section)]
    assert limits == [str(rate_limits.PER_PAIR), str(rate_limits.PER_ADDRESS)]
    assert f"each {rate_limits.SECONDS:g} seconds" in section
    compared = (
        f"At most {auth_sign_in.AT_ONCE} passwords are compared at a time, and at most {auth_sign_in.WAITING} attempts"
    )
    assert compared in " ".join(section.split())


def test_the_rules_of_passwords_are_the_program_s() -> None:
    section = " ".join(pages.section(PAGE, "Passwords").split())
    assert (
        f"at least {changes.SHORTEST_PASSWORD} characters and at most {changes.LONGEST_PASSWORD:,} characters"
        in section
    )
    assert f"A name has {changes.USER_RULE.removeprefix('must be ').replace('and begin ', 'and begins ')}." in section
