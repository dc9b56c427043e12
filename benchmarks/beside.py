"""A client beside a measurement: the same request again and again for as long as the measurement lasts.

A process of its own (`python -m benchmarks.beside PORT FILE SECONDS HOW`), so that it neither slows what it measures
nor is slowed. `paced`: a request is due every so many seconds, and its clock runs from then, so that one that waits
for a late answer is late itself. `after`: each begins so many seconds after the answer to the one before. It ends when
its standard input does. A request that is answered with 503 is sent again, and its clock runs on. Eight `@` in the
request are a number that grows.
"""

import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from benchmarks.asking import Connection
from benchmarks.delivery_pacing import percentile

NUMBER = b"@@@@@@@@"
END_SECONDS = 300.0
AGAIN_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Latencies:
    """How many requests were answered as they should be, and how long their answers took, in milliseconds."""

    requests: int
    p50_ms: float
    p99_ms: float
    worst_ms: float


class Beside:
    """A client under way; `ended` gives what it saw."""

    def __init__(self, request: bytes, *, port: int, every: float, file: Path, paced: bool) -> None:
        """`every` is in seconds; `file` is a place for the request."""
        file.write_bytes(request)
        command = [sys.executable, "-m", "benchmarks.beside", str(port), str(file), str(every)]
        self._process = subprocess.Popen(
            [*command, "paced" if paced else "after"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"asking\n":
            raise RuntimeError("a client beside the measurement could not begin")

    def __enter__(self) -> "Beside":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()

    def ended(self) -> Latencies:
        """End it. Raises RuntimeError when a request was not answered with 2xx."""
        told, _ = self._process.communicate(timeout=END_SECONDS)
        if self._process.returncode:
            raise RuntimeError("a client beside the measurement failed")
        return Latencies(**json.loads(told))


def _ask(port: int, data: bytes, every: float, *, paced: bool, ended: threading.Event) -> list[float]:
    latencies: list[float] = []
    with Connection(port) as connection:
        print("asking", flush=True)
        due = time.perf_counter()
        while not ended.is_set():
            request = data.replace(NUMBER, b"%08d" % len(latencies))
            while (answer := connection.ask(request)).status == 503:
                time.sleep(AGAIN_SECONDS)
            if not 200 <= answer.status < 300:
                sys.exit(f"{answer.status}: {answer.body.decode()}")
            now = time.perf_counter()
            latencies.append(now - due)
            due = due + every if paced else now + every
            ended.wait(max(0.0, due - now))
            if not paced:
                due = time.perf_counter()
    return latencies


def _main(port: str, file: str, every: str, how: str) -> None:
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    found = _ask(int(port), Path(file).read_bytes(), float(every), paced=how == "paced", ended=ended)
    ms = {f"p{share}_ms": percentile(found, share / 100) * 1000 for share in (50, 99)}
    print(json.dumps({"requests": len(found), **ms, "worst_ms": max(found) * 1000}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
