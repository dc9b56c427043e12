"""scripts/setup tells in one sentence what a machine lacks. What it does on a complete one, `make` shows every day."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[2] / "scripts" / "setup"


def interpreter(folder: Path, *, lacks: str) -> Path:
    """This interpreter, but for one thing: a program that fails when what it is asked for names that."""
    program = folder / "python-that-lacks-something"
    program.write_text(f'#!/bin/sh\ncase "$*" in *{lacks}*) exit 1;; esac\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("lacks", "sentence"),
    [
        ("version_info", "PYTHON={} is not a Python 3.11 or later."),
        (
            "ensurepip",
            "{} cannot make virtual environments: install its venv module (Debian: apt-get install python3-venv).",
        ),
    ],
)
def test_a_missing_piece_is_named_in_one_sentence(tmp_path: Path, lacks: str, sentence: str) -> None:
    (tmp_path / "scripts").mkdir()
    copy = shutil.copy(SETUP, tmp_path / "scripts" / "setup")  # it works in the folder above its own
    python = interpreter(tmp_path, lacks=lacks)
    told = subprocess.run(
        [copy],
        env={"PATH": "/usr/bin:/bin", "PYTHON": str(python)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (told.returncode, told.stdout, told.stderr) == (1, "", sentence.format(python) + "\n")
    assert not (tmp_path / ".venv").exists()
