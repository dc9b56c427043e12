"""A cache of recently read resources and lists. It saves reads of the database, and serves the resources while the
database is gone. The lists are used only then.

A change by any replica drops its resources and the lists of their kinds from the cache. So a cached answer is never
older than the revision that this replica knows, which is at least the revision in a request.
"""

from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

from reconciler.model.names import Key
from reconciler.store.contract import Store
from reconciler.store.records import Committed

MOST_BYTES = 32 << 20
OVERHEAD_BYTES = 300  # of one entry, beside its resource
MOST_LISTS = 32
LIST_BYTES = 1 << 20  # a longer list is not kept


class ListQuery(NamedTuple):
    """A list that a caller asks for. `is_full`: the caller may see the resources in full."""

    project: str
    kind: str
    after: str
    limit: int
    selector: str
    is_full: bool


class ResourceCache:
    """Present versions by project and key. The least recently used ones are dropped first."""

    def __init__(self, store: Store, *, most_bytes: int = MOST_BYTES) -> None:
        self._store = store
        self._most_bytes = most_bytes
        self._kept: OrderedDict[tuple[str, Key], bytes] = OrderedDict()
        self._bytes = 0
        self._lists: OrderedDict[ListQuery, bytes] = OrderedDict()
        self._changes = 0  # the number of changes heard
        store.subscribe(Committed, self._changed)

    async def get(self, project: str, key: Key) -> bytes | None:
        """As `Store.get`."""
        found = self._kept.get((project, key))
        if found is not None:
            self._kept.move_to_end((project, key))
            return found
        changes = self._changes
        read = await self._store.get(project, key)
        # A change that was heard meanwhile may be newer than this version. A later one drops it.
        if read is not None and changes == self._changes:
            self._keep((project, key), read)
        return read

    def listed(self, query: ListQuery) -> bytes | None:
        """Return the cached answer to a query for a list, or None."""
        return self._lists.get(query)

    async def keeping(self, query: ListQuery, texts: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """Yield the texts of an answer. Cache it if it is short and nothing changed until its end."""
        changes, kept, left = self._changes, list[bytes](), LIST_BYTES
        async with aclosing(texts):
            async for text in texts:
                left -= len(text)
                if left >= 0:
                    kept.append(text)
                yield text
        if left >= 0 and changes == self._changes:
            self._lists.pop(query, None)
            self._lists[query] = b"".join(kept)
            while len(self._lists) > MOST_LISTS:
                self._lists.popitem(last=False)

    async def clear(self) -> None:
        """Empty the cache, because changes may have been missed."""
        self._changes += 1
        self._kept.clear()
        self._lists.clear()
        self._bytes = 0

    def _keep(self, place: tuple[str, Key], resource: bytes) -> None:
        self._drop(place)
        self._kept[place] = resource
        self._bytes += len(resource) + OVERHEAD_BYTES
        while self._bytes > self._most_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, place: tuple[str, Key]) -> None:
        found = self._kept.pop(place, None)
        if found is not None:
            self._bytes -= len(found) + OVERHEAD_BYTES

    def _changed(self, told: Committed) -> None:
        if not told.keys and not told.released:
            return  # a run that changed no resource
        self._changes += 1
        kinds = {(one.project, one.kind) for one in told.keys if not one.name}
        if told.released or kinds:
            every = [place for place in self._kept if told.released or (place[0], place[1].kind) in kinds]
            for place in every:
                self._drop(place)
        changed = {(one.project, one.kind) for one in told.keys}
        for query in [one for one in self._lists if told.released or (one.project, one.kind) in changed]:
            del self._lists[query]
        for one in told.keys:
            self._drop((one.project, Key(one.kind, one.name)))
