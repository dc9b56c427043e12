"""A real disk that is full or read-only: nothing is lost, nothing is half there, and it goes on once there is room."""

import json
import subprocess
import sys
from pathlib import Path

from tests import needs

ROOT = Path(__file__).parents[2]
SCRIPT = 'mount -t tmpfs -o size=2m tmpfs "$1" && exec "$2" -m tests.store.full_disk "$1"'
AFTER = "nothing was changed: look at the disk's space and permissions."


def test_a_full_disk_and_a_read_only_one_keep_what_was_stored(tmp_path: Path) -> None:
    command = [*needs.require_mount_namespace(), "sh", "-c", SCRIPT, "sh", str(tmp_path), sys.executable]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    full, read_only = "database or disk is full", "unable to open database file"
    assert json.loads(done.stdout) == {
        "faults": [f"The store could not be written ({full}); {AFTER}"] * 3,
        "reads go on": True,
        "planned": [1, 1],
        "new store": f"The store could not be opened ({full}); {AFTER}",
        "room again": "it was written",
        "revision": 2,
        "names": ["a", "b", "c"],
        "new store with room": "it was opened",
        "read-only": f"The store could not be opened ({read_only}); {AFTER}",
        "names afterwards": ["a", "b", "c"],
    }
