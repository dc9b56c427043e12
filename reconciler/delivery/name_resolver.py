"""Asking the system for the addresses of a name, in threads of our own.

A name belongs to whoever wrote it, and so may its name server: one that never answers holds a thread for as long as the
system waits. In the loop's common threads it would hold up everything else that uses them.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a name for a port, best first; OSError when there are none."""

THREADS = 8


class SystemNames:
    """The system's resolver: /etc/hosts, DNS, whatever nsswitch.conf says."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="egress-names")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a name, best first (RFC 6724), of families that this machine has."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, _addresses, host, port)

    def close(self) -> None:
        """Take no more names; who waits for one is cancelled."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _addresses(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [str(address[0]) for _, _, _, _, address in found]
