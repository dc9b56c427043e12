"""Notices that a test tells."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from time import monotonic

import msgspec

from reconciler.store.contract import Heard, Notice


@dataclass
class Told:
    """Notices that a test tells."""

    writer: str = "ours"
    is_lost: bool = False
    asked: int = 0
    answers: "asyncio.Queue[Heard]" = field(default_factory=asyncio.Queue)

    async def follow(self) -> AsyncGenerator[Heard, None]:
        while True:
            yield await self.answers.get()

    def ask(self) -> None:
        self.asked += 1

    async def tell(self, kind: str, body: msgspec.Struct) -> None:
        raise NotImplementedError

    def hear(self, *notices: Notice, revision: int = 0, missed: bool = False) -> None:
        self.answers.put_nowait(Heard(notices, revision, monotonic(), missed))
