"""A request takes a small multiple of its bytes, whatever is in it."""

import subprocess
import sys

import pytest

from tests.delivery.otlp import peaks


@pytest.mark.parametrize("what", ["json", "bodies"])
def test_what_is_small_in_a_request_does_not_grow_large_in_memory(what: str) -> None:
    """Built all at once each would take more than twenty times its bytes."""
    command = [sys.executable, "-m", peaks.__name__, what]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert int(run.stdout) < 10 * peaks.RECORDS * (16 << 10)
