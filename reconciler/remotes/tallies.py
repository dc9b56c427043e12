"""What was asked of remotes, counted for whoever looks at the service from outside."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from reconciler.git.faults import GitFault

Key = TypeVar("Key")
Value = TypeVar("Value")


class RemoteCall(StrEnum):
    """What was asked."""

    LOOK = "look"
    FETCH = "fetch"


@dataclass(slots=True)
class RemoteTally:
    """Calls since the start, and what failed of them, by the state in which that leaves a repository; empty for what is
    no fault of Git's.
    """

    calls: dict[RemoteCall, int] = field(default_factory=lambda: dict.fromkeys(RemoteCall, 0))
    failures: Counter[tuple[RemoteCall, str]] = field(default_factory=Counter)

    def counted(
        self, call: RemoteCall, make: Callable[[frozenset[Key]], Awaitable[Mapping[Key, Value | Exception]]]
    ) -> Callable[[frozenset[Key]], Awaitable[Mapping[Key, Value | Exception]]]:
        """The same call, counted from now on."""

        async def made(asked: frozenset[Key]) -> Mapping[Key, Value | Exception]:
            self.calls[call] += 1
            try:
                found = await make(asked)
            except Exception as fault:
                self._failed(call, fault)
                raise
            for result in found.values():
                if isinstance(result, Exception):
                    self._failed(call, result)
            return found

        return made

    def _failed(self, call: RemoteCall, fault: Exception) -> None:
        self.failures[call, fault.state.value if isinstance(fault, GitFault) else ""] += 1
