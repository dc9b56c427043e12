"""How much memory reading takes at most, in a process that does nothing else: `python -m tests.delivery.otlp.peaks`.

Written to standard output is by how many bytes the process grew.
"""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from reconciler.delivery.otlp import bodies, reading
from tests.delivery.otlp.requests import field

RECORDS: Final = 128  # each a little smaller than what is counted by itself


def in_json() -> Callable[[], object]:
    """A request whose records have as many attributes as find room."""
    record = b'{"attributes":[' + b",".join([b"{}"] * 5_400) + b"]}"
    request = b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[' + b",".join([record] * RECORDS) + b"]}]}]}"
    return lambda: (request, asyncio.run(reading.read(request, json=True)))


def written() -> Callable[[], object]:
    """A request whose bodies have as many values as find room."""
    record = field(0x12, field(0x2A, field(0x2A, b"\x0a\x00" * 8_100)))
    request = field(0x0A, field(0x12, record * RECORDS))
    return lambda: (request, [*bodies.body_fragments(request)])


def peak() -> int:
    """Bytes; of the process since it became this program."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


if __name__ == "__main__":
    work = {"json": in_json, "bodies": written}[sys.argv[1]]()
    before = peak()
    work()
    print(peak() - before)
