"""The cost of authenticating and authorizing a request, and the effect on others of sign-ins with wrong passwords."""

import asyncio
import base64
import itertools
import math
import os
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from starlette.responses import Response
from starlette.types import ASGIApp

import api.app
from api.calls import Call, Caller, Services
from api.edge import Edge
from api.routing import Endpoint
from benchmarks import corpus
from benchmarks.daemons import Daemon, daemon
from benchmarks.figures import Figure
from reconciler.model import directory
from reconciler.model.directory import Amendment, Audited
from reconciler.model.principals import DEFAULT_PROJECT, SERVICE_KEY, Role
from tests.api import callers, parts
from tests.auth import directories

KEYS = 1_000  # that the service knows
ROUNDS = 31
REQUESTS = 400  # in a round
MICROSECONDS = 50  # the limit of what is added

ATTACKERS = 50  # each from an address of its own, so that none is turned away before a password is compared
SECONDS = 6.0
PAUSE = 0.005  # seconds between two requests of whoever is measured
MILLISECONDS = 100  # the limit of the 99th percentile
GET_ONE = "/v1/resources/Destination/destination-000500"


def measure() -> list[Figure]:
    """Return the cost for each request, and how long requests take while people guess passwords."""
    return [asyncio.run(_added()), _while_guessing()]


class _Open(Endpoint):
    """Calls the handler for whoever asks, as the same one."""

    async def answer(self, call: Call) -> Response:
        call.caller = Caller(SERVICE_KEY, call.directory)
        call.project = DEFAULT_PROJECT
        return await self.operations[call.scope["method"]].handler(call)


def _open(services: Services) -> ASGIApp:
    """The application without authentication and authorization; all else is the same."""
    endpoints = []
    for endpoint in api.app.ENDPOINTS.values():
        opened = _Open(endpoint.path)
        opened.operations = endpoint.operations
        endpoints.append(opened)
    return Edge(services, endpoints, nowhere=api.app.UNKNOWN)


async def _added() -> Figure:
    with tempfile.TemporaryDirectory() as temporary:
        async with parts.started(Path(temporary)) as started:
            text = await _fill(started.services)
            whole, floor = api.app.build(started.services), _open(started.services)
            ours, without = [], []
            for _ in range(ROUNDS):
                without.append(await _microseconds(floor, text))
                ours.append(await _microseconds(whole, text))
    added = statistics.median(one - other for one, other in zip(ours, without, strict=True))
    return Figure(
        "authentication and authorization, added to a GET",
        f"{added:.0f} µs",
        f"limit {MICROSECONDS} µs; the GET without them {statistics.median(without):.0f} µs",
        f"{added / MICROSECONDS:.2f}",
    )


async def _fill(services: Services) -> str:
    """A resource to get, and keys; one of them as text."""
    body = b'{"resources":[{"apiVersion":"service/v1","kind":"Fleet","metadata":{"name":"one"}}]}'
    root = [("X-Service-Api-Key", parts.KEY)]
    await callers.ask(api.app.build(services), "POST", "/v1/apply", headers=root, body=body)
    texts = [directory.make_key(os.urandom(directory.RANDOM_BYTES)) for _ in range(KEYS)]
    kept = [
        directories.key(text, identifier=f"K{number}", project=DEFAULT_PROJECT, role=Role.VIEWER)
        for number, text in enumerate(texts)
    ]
    amendment = Amendment(Audited("created", "Key", "many"), keys=tuple(kept))
    await services.accounts.amend(lambda _: amendment, actor="user:root", request=None)
    return texts[KEYS // 2]


async def _microseconds(app: ASGIApp, key: str) -> float:
    """Of one request, in a round of them."""
    headers = [("Authorization", f"Bearer {key}"), ("X-Service-Project", DEFAULT_PROJECT)]
    before = time.perf_counter()
    for _ in range(REQUESTS):
        answer = await callers.ask(app, "GET", "/v1/resources/Fleet/one", headers=headers)
        if answer.status != 200:
            raise RuntimeError(answer.body.decode())
    return (time.perf_counter() - before) / REQUESTS * 1e6


def _while_guessing() -> Figure:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        corpus.make(folder / "corpus.git", files=1_000)
        with daemon(folder, repository=folder / "corpus.git") as running:
            while not running.runs():
                time.sleep(0.1)
            alone = _p99(running)
            with _guessing(running) as counts:
                during = _p99(running)
    return Figure(
        f"99th percentile of a GET during {ATTACKERS} sign-ins at once",
        f"{during:.1f} ms ({sum(counts) / SECONDS:.0f} passwords a second)",
        f"limit {MILLISECONDS} ms; without them {alone:.1f} ms",
        f"{during / MILLISECONDS:.2f}",
    )


def _p99(running: Daemon) -> float:
    """Milliseconds."""
    request = _request(running, GET_ONE, f"Authorization: Bearer {running.key}")
    taken = []
    with socket.create_connection((running.host, running.port), timeout=30) as connection:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            before = time.perf_counter()
            if _status(connection, request) != 200:
                raise RuntimeError("the request was refused")
            taken.append((time.perf_counter() - before) * 1e3)
            time.sleep(PAUSE)
    return sorted(taken)[math.ceil(len(taken) * 0.99) - 1]


@contextmanager
def _guessing(running: Daemon) -> Iterator[list[int]]:
    """While it lasts, people guess; how many passwords were compared for each, at the end."""
    over = threading.Event()
    counts = [0] * ATTACKERS
    threads = [threading.Thread(target=_guess, args=(running, over, counts, one)) for one in range(ATTACKERS)]
    for thread in threads:
        thread.start()
    try:
        yield counts
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _guess(running: Daemon, over: threading.Event, counts: list[int], attacker: int) -> None:
    """One attempt after the other, each with another name."""
    own = (f"127.0.1.{attacker + 1}", 0)
    with socket.create_connection((running.host, running.port), timeout=30, source_address=own) as connection:
        for number in itertools.count():
            if over.is_set():
                return
            guess = base64.b64encode(f"name{attacker}-{number}:a wrong password".encode()).decode()
            if _status(connection, _request(running, "/v1/me", f"Authorization: Basic {guess}")) == 401:
                counts[attacker] += 1
            else:
                time.sleep(PAUSE)


def _request(running: Daemon, path: str, header: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {running.host}\r\n{header}\r\n\r\n".encode()


def _status(connection: socket.socket, request: bytes) -> int:
    """The status of the answer, once it is read whole."""
    connection.sendall(request)
    answer = connection.recv(65_536)
    head, _, body = answer.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
    while len(body) < length:
        body += connection.recv(65_536)
    return int(head.split(b" ", 2)[1])
