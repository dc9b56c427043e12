"""The environment of sending, besides the network: times, timers, randomness, and how much one request holds."""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from reconciler.delivery.queue.contract import BATCH_BYTES, BATCH_RECORDS

LINGER_SECONDS = 0.05  # that records wait for more of them, while they come in small batches
PATIENCE_SECONDS = 25.0  # with the default `timeout` of 5 s a sender without a queue waits for half a minute at most


class Timer(Protocol):
    """Something that will be called, unless it is cancelled."""

    def cancel(self) -> None:
        """Do not call it."""


def system_clock() -> int:
    """Unix milliseconds."""
    return time.time_ns() // 1_000_000


def loop_timer(seconds: float, call: Callable[[], None]) -> Timer:
    """A timer of the running loop."""
    return asyncio.get_running_loop().call_later(seconds, call)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendEnvironment:
    """`clock` is Unix milliseconds, which may jump; `monotonic` seconds, which never do. `later` calls a function once
    after so many of those seconds.

    `most_records` and `most_bytes` bound what batches are merged into one request; one batch is never cut for them.
    `patience` is how many seconds all that is sent without a queue may take beyond the `timeout` of one request.
    """

    clock: Callable[[], int] = system_clock
    monotonic: Callable[[], float] = time.monotonic
    later: Callable[[float, Callable[[], None]], Timer] = loop_timer
    random: random.Random
    most_records: int = BATCH_RECORDS
    most_bytes: int = BATCH_BYTES  # of OTLP
    linger: float = LINGER_SECONDS
    patience: float = PATIENCE_SECONDS
