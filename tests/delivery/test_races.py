"""Somebody swaps and writes files while they are read: nothing from outside is ever read, and nothing half."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.delivery import secrets
from reconciler.delivery.secrets import SecretDirectory, UnusableSecretFile
from tests.delivery.folders import OUTSIDE, sources, write

ROUNDS = 3_000
SECONDS = 20.0  # until all that is expected came, on a machine that has other things to do
INSIDE = "value"

SWAP_FILES = """
import os, sys
inside, outside, spare = sys.argv[1:]
print(flush=True)
while True:
    os.symlink(outside, spare); os.rename(spare, inside)
    os.link(outside, spare); os.rename(spare, inside)
    os.mkfifo(spare); os.rename(spare, inside)
    with open(spare, "w") as file: file.write("value")
    os.rename(spare, inside)
"""
SWAP_FOLDERS = """
import os, sys
inside, outside, spare = sys.argv[1:]
print(flush=True)
while True:
    os.rename(inside, spare); os.symlink(outside, inside)
    os.unlink(inside); os.rename(spare, inside)
"""
REPLACE = """
import os, sys
inside, outside, spare = sys.argv[1:]
print(flush=True)
while True:
    for letter in "ab":
        with open(spare, "w") as file: file.write(letter * 60_000)
        os.rename(spare, inside)
"""


@contextmanager
def swapping(code: str, inside: Path, outside: Path, spare: Path) -> Iterator[None]:
    """Another process that does so in a loop."""
    command = [sys.executable, "-c", code, str(inside), str(outside), str(spare)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def seen(folder: Path, name: str, *, expected: set[str | None]) -> set[str | None]:
    """All that reading it again and again gave, None where it was refused; at least until all that is expected came."""
    found: set[str | None] = set()
    end = time.monotonic() + SECONDS
    number = 0
    while time.monotonic() < end and (number < ROUNDS or not found >= expected):
        number += 1
        try:
            found.add(secrets.read_secret_file(SecretDirectory(folder), name, project="default"))
        except UnusableSecretFile:
            found.add(None)
    return found


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    return write(tmp_path / "outside" / "token", OUTSIDE).parent


def test_a_file_that_is_swapped_for_links_and_pipes(tmp_path: Path, outside: Path) -> None:
    inside = write(tmp_path / "secrets" / "default" / "token", INSIDE)
    with swapping(SWAP_FILES, inside, outside / "token", inside.with_name("spare")):
        assert seen(tmp_path / "secrets", "token", expected={INSIDE, None}) == {INSIDE, None}


def test_a_folder_that_is_swapped_for_a_link(tmp_path: Path, outside: Path) -> None:
    inside = write(tmp_path / "secrets" / "default" / "a" / "token", INSIDE).parent
    with swapping(SWAP_FOLDERS, inside, outside, inside.with_name("spare")):
        assert seen(tmp_path / "secrets", "a/token", expected={INSIDE, None}) == {INSIDE, None}


def test_the_projects_folder_that_is_swapped_for_a_link(tmp_path: Path, outside: Path) -> None:
    inside = write(tmp_path / "secrets" / "default" / "token", INSIDE).parent
    with swapping(SWAP_FOLDERS, inside, outside, inside.with_name("spare")):
        assert seen(tmp_path / "secrets", "token", expected={INSIDE, None}) == {INSIDE, None}


def test_a_file_that_is_replaced_is_the_old_or_the_new_one(tmp_path: Path, outside: Path) -> None:
    inside = write(tmp_path / "secrets" / "default" / "token", "a" * 60_000)
    with swapping(REPLACE, inside, outside, inside.with_name("spare")):
        whole: set[str | None] = {"a" * 60_000, "b" * 60_000}
        assert seen(tmp_path / "secrets", "token", expected=whole) - {None} == whole


def test_a_list_that_is_made_meanwhile_names_nothing_from_outside(tmp_path: Path, outside: Path) -> None:
    write(outside / "stolen", OUTSIDE)
    inside = write(tmp_path / "secrets" / "default" / "a" / "token", INSIDE).parent
    with swapping(SWAP_FOLDERS, inside, outside, inside.with_name("spare")):
        lists = [secrets.available_secrets(sources(tmp_path / "secrets"), "default").files for _ in range(ROUNDS // 5)]
    assert {name for names in lists for name in names} <= {"a/token", "spare/token"}
