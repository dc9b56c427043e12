"""The output and log of tests are searched for secrets: a test that prints one fails, and only such a test."""

import os
import subprocess
import sys
from pathlib import Path

OUTCOMES = ("PASSED", "FAILED", "ERROR")
ROOT = Path(__file__).parents[3]
TESTS = """
import logging, os, sys
import pytest

def test_says_nothing():
    print("fine")

def test_prints():
    print("password: canary" "-printed")

def test_writes_to_stderr():
    sys.stderr.write("canary" "-stderr")

def test_writes_as_a_process():
    os.system("echo canary" "-process")

def test_logs():
    logging.getLogger("x").warning("canary%s", "-log")

@pytest.fixture
def prepared():
    print("canary" "-fixture")

def test_prints_before_it_begins(prepared):
    pass
"""


def test_a_test_fails_when_it_prints_or_logs_a_secret(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    (tmp_path / "test_small.py").write_text(TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-rA",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    lines = [line.split(" - ")[0].split() for line in ran.stdout.splitlines()]
    results = [f"{line[0]} {line[1].rpartition('::')[2]}" for line in lines if line and line[0] in OUTCOMES]
    assert sorted(results) == [
        "ERROR test_prints_before_it_begins",
        "FAILED test_logs",
        "FAILED test_prints",
        "FAILED test_writes_as_a_process",
        "FAILED test_writes_to_stderr",
        "PASSED test_says_nothing",
    ]
    assert "canary-" not in ran.stdout.replace("`canary-...`", "")
