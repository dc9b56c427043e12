"""A store on a disk that is full, then has room, then is read-only: `python -m tests.store.full_disk FOLDER`.

The folder is a small disk of this process's own mounts. What happened is told as JSON.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from reconciler.store import engines
from reconciler.store.contract import Store, StoreFault
from reconciler.store.records import Record
from reconciler.store.sqlite import SqliteStore
from tests.disks import fill
from tests.store import looking, rows

LARGE = [rows.stored("b"), rows.stored("c", padding="x" * 500_000)]


async def refused(store: Store) -> str:
    try:
        await store.commit(iter(LARGE), record=Record(run=rows.run("R2")))
    except StoreFault as fault:
        return fault.message
    return "it was written"


async def opened(path: Path) -> str:
    try:
        await SqliteStore(path).close()
    except StoreFault as fault:
        return fault.message
    return "it was opened"


async def on_a_full_disk(folder: Path) -> dict[str, object]:
    store = SqliteStore(folder / "store.db")
    await store.create_project(rows.PROJECT, at=rows.AT)
    await store.commit([rows.stored("a")], record=Record(run=rows.run("R1")))
    before = await looking.everything(store)
    ballast = fill(folder)
    told: dict[str, object] = {"faults": [await refused(store) for _ in range(3)]}
    told["reads go on"] = await looking.everything(store) == before
    view = engines.open_view(str(store.path))
    with view.snapshot() as revision:
        told["planned"] = [revision, len(view.stored(rows.PROJECT, [rows.key("a"), rows.key("b")]))]
    view.close()
    told["new store"] = await opened(folder / "new.db")
    ballast.unlink()
    told["room again"] = await refused(store)
    told["revision"], told["names"] = await store.revision(), await looking.names(store)
    told["new store with room"] = await opened(folder / "new.db")
    await store.close()
    return told


async def on_a_read_only_disk(folder: Path) -> dict[str, object]:
    remount(folder, "ro")
    refusal = await opened(folder / "store.db")
    remount(folder, "rw")
    store = SqliteStore(folder / "store.db")
    names = await looking.names(store)
    await store.close()
    return {"read-only": refusal, "names afterwards": names}


def remount(folder: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", folder], check=True, timeout=10)


async def main(folder: Path) -> None:
    print(json.dumps(await on_a_full_disk(folder) | await on_a_read_only_disk(folder)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
