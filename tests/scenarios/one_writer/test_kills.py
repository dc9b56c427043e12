"""A daemon or its worker is killed at any moment of commits, applies and first reads."""

from pathlib import Path

import pytest

from tests.scenarios.one_writer.killing import kill_again_and_again


def test_killed_at_some_moments_it_keeps_what_it_acknowledged_and_nothing_in_part(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, kills=8, files=30, text=10)


@pytest.mark.slow
def test_killed_300_times_it_keeps_what_it_acknowledged_and_nothing_in_part(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, kills=300, files=200, text=1_500)
