"""A running service is seen without taking its lock."""

import os
from pathlib import Path

from reconciler.ops import doctor
from reconciler.server import process


def test_whoever_holds_the_lock_is_found_and_nobody_else(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert doctor.directory_holder(state) is None
    with process.hold_state_directory(state):
        assert doctor.directory_holder(state) == os.getpid()
    assert (state / doctor.LOCK).read_text() == f"{os.getpid()}\n"  # a number that is left says nothing
    assert doctor.directory_holder(state) is None


def test_looking_takes_no_lock(tmp_path: Path) -> None:
    with process.hold_state_directory(tmp_path):
        doctor.directory_holder(tmp_path)
    assert doctor.directory_holder(tmp_path) is None
    with process.hold_state_directory(tmp_path):
        assert doctor.directory_holder(tmp_path) == os.getpid()


def test_a_lock_with_nonsense_in_it_is_nobodys(tmp_path: Path) -> None:
    for content in (b"", b"x", b"1" * 100, b"-1", b"0", b"\xff"):
        (tmp_path / doctor.LOCK).write_bytes(content)
        assert doctor.directory_holder(tmp_path) is None
