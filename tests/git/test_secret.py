"""A secret is read from its file each time, bounded, and never waited for."""

import os
from pathlib import Path

import pytest

from reconciler.git import hooks
from reconciler.git.remotes.credentials import UnusableFile


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"canary-sixteen--", b"canary-sixteen--"),
        (b"canary-sixteen--\n", b"canary-sixteen--"),
        (b"canary-sixteen--\r\n", b"canary-sixteen--"),
        (b" canary-sixteen-- ", b" canary-sixteen-- "),
        (b"canary-\xff\x00-sixteen", b"canary-\xff\x00-sixteen"),
        (b"whsec_Y2FuYXJ5LXNpZ25pbmctdG9rZW4=\n", b"whsec_Y2FuYXJ5LXNpZ25pbmctdG9rZW4="),
        (b"x" * hooks.MOST_BYTES, b"x" * hooks.MOST_BYTES),
    ],
)
def test_a_secret_is_what_the_file_holds_without_one_line_end(tmp_path: Path, content: bytes, expected: bytes) -> None:
    path = tmp_path / "secret"
    path.write_bytes(content)
    assert hooks.read_secret(path) == expected


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "holds fewer than 16 characters"),
        (b"canary-too-shor\n", "holds fewer than 16 characters"),
        (b"whsec_canary-short", "holds fewer than 16 characters"),
        (b"canary-one-line-here\n\n", "holds more than one line"),
        (b"canary-one-line\ncanary-another\n", "holds more than one line"),
        (b"x" * (hooks.MOST_BYTES + 1), "has more than 65536 bytes"),
    ],
)
def test_what_is_no_secret_is_said_and_not_shown(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "secret"
    path.write_bytes(content)
    with pytest.raises(UnusableFile) as caught:
        hooks.read_secret(path)
    assert str(caught.value) == why


def test_what_is_no_file_makes_nobody_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    told = {}
    for path in (tmp_path / "missing", tmp_path, tmp_path / "pipe", Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(UnusableFile) as caught:
            hooks.read_secret(path)
        told[path.name] = str(caught.value)
    missing = told.pop("missing")
    assert missing == "does not exist"
    assert set(told.values()) == {"is not a regular file"}


def test_a_link_is_followed_and_another_file_counts_at_once(tmp_path: Path) -> None:
    (tmp_path / "first").write_bytes(b"canary-first-secret")
    (tmp_path / "second").write_bytes(b"canary-second-secret")
    (tmp_path / "secret").symlink_to("first")
    assert hooks.read_secret(tmp_path / "secret") == b"canary-first-secret"
    (tmp_path / "next").symlink_to("second")
    (tmp_path / "next").rename(tmp_path / "secret")
    assert hooks.read_secret(tmp_path / "secret") == b"canary-second-secret"
