"""Prometheus' own tool, where it is: as `scripts/setup-promtool` unpacks it, or installed."""

import subprocess
from pathlib import Path

from tests import needs

ROOT = Path(__file__).parents[2]
UNPACKED = ROOT / ".venv/promtool/usr/bin/promtool"
SECONDS = 60.0


def checked(*arguments: str | Path, text: str = "") -> str:
    """Return what it says of something that it finds right; a failure shows its words."""
    program = str(UNPACKED) if UNPACKED.exists() else needs.require("promtool")
    done = subprocess.run(
        [program, *map(str, arguments)], input=text.encode(), capture_output=True, timeout=SECONDS, check=False
    )
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said
