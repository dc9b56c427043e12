"""Killed at any step, a backup, a restore and the copy before an upgrade leave nothing that is half there."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def killed(what: str, folder: Path, *, first: int, every: int) -> list[dict[str, object]]:
    command = [sys.executable, "-m", "tests.ops.killed", what, str(folder), str(first), str(every)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("what", ["backup", "restore", "upgrade"])
def test_what_is_killed_at_some_steps_leaves_nothing_half(what: str, tmp_path: Path) -> None:
    *problems, told = killed(what, tmp_path, first=3, every=7)
    assert (problems, told["wrong"]) == ([], 0)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["backup", "restore", "upgrade"])
def test_what_is_killed_at_each_step_leaves_nothing_half(what: str, tmp_path: Path) -> None:
    *problems, told = killed(what, tmp_path, first=1, every=1)
    assert (problems, told["wrong"]) == ([], 0)
    assert isinstance(told["steps"], int)
    assert told["steps"] > 10
