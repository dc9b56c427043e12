"""The second mirror of a remote: what was proposed there, and is not followed.

Belongs here: its folders, and what is thrown away when. Does not: what may be proposed (`proposable`), asking for it
(`proposing`), what a mirror is (`mirrors`).

It borrows all that the first mirror holds, so that only what is new is fetched, and lends it nothing: what strangers
proposed is never in the first. It is made anew, under another number, when it is full, is damaged, or the first one was
made anew; of the one before, whose objects somebody may still read, the files stay until the next.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import Followed, RefHead
from reconciler.remotes import retiring
from reconciler.remotes.mirrors import MANY_PACKS, OF_ONE, Mirror
from reconciler.remotes.sources import Source

MOST_HELD = 50  # proposals whose commits may be named by their ids: those that were asked for last


class SecondMirror:
    """Of one remote. One task at a time may use it; nobody else writes there."""

    def __init__(self, first: Mirror) -> None:
        self._first = first
        self._generation = 0  # of the first mirror, which this one borrows from
        self._number = 0
        self._current: Mirror | None = None
        self._before: Path | None = None
        self._heads: dict[
            str, RefHead
        ] = {}  # where our refs are, by their names; the one that was asked for last is last

    @property
    def path(self) -> Path | None:
        """The folder; None as long as nothing was fetched."""
        return None if self._current is None else self._current.path

    @property
    def folders(self) -> list[Path]:
        """All that is to be removed with the first mirror."""
        return [folder for folder in (self.path, self._before) if folder is not None]

    async def prepare(self, generation: int, *, max_bytes: int) -> None:
        """Be of use beside this generation of the first mirror, and have room for one fetch more.

        It has none when it holds more than one fetch may bring, or so many packs that they would be joined.
        """
        path = self.path
        is_of_use = generation == self._generation
        if path is not None and not (is_of_use and await asyncio.to_thread(_has_room, path, max_bytes)):
            await self.leave()
        self._generation = generation

    async def reaches(self, commit: str) -> bool:
        """Whether a ref of what was proposed leads to a commit. Raises GitFault, never that this mirror is damaged."""
        if self._current is None:
            return False
        try:
            return await self._current.reaches(commit)
        except GitFault as fault:
            if fault.state is not RepositoryState.MIRROR_CORRUPT:
                raise
        await self.leave()
        return False

    async def hold(self, source: Source, wanted: Mapping[Followed, RefHead]) -> Mapping[Followed, RefHead | Exception]:
        """Have the whole history of each here; the answer is what came, maybe newer than the head given.

        Raises GitFault for what concerns them all. `source` gives the URL and the limits. What fails leaves nothing.
        """
        try:
            return await self._held(source, wanted)
        except GitFault as fault:
            if fault.state is not RepositoryState.MIRROR_CORRUPT:
                raise
        await self.leave()
        return await self._held(source, wanted)

    async def leave(self) -> None:
        """Hold nothing any more, and remove what was left the last time."""
        gone, self._before = self._before, self.path or self._before
        self._current = None
        self._heads.clear()
        if gone is not None and gone != self._before:
            retiring.remove_retired(await asyncio.to_thread(retiring.retire_folder, [gone]))

    async def _held(self, source: Source, wanted: Mapping[Followed, RefHead]) -> Mapping[Followed, RefHead | Exception]:
        mirror = await self._opened()
        lacking = {one: head for one, head in wanted.items() if not head.is_held_as(self._heads.get(one.private_ref))}
        came = {**wanted, **(await _fetched(mirror, source, lacking) if lacking else {})}
        for one, result in came.items():
            if isinstance(result, RefHead):
                self._heads.pop(one.private_ref, None)  # so that it is the last from now on
                self._heads[one.private_ref] = result
        old = list(self._heads)[: -max(MOST_HELD, len(wanted))]
        for ref in old:
            del self._heads[ref]
        await mirror.drop(old)
        return came

    async def _opened(self) -> Mirror:
        if self._current is None:
            first = self._first
            path = first.path.with_name(f"{first.path.name}.proposals-{self._number + 1}")
            fresh = Mirror(path, first.program, url=first.url, borrows=first.path.name)
            await fresh.rebuild()
            self._number, self._current = self._number + 1, fresh
        return self._current


async def _fetched(
    mirror: Mirror, source: Source, lacking: Mapping[Followed, RefHead]
) -> Mapping[Followed, RefHead | Exception]:
    try:
        return await mirror.fetch(source, lacking)
    except GitFault as fault:
        if len(lacking) == 1 and (fault.of_head or fault.state in OF_ONE):
            return dict.fromkeys(lacking, fault)
        raise


def _has_room(path: Path, max_bytes: int) -> bool:
    files = list((path / "objects/pack").glob("pack-*"))
    packs = sum(file.suffix == ".pack" for file in files)
    return packs < MANY_PACKS and sum(file.stat().st_size for file in files) <= max_bytes
