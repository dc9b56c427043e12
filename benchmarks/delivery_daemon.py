"""A real daemon that takes log records for a sink, with keys enough that none is over its limit.

The Destination, the Extension that keeps its queue (`sync: commit`) and the Configuration are applied through the API.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.daemons import COMMAND, Daemon, daemon
from benchmarks.delivery_load import Answers, Load, post
from benchmarks.sink import Sink
from tests.daemons import Answer, until

KEYS = 8  # one may have 32 requests in flight
NAME = "sink"
DELIVERY = f"/v1/destinations/{NAME}/delivery"
MOST_BYTES = 40 << 30  # of a queue: no measurement is to be one of how it is full
MOST_BATCHES = 10_000_000
DRAIN_SECONDS = 120.0
STEP_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Round:
    """One load: how requests were answered, and how many records a second came out of the other end."""

    answers: Answers
    delivered: float  # records a second, from the first request to the last record at the sink

    @property
    def accepted(self) -> float:
        """Requests a second that were answered with 200."""
        return self.answers.accepted / self.answers.seconds


@dataclass(frozen=True, slots=True)
class Receiver:
    """The daemon, its sink and its keys."""

    daemon: Daemon
    sink: Sink
    keys: list[str]
    folder: Path
    before: int  # records that the sink had

    def delivery(self) -> dict[str, Any]:
        """Return the Destination's status as the API shows it."""
        # After a start it is 503 until the routes are read.
        answer = until(lambda: _answered(self.daemon), "the delivery is shown")
        return dict(answer.body["delivery"])

    def drained(self) -> int:
        """Wait until nothing is queued: how many records were taken since the start. Raises RuntimeError when one of
        them is not at the sink, or at it twice.
        """
        end = time.perf_counter() + DRAIN_SECONDS
        while (shown := self.delivery())["queue"]["batches"]:
            if time.perf_counter() > end:
                raise RuntimeError(f"the queue did not run empty: {shown}")
            time.sleep(STEP_SECONDS)
        counts, seen = shown["counts"], self.sink.counts().records - self.before
        if not counts["taken"] == counts["delivered"] == seen or shown["deadLetters"]["batches"]:
            raise RuntimeError(f"{seen} records are at the sink; the service tells {counts}")
        return int(counts["taken"])

    def round(self, load: Load) -> Round:
        """Post a load, and wait until all of it is delivered."""
        before = self.drained()
        begun = time.perf_counter()
        answers = post(load, port=self.daemon.port, keys=self.keys, folder=self.folder)
        taken = self.drained() - before
        accepted = answers.accepted * load.records
        # What was under way when the load ended may have been taken, and nobody was there to be told.
        if not accepted <= taken <= accepted + load.connections * load.records:
            raise RuntimeError(f"{accepted} records were accepted, and {taken} taken")
        return Round(answers, taken / (self.sink.counts().last - begun))


@contextlib.contextmanager
def receiving(
    folder: Path, sink: Sink, *, parameters: Mapping[str, object] | None = None, program: Path = COMMAND
) -> Iterator[Receiver]:
    """A daemon that delivers to the sink; `parameters` are those of the Destination besides where it is."""
    with daemon(folder, repository=None, program=program) as running:
        yield made(running, folder, sink, parameters=parameters)


def made(running: Daemon, folder: Path, sink: Sink, *, parameters: Mapping[str, object] | None = None) -> Receiver:
    """Have a daemon deliver to the sink from now on."""
    keys = [_key(running, f"bench-{number}") for number in range(KEYS)]
    updates = running.apply(*resources(sink.port, parameters or {}))
    if [one["status"] for one in updates] != ["created"] * len(updates):
        raise RuntimeError(f"the resources were not stored: {updates}")
    # Routes follow the store a moment later.
    until(lambda: _is_routed(running) or None, "the Destination is delivered to")
    return Receiver(running, sink, keys, folder, sink.counts().records)


def _answered(running: Daemon) -> Answer | None:
    answer = running.get(DELIVERY)
    return answer if answer.status == 200 else None


def _is_routed(running: Daemon) -> bool:
    answer = _answered(running)
    return answer is not None and bool(answer.body["delivery"]["configurations"])


def resources(port: int, parameters: Mapping[str, object]) -> list[dict[str, Any]]:
    """Return the resources to apply."""
    endpoint = {"scheme": "http", "hostname": "127.0.0.1", "port": port, "path": "/hook"}
    queue = {"sending_queue_queue_size": MOST_BATCHES, "persistent_queue_storage": "bench"}
    configuration = {"sources": [{"type": "otlp"}], "destinations": [{"name": NAME}], "selector": {"matchLabels": {}}}
    return [
        _resource("Extension", "bench", _typed("file_storage", {"sync": "commit", "max_bytes": MOST_BYTES})),
        _resource("Destination", NAME, _typed("webhook", {**endpoint, **queue, **parameters})),
        _resource("Configuration", "bench", configuration),
    ]


def _resource(kind: str, name: str, spec: Mapping[str, object]) -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _typed(type_name: str, parameters: Mapping[str, object]) -> dict[str, object]:
    given = [{"name": name, "value": value} for name, value in parameters.items()]
    return {"type": type_name, "parameters": given}


def _key(running: Daemon, name: str) -> str:
    answer = running.post("/v1/api-keys", {"name": name, "role": "user", "scopes": ["logs"]}, project="default")
    if answer.status not in (200, 201):
        raise RuntimeError(f"no key: {answer}")
    return str(answer.body["apiKey"]["key"])
