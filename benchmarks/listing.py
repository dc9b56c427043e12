"""A list of many resources, on one kept-alive connection: its first byte, and bytes a second.

Beside it is a constant route on the same server with the same settings, which sends the very bytes of that answer at
once, by turns: it reads nothing, joins nothing and checks no key. Run alone, `python -m benchmarks.listing FILE` serves
that route on a free port, which it prints.
"""

import statistics
import sys
import tempfile
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from benchmarks import corpus, delivery_pacing, floor_server
from benchmarks.asking import Answer, Connection
from benchmarks.daemons import daemon, until_read
from benchmarks.figures import Figure

ROUNDS = 30
FIRST_LIMIT_MS = 50.0
LEAST_MB, TARGET_MB = 100.0, 150.0
PATH = "/v1/resources/Destination"
CONSTANT = "/constant"


def measure(*, files: int) -> list[Figure]:
    """The medians."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        corpus.make(folder / "corpus.git", files=files)
        with daemon(folder, repository=folder / "corpus.git") as running:
            until_read(running, files=files)
            request = delivery_pacing.request("GET", PATH, key=running.key)
            with Connection(running.port) as ours:
                body = _asked(ours, request).body
                (folder / "body").write_bytes(body)
                with (
                    floor_server.running("benchmarks.listing", str(folder / "body")) as port,
                    Connection(port) as other,
                ):
                    constant = delivery_pacing.request("GET", CONSTANT, key="none")
                    pairs = [(_asked(ours, request), _asked(other, constant)) for _ in range(ROUNDS)]
    first = statistics.median(mine.first for mine, _ in pairs) * 1000
    rate = statistics.median(_rate(mine) for mine, _ in pairs)
    floor = statistics.median(_rate(theirs) for _, theirs in pairs)
    beside = f"at least {LEAST_MB:.0f} MB/s; target {TARGET_MB:.0f} MB/s"
    return [
        Figure(
            f"list of {files:,}, first byte",
            f"{first:.1f} ms",
            f"limit {FIRST_LIMIT_MS:.0f} ms",
            f"{first / FIRST_LIMIT_MS:.2f}",
        ),
        Figure(
            f"list of {files:,}, {len(body) / 1e6:.1f} MB",
            f"{rate:.0f} MB/s",
            f"{beside}; the same bytes from a constant route {floor:.0f} MB/s",
            f"{rate / LEAST_MB:.2f}",
            missed=rate < LEAST_MB,
        ),
    ]


def _asked(connection: Connection, request: bytes) -> Answer:
    answer = connection.ask(request)
    if answer.status != 200:
        raise RuntimeError(answer.head.decode())
    return answer


def _rate(answer: Answer) -> float:
    return len(answer.body) / answer.whole / 1e6


def _serve(body: bytes) -> None:
    async def constant(_request: Request) -> Response:
        return Response(body, media_type="application/json")

    floor_server.serve(Route(CONSTANT, constant))


if __name__ == "__main__":
    _serve(Path(sys.argv[1]).read_bytes())
