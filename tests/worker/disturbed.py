"""A real worker, store and repository, in which something goes wrong, beside the same where nothing does."""

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from reconciler.reconcile.apply import ApplyRequest
from reconciler.store.sqlite import SqliteStore
from reconciler.worker.client import WorkerClient
from reconciler.worker.messages import ApplyOptions
from tests.api import parts
from tests.api.conftest import Follow
from tests.api.parts import Parts
from tests.daemons import destination
from tests.repositories import Repository
from tests.worker.stored import Stored, stored

LOOK_SECONDS = 0.5  # between two looks, so that what failed is tried again soon
STEP_SECONDS = 0.02
LONGEST_SECONDS = 120.0
REQUEST = "01KA4R8Q6Z0000000000000000"
MOST = 10_000  # resources and runs


@dataclass(frozen=True, slots=True)
class Expected:
    """A source of two commits, and what is stored after each when nothing goes wrong."""

    source: Repository
    first: str
    second: str
    empty: Path  # a store that holds nothing: what is copied from it has the same key
    after_first: Stored
    after_second: Stored

    def name(self, commit: str) -> None:
        """Let the branch name a commit."""
        self.source.git("update-ref", "refs/heads/main", commit)


@dataclass(frozen=True, slots=True)
class World:
    """The service that follows the source."""

    parts: Parts
    follow: Follow

    @property
    def store(self) -> SqliteStore:
        """Of everything."""
        assert isinstance(self.parts.services.store, SqliteStore)
        return self.parts.services.store

    async def follow_it(self, source: Repository) -> None:
        """Begin to."""
        self.follow.wanted["one"] = parts.watched("one", source.path, project=parts.DEFAULT, interval=LOOK_SECONDS)
        await self.parts.repositories.start(self.follow.wanted.values())

    async def applied(self, commit: str) -> Stored:
        """Return what is stored once a commit is applied and all that follows in the background is done."""

        async def is_applied() -> bool:
            row = (await self.store.remembered("one", held=0)).row
            return row is not None and row.commit == commit

        await until(is_applied)
        await until(self._is_settled)
        return await stored(self.store)

    async def _is_settled(self) -> bool:
        """Every resource from Git says which commit changed it."""
        pages = self.store.list_pages(parts.DEFAULT, "Destination", after="", limit=MOST)
        return all([b'"changedBy"' in one or b'"type":"git"' not in one async for page in pages for one in page])

    async def apply(self, name: str) -> str:
        """Return what became of a Destination that the API is given."""
        body = json.dumps({"resources": [parts.destination(name, description="from the API")]}).encode()
        request = ApplyRequest(id=REQUEST, project=parts.DEFAULT, actor=parts.SERVICE)
        answer = await self.parts.services.applier.apply(body, request=request, options=ApplyOptions())
        return str(json.loads(answer.body)["updates"][0]["status"])

    async def outcomes(self) -> list[str]:
        """Of all recorded runs, the newest first."""
        pages = self.store.runs_pages(repository="one", projects=None, limit=MOST)
        return [msgspec.json.decode(run)["outcome"] async for page in pages for run in page]


async def until(look: Callable[[], Awaitable[bool]]) -> None:
    """Look again and again."""
    async with asyncio.timeout(LONGEST_SECONDS):
        while not await look():  # noqa: ASYNC110 - another process does it, and sets no event
            await asyncio.sleep(STEP_SECONDS)


def source_of(folder: Path, files: int, text: str = "") -> tuple[Repository, str, str]:
    """Its two commits, the first of so many files with this text in each, the second of changes of every sort."""
    source = Repository.init(folder)
    for number in range(files):
        source.write(f"{number % 7}/{number:04}.yaml", destination(f"d{number:04}", text))
    first = source.commit()
    for number in range(files):
        if number % 25 == 1:
            source.remove(f"{number % 7}/{number:04}.yaml")
        elif number % 3:
            source.write(f"{number % 7}/{number:04}.yaml", destination(f"d{number:04}", f"{text} edited"))
    source.write("new.yaml", destination("new"))
    return source, first, source.commit()


@contextlib.asynccontextmanager
async def world(folder: Path, empty: Path | None, *, reader: WorkerClient | None = None) -> AsyncIterator[World]:
    """In a folder; with a copy of an empty store, or with the one that is there."""
    folder.mkdir(exist_ok=True)  # noqa: ASYNC240 - nobody else is on this loop
    if empty is not None:
        shutil.copy(empty, folder / "store.db")
    async with parts.started(folder, reader=reader) as started:
        yield World(started, Follow(started))


async def expected_of(folder: Path, files: int, text: str = "") -> Expected:
    """The source, and what is stored of it when nothing goes wrong."""
    source, first, second = source_of(folder / "source", files, text)
    await SqliteStore(folder / "empty.db").close()
    async with world(folder / "undisturbed", folder / "empty.db") as undisturbed:
        source.git("update-ref", "refs/heads/main", first)
        await undisturbed.follow_it(source)
        after_first = await undisturbed.applied(first)
        source.git("update-ref", "refs/heads/main", second)
        after_second = await undisturbed.applied(second)
    return Expected(source, first, second, folder / "empty.db", after_first, after_second)
