"""Reading the files of credentials."""

import os
from pathlib import Path

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.remotes import credentials

SETTING = "credentials.passwordFile"


def refusal(path: Path) -> str:
    """Return the error for an unusable file, which never has any of its content."""
    with pytest.raises(GitFault) as caught:
        credentials.secret_line(path, SETTING)
    assert caught.value.state is RepositoryState.UNAUTHORIZED
    assert not caught.value.transient
    assert "canary-" not in caught.value.message
    start = f"{path}, the file of {SETTING}, "
    assert caught.value.message.startswith(start)
    return caught.value.message.removeprefix(start)


@pytest.mark.parametrize("content", [b"canary-a b\xe9", b"canary-a b\xe9\n", b"canary-a b\xe9\r\n"])
def test_takes_the_line_without_its_end(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert credentials.secret_line(tmp_path / "file", SETTING) == b"canary-a b\xe9"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty; write the secret into it"),
        (b"\n", "is empty; write the secret into it"),
        (b"canary-a\ncanary-b\n", "holds more than one line, or control characters; write the secret alone into it"),
        (b"canary-a\0", "holds more than one line, or control characters; write the secret alone into it"),
        (b"canary-" + b"a" * 65536, f"has more than 65536 bytes; mend that, or correct {SETTING}"),
    ],
)
def test_refuses_what_is_no_secret(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "file").write_bytes(content)
    assert refusal(tmp_path / "file") == said


def test_refuses_what_is_no_file_and_waits_for_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    said = f"is not a regular file; mend that, or correct {SETTING}"
    assert refusal(tmp_path / "pipe") == said
    assert refusal(tmp_path) == said
    assert refusal(Path("/dev/zero")) == said
    (tmp_path / "loop").symlink_to("loop")
    assert refusal(tmp_path / "loop").startswith("cannot be read (Too many levels of symbolic links)")


def test_says_what_is_missing(tmp_path: Path) -> None:
    said = f"does not exist; mend that, or correct {SETTING}"
    assert refusal(tmp_path / "none") == said
    (tmp_path / "file").touch()
    assert refusal(tmp_path / "file" / "beneath") == said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_says_who_has_to_be_let_in(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("canary-a")
    (tmp_path / "file").chmod(0)
    assert refusal(tmp_path / "file").startswith("cannot be read by the user ")
