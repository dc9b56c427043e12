"""A worker process that answers what a test has it say, and keeps the orders that it gets.

worker = SpokenWorker(folder)
async with worker.started() as process:
    task = await worker.asked(process, 1, job)
    worker.say(1, Ready())
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from reconciler.worker import messages
from reconciler.worker.messages import Answer, Job, Order, Reply
from reconciler.worker.process import SECONDS, Answered, Lock, WorkerProcess, WorkerSeconds
from tests.waiting import until

LONGEST_SECONDS = 30.0  # what takes longer does not happen

# It ends with its input, as the real one does.
PROGRAM = """
import os, shutil, sys, threading
def say():
    with open(sys.argv[1], "rb", buffering=0) as answers:
        while data := answers.read(65536):
            os.write(1, data)
threading.Thread(target=say, daemon=True).start()
with open(sys.argv[2], "wb", buffering=0) as orders:
    while data := os.read(0, 65536):
        orders.write(data)
os._exit(0)
"""


class SpokenWorker:
    """One such worker. `told` is what is told of its end."""

    def __init__(self, folder: Path) -> None:
        self._answers, self._orders = folder / "answers", folder / "orders"
        os.mkfifo(self._answers)
        self._pipe = os.open(self._answers, os.O_RDWR)
        self._orders.touch()
        self.told: list[str] = []

    @contextlib.asynccontextmanager
    async def started(self, seconds: Mapping[type[Job], WorkerSeconds] = SECONDS) -> AsyncIterator[WorkerProcess]:
        """The process, for as long as the context lasts."""
        command = (sys.executable, "-S", "-c", PROGRAM, str(self._answers), str(self._orders))
        process = await WorkerProcess.start(command, seconds=seconds, unasked=self.told.append)
        self.say(0, messages.Ready())
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                yield process
        finally:
            await process.end()
            os.close(self._pipe)

    def say(self, number: int, *answers: Answer) -> None:
        """Have it answer the job with this number."""
        self.say_bytes(b"".join(messages.framed(Reply(number, answer)) for answer in answers))

    def say_bytes(self, data: bytes) -> None:
        """Have it answer what may be no answer."""
        os.write(self._pipe, data)

    def orders(self) -> list[Order]:
        """All that it was sent so far, as far as it came whole."""
        sent, found = self._orders.read_bytes(), []
        while len(sent) >= messages.LENGTH.size:
            (length,) = messages.LENGTH.unpack(sent[: messages.LENGTH.size])
            payload, sent = sent[messages.LENGTH.size :][:length], sent[messages.LENGTH.size + length :]
            if len(payload) == length:
                found.append(messages.order(payload))
        return found

    async def asked(
        self,
        process: WorkerProcess,
        number: int,
        job: Job,
        *,
        lock: Lock = contextlib.nullcontext,
        held: contextlib.AsyncExitStack | None = None,
    ) -> "asyncio.Task[Answered]":
        """A job that the worker has been sent."""
        task = asyncio.create_task(plan(process, number, job, lock=lock, held=held))
        await until(lambda: number in [order.number for order in self.orders()])
        return task


async def plan(
    process: WorkerProcess,
    number: int,
    job: Job,
    *,
    lock: Lock = contextlib.nullcontext,
    held: contextlib.AsyncExitStack | None = None,
) -> Answered:
    """Have a job planned whose lock nobody releases but `held`."""
    return await process.plan(number, job, lock=lock, held=held or contextlib.AsyncExitStack())
