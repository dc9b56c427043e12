"""A repository that its reader may not read."""

import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repositories import Repository

ROOT = Path(__file__).parents[3]
NOBODY = 65534  # may read nothing that is not everybody's


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may enter, which pytest's own is not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        for below in (folder, *folder.rglob("*")):  # what a test closed could not be removed
            if below.is_dir():
                below.chmod(0o755)


def looked(folder: Path, place: Path) -> str:
    """Return what an unprivileged reader learns of the repository at `place`; `FOLDER` and `USER` are placeholders."""
    reader = NOBODY if os.geteuid() == 0 else os.geteuid()
    state = folder / "state"
    state.mkdir()
    if reader == NOBODY:
        os.chown(state, NOBODY, NOBODY)
    command = [sys.executable, "-m", "tests.git.remotes.looking_process", str(state), str(place)]
    if reader == NOBODY:
        command.append(str(NOBODY))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert done.stderr == ""
    name = pwd.getpwuid(reader).pw_name
    return done.stdout.strip().replace(str(folder), "FOLDER").replace(f"user {name}", "user USER")


def closed(name: str) -> str:
    return f"unreachable: FOLDER/a/source cannot be read by this user; let the user USER read FOLDER/{name}"


@pytest.mark.parametrize(
    ("bare", "name", "told"),
    [
        (False, "a", "a/source"),
        (False, "a/source", "a/source/.git"),
        (False, "a/source/.git", "a/source/.git/commondir"),
        (False, "a/source/.git/HEAD", "a/source/.git/HEAD"),
        (False, "a/source/.git/objects", "a/source/.git/objects"),
        (False, "a/source/.git/refs", "a/source/.git/refs"),
        (True, "a/source", "a/source/.git"),
        (True, "a/source/config", "a/source/config"),
        (True, "a/source/refs", "a/source/refs"),
    ],
)
def test_is_told_from_one_that_is_none(folder: Path, bare: bool, name: str, told: str) -> None:
    (folder / "a").mkdir()
    Repository.init(folder / "a/source", bare=bare)
    (folder / name).chmod(0)
    assert looked(folder, folder / "a/source") == closed(told)


def test_that_may_be_read_is_read(folder: Path) -> None:
    source = Repository.init(folder / "source")
    source.commit()
    assert looked(folder, source.path) == "refs/heads/main"
