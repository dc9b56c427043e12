"""tests/conformance.md names tests that there are, and every test of the interface stands there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs import pages

PAGE = pages.read(pages.ROOT / "tests/conformance.md")
TESTS = pages.ROOT / "tests"
ROWS = pages.table(PAGE)


@cache
def functions_in(path: Path) -> frozenset[str]:
    """The names of the test functions in a file, in classes too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in functions if node.name.startswith("test_"))


def named(row: dict[str, str]) -> list[tuple[str, str]]:
    """The file and the name of each test of a row."""
    return re.findall(r"`([\w/]+\.py)::(\w+)`", row["test"])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["sentence"])
def test_every_test_of_a_sentence_exists(row: dict[str, str]) -> None:
    tests = named(row)
    assert row["test"] == ", ".join(f"`{file}::{name}`" for file, name in tests), "something else than tests is named"
    assert tests, "no test is named"
    assert [name for file, name in tests if name not in functions_in(TESTS / file)] == []


def test_every_sentence_stands_once_in_its_section() -> None:
    sentences = [(row["section"], row["sentence"]) for row in ROWS]
    assert len(sentences) > 100
    assert sorted(set(sentences)) == sorted(sentences)


def test_every_test_of_the_interface_stands_at_a_sentence() -> None:
    files = (TESTS / "interface").glob("test_*.py")
    there = {(f"interface/{file.name}", name) for file in files for name in functions_in(file)}
    assert there - {test for row in ROWS for test in named(row)} == set()
