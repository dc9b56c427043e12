"""A process that plans while others write: `python -m tests.store.viewing_process URL LAST`.

It says `ready`, then looks until the revision is LAST, then tells how many revisions it saw and which were torn.
"""

import json
import sys

from reconciler.model.names import Key
from tests.store import engines, rows

NAMES = [f"{number:04}" for number in range(1_500)]  # more than the view asks for in one statement


def view(url: str, last: int) -> None:
    looking = engines.engine(url).view()
    keys = [Key(rows.KIND, name) for name in NAMES]
    seen: set[int] = set()
    torn: list[tuple[int, list[int], int]] = []
    print("ready", flush=True)
    while last not in seen:
        with looking.snapshot() as revision:
            stored = looking.stored(rows.PROJECT, keys)
            newest = looking.last_versions(rows.PROJECT, keys)
        versions = {one.version for one in stored.values()} | set(newest.values())
        count = len(NAMES) if revision else 0
        if versions != ({revision} if revision else set()) or (len(stored), len(newest)) != (count, count):
            torn.append((revision, sorted(versions), len(stored)))
        seen.add(revision)
    looking.close()
    print(json.dumps({"first": min(seen), "last": max(seen), "torn": torn}))


if __name__ == "__main__":
    view(sys.argv[1], int(sys.argv[2]))
