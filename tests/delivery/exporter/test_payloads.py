"""Stored requests made into the bodies of requests."""

import asyncio

import pytest

from reconciler.delivery import http_sender
from reconciler.delivery.otlp.wire import sized
from tests.delivery.exporter.worlds import otlp

pytestmark = pytest.mark.anyio


async def test_the_loop_is_let_go_though_nothing_was_found_yet() -> None:
    scopes = b"\x12\x00" * 19_000
    reading = asyncio.create_task(http_sender.record_bodies(b"\x0a" + sized(len(scopes)) + scopes + otlp("1")))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    assert (await reading, turns >= 19) == ([b"1"], True)


class Scarce(bytes):
    """Bytes for which there is no memory."""

    def __len__(self) -> int:
        raise MemoryError


async def test_what_there_is_no_memory_for_is_not_told_to_be_unreadable() -> None:
    with pytest.raises(MemoryError):
        await http_sender.record_bodies(Scarce(otlp("1")))
