"""The messages on a disk without room: `python -m tests.ops.full_disk FOLDER`, a small disk of its own."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from reconciler.model.errors import ReconcilerError
from reconciler.ops import backup, databases
from reconciler.store.files import DatabasePlaces
from tests.ops import scenes


def main(folder: Path) -> None:
    places = DatabasePlaces(folder / "store.db", folder / "ops.db")
    scenes.older(places.store, 3)
    free = databases.size_text(shutil.disk_usage(folder).free)
    refusals = [
        told(lambda: backup.back_up(places, folder / "backup", now=scenes.NOW, watch=scenes.watch())),
        told(
            lambda: backup.restore(
                backup.read_backup(places.store), places, by="machine:root", now=scenes.NOW, watch=scenes.watch()
            )
        ),
        told(lambda: databases.copy_before_upgrade(places, clock=lambda: 0.0)),
    ]
    print(json.dumps({"refusals": refusals, "free": free, "left": scenes.listing(folder)}))


def told(act: Callable[[], object]) -> str:
    try:
        act()
    except ReconcilerError as problem:
        return problem.message
    return "it was done"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
