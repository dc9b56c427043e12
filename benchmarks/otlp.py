"""Reading export requests and writing their bodies as JSON, each alone on one core: `python -m benchmarks.otlp`.

Beside each figure stands what the parser takes alone, or the least that was wanted.
"""

import asyncio
import gzip
import json
import time
from collections.abc import Callable, Coroutine
from typing import Any

import zstandard
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from benchmarks import delivery_bodies
from benchmarks.figures import Figure, machine, table
from reconciler.delivery.otlp import bodies, encodings, reading

RECORDS = 1_000
ROUNDS = 50
STRINGS = 700_000  # records a second that bodies are to be written at, at least: lines of text,
MAPS = 80_000  # and maps of eight keys


def measure() -> list[Figure]:
    """All of it."""
    texts, maps = delivery_bodies.texts(RECORDS), delivery_bodies.maps(RECORDS)
    return [
        reads("lines of text", texts),
        reads("8-key maps", maps),
        writes("lines of text", texts, least=STRINGS),
        writes("8-key maps", maps, least=MAPS),
        writes("lines that are JSON objects", documents(RECORDS)),
        reads_json(texts),
        decodes("gzip", gzip.compress(texts)),
        decodes("zstd", zstandard.ZstdCompressor().compress(texts)),
        holds(delivery_bodies.texts(10_000)),
    ]


def reads(what: str, request: bytes) -> Figure:
    """A request made into `Logs`."""
    ours = asyncio.run(_awaited(lambda: reading.read(request, json=False)))
    parser = _best(lambda: ExportLogsServiceRequest.FromString(request))
    return _figure(f"reading a request of {RECORDS:,} records, {what}", ours, "protobuf's parser alone", parser)


def writes(what: str, request: bytes, *, least: int | None = None) -> Figure:
    """Bodies made into JSON, and joined."""
    seconds = _best(lambda: [b",".join(part) for part in bodies.body_fragments(request)])
    rate = RECORDS / seconds
    beside, ratio = ("", "") if least is None else (f"at least {least:,}/s", f"{rate / least:.2f}")
    return Figure(f"bodies as JSON, {what}", f"{rate:,.0f}/s", beside, ratio, missed=least is not None and rate < least)


def reads_json(request: bytes) -> Figure:
    """The same request in OTLP's JSON."""
    document = json.dumps(
        json_format.MessageToDict(ExportLogsServiceRequest.FromString(request), use_integers_for_enums=True)
    ).encode()
    ours = asyncio.run(_awaited(lambda: reading.read(document, json=True)))
    library = _best(lambda: json_format.Parse(document, ExportLogsServiceRequest()), rounds=3)
    return _figure(f"reading a request of {RECORDS:,} records in JSON", ours, "protobuf's own reader of JSON", library)


def decodes(encoding: str, body: bytes) -> Figure:
    """A compressed request."""
    seconds = asyncio.run(_awaited(lambda: encodings.decode_body(body, encoding, most=20 << 20)))
    return Figure(f"decoding {RECORDS:,} records, {encoding}", f"{RECORDS / seconds:,.0f}/s", "", "")


def holds(request: bytes) -> Figure:
    """Return the longest wait of others while a large request is read on a thread.

    The limit is two of the 5 ms after which the interpreter lets another thread run.
    """
    longest = min(asyncio.run(_held(lambda: reading.read(request, json=False))) for _ in range(ROUNDS))
    return Figure(
        "longest hold of the loop by 10,000 records", f"{longest * 1e3:.2f} ms", "limit 10 ms", f"{longest * 100:.2f}"
    )


def documents(records: int) -> bytes:
    """A request whose records are lines that are JSON: the maps of eight keys, written as text."""
    request = ExportLogsServiceRequest.FromString(delivery_bodies.maps(records))
    texts = [text.decode() for part in bodies.body_fragments(request.SerializeToString()) for text in part]
    for record, text in zip(request.resource_logs[0].scope_logs[0].log_records, texts, strict=True):
        record.body.string_value = text
    return request.SerializeToString()


async def _awaited(work: Callable[[], Coroutine[Any, Any, object]]) -> float:
    """Seconds of the best of several rounds."""
    taken = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await work()
        taken.append(time.perf_counter() - began)
    return min(taken)


async def _held(work: Callable[[], Coroutine[Any, Any, object]]) -> float:
    doing = asyncio.ensure_future(work())
    longest = 0.0
    while not doing.done():
        began = time.perf_counter()
        await asyncio.sleep(0)
        longest = max(longest, time.perf_counter() - began)
    await doing
    return longest


def _best(work: Callable[[], object], *, rounds: int = ROUNDS) -> float:
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken)


def _figure(what: str, ours: float, beside: str, theirs: float) -> Figure:
    return Figure(what, f"{RECORDS / ours:,.0f}/s", f"{beside} {RECORDS / theirs:,.0f}/s", f"{theirs / ours:.2f}")


if __name__ == "__main__":
    print(machine(), table(measure()), sep="\n\n")
