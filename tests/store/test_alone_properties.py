"""Whoever is alone in its project stores what it planned, whatever is stored in another project meanwhile."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model import outcomes
from reconciler.reconcile.conflict_retry import OPTIMISTIC, ConflictRetry
from reconciler.store.contract import Changes, KeyRow, Moved, Record, RewrittenRow, SuspensionRow
from reconciler.store.sqlite import SqliteStore
from tests.scenarios.properties.profiles import profiles
from tests.store import rows

A, B = rows.PROJECT, "another"
MANY = 501  # resources in one change: it is not remembered what they are
ROUNDS = 2  # alone, and overtaken in each
SECONDS = 60.0  # what takes longer does not happen


class Other:
    """Somebody who changes the other project, each time something that is there."""

    def __init__(self) -> None:
        self.versions: Counter[str] = Counter()

    def stored(self, *names: str) -> tuple[Changes, Record]:
        self.versions[names[0]] += 1
        return rows.stored(*names, number=self.versions[names[0]], project=B), Record()

    def restated(self) -> tuple[Changes, Record]:
        return Changes(head_statuses=(rows.head_status("a", "nothing fits", project=B),)), Record()

    def removed(self) -> tuple[Changes, Record]:
        return Changes(removed=(KeyRow(B, rows.KIND, "a"),)), Record()

    def pushed(self) -> tuple[Changes, Record]:
        part, _ = self.stored("a")
        wanted = rows.wanted("a.yaml", "a", repository=B)
        index = replace(part, files=(rows.file("a.yaml", repository=B),), wanted=(wanted,))
        return index, Record(repository=rows.repository(B)._replace(project=B))

    def rewritten(self) -> tuple[Changes, Record]:
        part, _ = self.stored("a")
        row = RewrittenRow(B, rows.KIND, "a", self.versions["a"], rows.body("a", 1), None)
        return replace(part, rewritten=(row,)), Record()

    def redacted(self) -> tuple[Changes, Record]:
        return Changes(audit=(rows.audit("a", project=B),)), Record(redacts=True)


WRITES: dict[str, Callable[[Other], tuple[Changes, Record]]] = {
    "one": lambda other: other.stored("a"),
    "many": lambda other: other.stored(*(f"many-{number}" for number in range(MANY))),
    "restated": Other.restated,
    "removed": Other.removed,
    "pushed": Other.pushed,
    "rewritten": Other.rewritten,
    "redacted": Other.redacted,
    "suspended": lambda _: (
        Changes(),
        Record(suspension=SuspensionRow(B, "why", "key:test", rows.AT, None), audit=(rows.audit("a", project=B),)),
    ),
}
REWRITING = {"rewritten", "redacted"}  # makes void what is written ahead, in whichever project
EVERYWHERE = {"suspended"}

BESIDE = st.lists(st.sampled_from(sorted(WRITES)), max_size=5)


@profiles
def test_whoever_is_alone_is_overtaken_by_none_but_who_rewrites_beside_what_is_written_ahead(profile: settings) -> None:
    tried = given(is_ahead=st.booleans(), beside=st.lists(BESIDE, min_size=ROUNDS, max_size=ROUNDS))(alone)
    settings(profile, max_examples=max(profile.max_examples, 15))(tried)()


def alone(*, is_ahead: bool, beside: Sequence[Sequence[str]]) -> None:
    """A change in its last rounds, and what is stored in another project in each of them but the last possible."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_alone(Path(folder) / "store.db", is_ahead=is_ahead, beside=beside))


async def _alone(path: Path, *, is_ahead: bool, beside: Sequence[Sequence[str]]) -> None:
    store, rounds, other = SqliteStore(path), ConflictRetry(), Other()
    later: list[asyncio.Task[None]] = []
    number = 0

    async def write(how: str) -> None:
        part, record = WRITES[how](other)
        if how in EVERYWHERE:
            async with rounds.everywhere():
                await store.commit((part,), record=record, planned_at=None)
        else:
            async with rounds.beside(B):
                await store.commit((part,), record=record, planned_at=None)

    async def round_() -> int:
        nonlocal number
        number += 1
        if number <= OPTIMISTIC:
            raise Moved("Somebody of the same project was quicker.")
        planned_at, ahead = await store.revision(), store.ahead() if is_ahead else None
        if ahead is not None:
            await ahead.write((rows.stored("a"),))
        for how in beside[number - OPTIMISTIC - 1] if number <= OPTIMISTIC + ROUNDS else ():
            task = asyncio.create_task(write(how))
            later.append(task) if how in EVERYWHERE else await task
        rest = () if is_ahead else (rows.stored("a"),)
        looked_at = outcomes.footprint_of_all(A)
        return await store.commit(rest, record=Record(), planned_at=planned_at, footprint=looked_at, ahead=ahead)

    async with asyncio.timeout(SECONDS):
        await store.create_project(A, at=rows.AT)
        await store.create_project(B, at=rows.AT)
        await rounds.of_commit(A, round_)
        overtaken = 0
        while overtaken < len(beside) and is_ahead and REWRITING & set(beside[overtaken]):
            overtaken += 1
        assert number == OPTIMISTIC + overtaken + 1
        await asyncio.gather(*later)
        assert await store.get(A, rows.key("a")) is not None
        await store.close()
