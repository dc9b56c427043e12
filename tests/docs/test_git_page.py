"""docs/git.md: its states, keys and variables are those of the program."""

import re
from pathlib import Path

from reconciler.git import refs
from reconciler.git.faults import RepositoryState
from reconciler.git.remotes.program import GitProgram
from reconciler.settings.repositories import Credentials, Repository
from reconciler.settings.scalars import topic_key
from tests.docs import pages
from tests.settings.test_loading import load

PAGE = pages.read(pages.ROOT / "docs/git.md")
FOLLOWED = {"branch", "tag", "commit", "ref"}


def code(text: str) -> list[str]:
    """Return what stands between backticks."""
    return re.findall(r"`([^`]+)`", text)


def column(heading: str, head: str) -> list[str]:
    """The code in one column of a section's first table, in its order."""
    return [one for row in pages.table(pages.section(PAGE, heading)) for one in code(row[head])]


def test_every_state_is_told_once() -> None:
    assert sorted(column("States", "state")) == sorted(RepositoryState)


def test_every_key_of_the_credentials_is_told() -> None:
    assert set(column("Credentials", "key")) == {topic_key(name) for name in Credentials.model_fields}


def test_what_may_be_followed_is_what_the_settings_have() -> None:
    keys = column("What is followed", "key")
    assert set(keys) == FOLLOWED
    assert {topic_key(name) for name in Repository.model_fields} > FOLLOWED


def test_what_may_be_proposed_is_what_the_program_allows() -> None:
    row = next(line for line in pages.section(PAGE, "Proposals").splitlines() if line.startswith("| a ref by"))
    assert [one for one in code(row) if one != "*"] == list(refs.PATTERNS)


def test_the_first_example_is_read_as_settings(tmp_path: Path) -> None:
    (repository,) = load(tmp_path, pages.blocks(PAGE, "yaml")[0]).settings.repositories
    assert repository.credentials.username == "reconciler"


def test_the_variables_are_those_of_the_program(tmp_path: Path) -> None:
    environment = GitProgram(tmp_path).environment()
    named = [one for one in column("What git is run with", "given") if one.startswith("GIT_")]
    assert named != []
    for name, _, value in (one.partition("=") for one in named):
        assert value in ("", environment[name])
