"""The references that are made from definitions are what the definitions say now."""

from pathlib import Path

import pytest

from reconciler.cli.main import ENTRIES
from tests.docs import catalogue, pages, references


@pytest.mark.parametrize("path", [references.SETTINGS, references.COMMANDS, catalogue.PAGE], ids=lambda path: path.name)
def test_a_reference_is_current(path: Path) -> None:
    assert pages.read(path) == references.current()[path], "scripts/references writes it anew"


def test_every_command_has_its_part() -> None:
    text = pages.read(references.COMMANDS)
    assert [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")][1:] == list(ENTRIES)
