"""A queue on disk against a model, with crashes at any byte of what was not forced to disk."""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reconciler.delivery.queue.contract import Batch
from reconciler.delivery.queue.disk import DiskQueue
from reconciler.delivery.queue.queues import Queues
from tests.delivery.queue import places
from tests.delivery.queue.places import FINAL_FAILURE, NOW, Wanted, claimed

Result = TypeVar("Result")

SMALL_SEGMENTS = Wanted().with_storage(max_bytes=1 << 20)  # 64 KiB each
SIZES = st.sampled_from([0, 1, 300, 20_000, 40_000])
CHOICE = st.integers(min_value=0)


@dataclass
class Model:
    """The expected content. Payloads identify batches; `known` are all that were ever taken."""

    known: set[bytes] = field(default_factory=set)
    waiting: dict[int, bytes] = field(default_factory=dict)
    claimed: dict[Batch, bytes] = field(default_factory=dict)
    dead: list[bytes] = field(default_factory=list)


def _copy_if_there(source: str, target: str) -> None:
    """Copy a file, unless the queue removes it meanwhile: then everything in it is acknowledged."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copy2(source, target)


class Machine(RuleBasedStateMachine):
    """Rules run one after another on a loop of their own; the committer's thread is the real one."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp(prefix="queue-model-"))
        self.lives = 0
        self.texts = 0
        self.model = Model()
        self.queues: Queues
        self.queue: DiskQueue

    def run(self, wanted: Coroutine[Any, Any, Result]) -> Result:
        async def in_time() -> Result:
            async with asyncio.timeout(30):
                return await wanted

        return self.runner.run(in_time())

    @property
    def root(self) -> Path:
        return self.folder / str(self.lives)

    @initialize()
    def begin(self) -> None:
        self.run(self.open())

    async def open(self) -> None:
        self.queues = places.make(self.root)
        await self.queues.start()
        self.queue = await places.open_queue(self.queues, SMALL_SEGMENTS)

    def text(self, size: int) -> bytes:
        self.texts += 1
        self.model.known.add(text := b"%d:" % self.texts + b"x" * size)
        return text

    @rule(sizes=st.lists(SIZES, min_size=1, max_size=4))
    def append(self, sizes: list[int]) -> None:
        texts = [self.text(size) for size in sizes]

        async def together() -> None:
            await asyncio.gather(*(self.queue.append([text[:2], text[2:]], records=1, at=NOW) for text in texts))

        self.run(together())
        # Numbers are seen when they are claimed; what waits is known by its order.
        last = max([*self.model.waiting, *(batch.number for batch in self.model.claimed), 0])
        self.model.waiting |= {last + place: text for place, text in enumerate(texts, start=1)}

    @rule(most=st.integers(1, 5))
    def claim(self, most: int) -> None:
        async def claim() -> list[tuple[Batch, bytes | None]]:
            if self.model.waiting:
                await self.queue.wait()
            batches = self.queue.claim(most_records=most, most_bytes=1 << 30)
            return [(batch, await self.queue.payload(batch)) for batch in batches]

        order = sorted(self.model.waiting)
        for number, (batch, payload) in zip(order, self.run(claim()), strict=False):
            assert payload == self.model.waiting.pop(number)
            self.model.claimed[batch] = payload

    def one(self, choice: int) -> Batch | None:
        batches = sorted(self.model.claimed, key=lambda batch: batch.number)
        return batches[choice % len(batches)] if batches else None

    @rule(choice=CHOICE)
    def deliver(self, choice: int) -> None:
        if batch := self.one(choice):
            self.run(self.later(lambda: self.queue.delivered([batch])))
            del self.model.claimed[batch]

    async def later(self, act: Any) -> None:
        act()

    @rule(choice=CHOICE)
    def give_back(self, choice: int) -> None:
        if batch := self.one(choice):
            self.run(self.later(lambda: self.queue.give_back([batch])))
            self.model.waiting[self.place(batch)] = self.model.claimed.pop(batch)

    def place(self, batch: Batch) -> int:
        """A key among those that wait which keeps the order of numbers; they are the model's own."""
        return batch.number - 10**9

    @rule(choice=CHOICE)
    def bury(self, choice: int) -> None:
        if batch := self.one(choice):
            payload = self.model.claimed.pop(batch)

            async def bury() -> None:
                await self.queue.bury(batch, [payload], FINAL_FAILURE, records=1)

            self.run(bury())
            self.model.dead.append(payload)

    @rule(most=st.integers(1, 3))
    def replay(self, most: int) -> None:
        batches, _ = self.run(self.queue.replay(outages_only=False, most=most))
        assert batches == min(most, len(self.model.dead))
        last = max([*self.model.waiting, *(batch.number for batch in self.model.claimed), 0])
        for place, text in enumerate(self.model.dead[:batches], start=1):
            self.model.waiting[last + place] = text
        del self.model.dead[:batches]

    @rule()
    def discard(self) -> None:
        assert self.run(self.queue.discard(queued=True, dead=False))[0] == len(self.model.waiting)
        self.model.waiting.clear()

    @rule()
    def close_and_open(self) -> None:
        self.run(self.queues.close())
        self.run(self.open())
        self.compare(strictly=True)

    @rule(cut=st.floats(0, 1), size=SIZES, acknowledged=st.floats(0, 1))
    def crash(self, cut: float, size: int, acknowledged: float) -> None:
        """The next life has a copy, in which the last append and the acknowledgements are cut anywhere."""
        before = {path: path.stat().st_size for path in self.root.glob("here/*/*.seg")}
        text = self.text(size)

        async def append() -> None:
            await self.queue.append([text], records=1, at=NOW)

        self.run(append())
        after = self.folder / str(self.lives + 1)
        shutil.copytree(self.root, after, copy_function=_copy_if_there)
        self.run(self.queues.close())
        for path in after.glob("here/*/*.seg"):
            length = before.get(self.root / path.relative_to(after), 0)
            added = path.stat().st_size - length
            if added > 0:
                with path.open("r+b") as file:
                    file.truncate(length + int(added * cut))
        for path in [*after.glob("here/*/*.ack"), *after.glob("here/*/dead/*.ack")]:
            with path.open("r+b") as file:
                file.truncate(int(path.stat().st_size * acknowledged))
        self.lives += 1
        self.run(self.open())
        self.compare(strictly=False)

    def compare(self, *, strictly: bool) -> None:
        """Check that every expected batch is there, unchanged; strictly: nothing else, and in order."""

        async def there() -> tuple[list[Batch], list[bytes | None], list[bytes]]:
            batches = await claimed(self.queue)
            payloads = [await self.queue.payload(batch) for batch in batches]
            return batches, payloads, [letter.data or b"" for letter in await places.letters(self.queue)]

        batches, payloads, dead = self.run(there())
        model = self.model
        must = [*(model.claimed.values()), *model.waiting.values()]
        assert [batch.number for batch in batches] == sorted({batch.number for batch in batches})
        assert (set(must) <= set(payloads) <= model.known, set(model.dead) <= set(dead) <= model.known) == (True, True)
        if strictly:
            assert (sorted(must), model.dead) == (sorted(text for text in payloads if text is not None), dead)
        self.run(self.later(lambda: self.queue.give_back(batches)))
        model.claimed.clear()
        model.waiting = {self.place(batch): text or b"" for batch, text in zip(batches, payloads, strict=True)}
        model.dead = dead

    @invariant()
    def counts(self) -> None:
        if not hasattr(self, "queue"):
            return

        async def depth() -> tuple[int, int, int, int]:
            found = self.queue.depth()
            return found.batches, found.claimed, found.size, found.dead_batches

        texts = [*self.model.waiting.values(), *self.model.claimed.values()]
        expected = (len(texts), len(self.model.claimed), sum(map(len, texts)), len(self.model.dead))
        assert self.run(depth()) == expected

    def teardown(self) -> None:
        if hasattr(self, "queue"):
            self.run(self.queues.close())
        self.runner.close()
        shutil.rmtree(self.folder)


TestAQueueOnDisk = Machine.TestCase
TestAQueueOnDisk.settings = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
