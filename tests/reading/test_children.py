"""How long jobs may take, and their end when nobody waits for them any more."""

import asyncio
from typing import get_args

import pytest

from reconciler.reading.children import SECONDS, Child
from reconciler.reading.inflow import Inflow
from reconciler.reading.messages import Answer, Begun, Context, Failed, Job, RedactJob, RequestJob


def test_every_job_has_a_limit_and_nobody_who_asks_over_http_waits_without_one() -> None:
    assert set(SECONDS) == set(get_args(Job))
    assert [SECONDS[job].wait for job in (RequestJob, RedactJob)] == [60.0, 60.0]


@pytest.mark.anyio
@pytest.mark.parametrize("answers", [[Begun(1)], [Begun(1), Failed(1, "It cannot be done.")]], ids=["begun", "over"])
async def test_who_is_cancelled_in_the_moment_of_an_answer_is_cancelled(answers: list[Answer]) -> None:
    context = Context("store.db", "default", b"key", frozenset(), "2026-11-22T00:00:00Z", 0, b"seed")
    job = RedactJob(context, "Destination", "siem", "text", "admin", "request", dry_run=True)
    child = await Child.start(["sleep", "60"], seconds=SECONDS, unasked=lambda _: None)
    try:
        asked = asyncio.create_task(child.plan(1, job, Inflow()))
        for answer in answers:
            for _ in range(10):
                await asyncio.sleep(0)  # it comes to wait for the next answer
            child._take(answer)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(5):
                await asked
    finally:
        child.process.kill()
        await child.end()
