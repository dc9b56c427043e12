"""Reading small files that somebody else puts there."""

import os
from pathlib import Path

import pytest

from reconciler.settings import bounded_io
from reconciler.settings.bounded_io import FileTooLarge, NotAFile


@pytest.mark.parametrize("content", [b"", b"a", b"\0" * 100])
def test_gives_all_bytes_up_to_the_limit(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert bounded_io.read_file(tmp_path / "file", limit=100) == content


@pytest.mark.parametrize("size", [101, 1 << 20])
def test_reads_no_more_than_the_limit(tmp_path: Path, size: int) -> None:
    (tmp_path / "file").write_bytes(b"a" * size)
    with pytest.raises(FileTooLarge):
        bounded_io.read_file(tmp_path / "file", limit=100)


def test_waits_for_nobody_and_leaves_nothing_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a kernel folder
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(NotAFile):
            bounded_io.read_file(path, limit=100)
    with pytest.raises(FileNotFoundError):
        bounded_io.read_file(tmp_path / "none", limit=100)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_follows_links_since_secrets_are_handed_out_behind_them(tmp_path: Path) -> None:
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data/password").write_text("canary-one")
    (tmp_path / "password").symlink_to("..data/password")
    assert bounded_io.read_file(tmp_path / "password", limit=100) == b"canary-one"
    assert bounded_io.file_identity(tmp_path / "password") == bounded_io.file_identity(tmp_path / "..data/password")


def test_notices_that_a_file_was_replaced_or_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    assert bounded_io.file_identity(file) is None
    assert bounded_io.file_identity(file / "beneath") is None
    file.write_text("canary-a")
    seen = {bounded_io.file_identity(file)}
    (tmp_path / "new").write_text("canary-a")
    (tmp_path / "new").replace(file)
    seen.add(bounded_io.file_identity(file))
    file.write_text("canary-ab")
    seen.add(bounded_io.file_identity(file))
    assert len(seen) == 3
