"""The program that answers when git asks for a password."""

import os
import subprocess
from pathlib import Path

import pytest

from reconciler.git.remotes import credentials

QUESTION = "Password for 'https://ada@git.example': "
SECRET = "canary-  p@ss\\n $word%s 'é\" "


def answer(tmp_path: Path, question: str, secret: str = SECRET) -> tuple[int, bytes, bytes]:
    """What it says to a question, as (status, output, errors)."""
    with credentials.open_memory_file(f"{secret}\n".encode()) as descriptor:
        answer = credentials.inherited_path(descriptor)
        told = credentials.askpass_variables(QUESTION, answer, encoded="Password for 'https://%61da@git.example': ")
        done = subprocess.run(
            [credentials.install_askpass(tmp_path), question],
            env={"PATH": os.environ["PATH"], **told},
            pass_fds=[descriptor],
            capture_output=True,
            timeout=10,
            check=False,
        )
        assert SECRET not in str(told)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("question", [QUESTION, "Password for 'https://%61da@git.example': "])
def test_answers_the_question_in_either_wording(tmp_path: Path, question: str) -> None:
    assert answer(tmp_path, question) == (0, f"{SECRET}\n".encode(), b"")


@pytest.mark.parametrize(
    "question",
    [
        "Username for 'https://git.example': ",
        "Password for 'https://ada@other.example': ",
        "Password for 'https://eve@git.example': ",
        "Password for 'http://ada@git.example': ",
        "Password for 'http://ada@proxy.example:3128': ",
        "Enter passphrase for /etc/key: ",
        "Are you sure you want to continue connecting (yes/no/[fingerprint])? ",
        QUESTION + "x",
        "",
    ],
)
def test_answers_no_other_question(tmp_path: Path, question: str) -> None:
    assert answer(tmp_path, question) == (1, b"", b"")


def test_is_for_its_owner_alone_and_replaces_what_was_there(tmp_path: Path) -> None:
    (tmp_path / credentials.NAME).write_text("#!/bin/sh\necho old\n")
    assert answer(tmp_path, QUESTION)[1] == f"{SECRET}\n".encode()
    assert (tmp_path / credentials.NAME).stat().st_mode & 0o777 == 0o700
    assert [path.name for path in tmp_path.iterdir()] == [credentials.NAME]
