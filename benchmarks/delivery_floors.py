"""Floors to compare our figures with, each a process of its own: a route that only reads, and a loop that only sends.

`python -m benchmarks.delivery_floors route` serves a Starlette route that reads the body and answers with nothing, with
the daemon's own server and settings, on a free port that it prints. `... loop PORT SECONDS` posts single records to
that port of this machine with aiohttp, as many at once as a Destination has consumers, and prints how many a second.
"""

import asyncio
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from itertools import cycle

import aiohttp
import uvloop
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from benchmarks import delivery_bodies, floor_server

CONSUMERS = 10  # what a Destination has when it says nothing


def route() -> AbstractContextManager[int]:
    """The route, for as long as the context lasts; its port."""
    return floor_server.running("benchmarks.delivery_floors", "route")


def loop(port: int, *, seconds: float) -> float:
    """Requests a second of the bare loop."""
    command = [sys.executable, "-m", "benchmarks.delivery_floors", "loop", str(port), str(seconds)]
    return float(subprocess.run(command, capture_output=True, check=True, timeout=seconds + 60).stdout)


async def _read(request: Request) -> Response:
    await request.body()
    return Response(b"", media_type="application/x-protobuf")


async def _send(port: int, seconds: float) -> float:
    bodies = cycle(delivery_bodies.fragments(1_000))
    begun = time.perf_counter()
    sent = 0
    headers = {"Content-Type": "application/json", "User-Agent": "floor"}

    async def consume(session: aiohttp.ClientSession) -> None:
        nonlocal sent
        while time.perf_counter() - begun < seconds:
            async with session.post(f"http://127.0.0.1:{port}/hook", data=next(bodies), headers=headers) as answer:
                await answer.read()
            sent += 1

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONSUMERS)) as session:
        await asyncio.gather(*(consume(session) for _ in range(CONSUMERS)))
    return sent / (time.perf_counter() - begun)


if __name__ == "__main__":
    if sys.argv[1] == "route":
        floor_server.serve(Route("/v1/logs", _read, methods=["POST"]))
    else:
        print(uvloop.run(_send(int(sys.argv[2]), float(sys.argv[3]))))
