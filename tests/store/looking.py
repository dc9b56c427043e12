"""The view of a store, decoded, in one call: so that a test compares the whole of it before and after."""

import json
from pathlib import Path
from typing import Any

from reconciler.model.names import Key
from reconciler.store.contract import Store
from tests.store import rows


def files(path: Path) -> dict[str, bytes]:
    """The content of a store's files by their names, the index of its log (`-shm`) left out: it holds no content.

    To read that one where the store is open would be worse: closing it drops this process's locks on it, and the next
    process that opens the store takes it for abandoned and cuts it off under those who use it.
    """
    found = sorted(path.parent.glob(f"{path.name}*"))
    return {file.name: file.read_bytes() for file in found if not file.name.endswith("-shm")}


async def listed(store: Store, *, after: str = "", limit: int = 100_000, project: str = rows.PROJECT) -> list[Any]:
    pages = store.list_pages(project, rows.KIND, after=after, limit=limit)
    return [json.loads(shown) async for page in pages for shown in page]


async def names(store: Store, *, after: str = "", limit: int = 100_000, project: str = rows.PROJECT) -> list[str]:
    found = await listed(store, after=after, limit=limit, project=project)
    return [resource["metadata"]["name"] for resource in found]


async def history(store: Store, key: Key, *, project: str = rows.PROJECT) -> list[Any]:
    return [json.loads(shown) async for page in store.history_pages(project, key) for shown in page]


async def versions(store: Store, name: str) -> list[int]:
    return [shown["metadata"]["version"] for shown in await history(store, rows.key(name))]


async def run(store: Store, identifier: str) -> list[Any]:
    """The run, then its statuses; empty when there is none."""
    return [json.loads(shown) async for page in store.run_pages(identifier) for shown in page]


async def runs(store: Store, *, repository: str | None = None, limit: int = 1_000) -> list[Any]:
    pages = store.runs_pages(repository=repository, projects=None, limit=limit)
    return [json.loads(shown) async for page in pages for shown in page]


async def everything(store: Store) -> dict[str, object]:
    """All that a reader can see of a small store."""
    found = await listed(store)
    remembered = await store.repositories()
    return {
        "revision": await store.revision(),
        "projects": sorted((await store.directory()).projects),
        "resources": found,
        "history": {one["metadata"]["name"]: await versions(store, one["metadata"]["name"]) for one in found},
        "runs": await runs(store),
        "repositories": remembered,
    }
