"""Answers of endpoints are shown and kept decoded, and without the secrets that were sent."""

import base64
import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from reconciler.delivery.http_sender import ENCODED
from reconciler.delivery.retry import ANSWER_BYTES
from reconciler.model.routes import Retry
from tests import canaries
from tests.delivery.exporter.queues import ListQueue
from tests.delivery.exporter.worlds import destination, exporting, put, sent, sources
from tests.delivery.queue import places
from tests.servers import sinks
from tests.servers.sinks import Received, Reply, Sink

pytestmark = pytest.mark.anyio

TOKEN = "canary-0123456789abcdef"
HEADERS = (("Authorization", "Bearer ${file:token}"), ("X-Key", "canary-in-clear"), ("X-Pair", "${env:PAIR}"))


def echo(status: int, encode: Callable[[bytes], bytes]) -> Callable[[Received], Reply]:
    """An endpoint that repeats the headers of each request."""

    def answer(request: Received) -> Reply:
        return sinks.says(status, body=encode(json.dumps(request.headers).encode()))

    return answer


@pytest.mark.parametrize(
    "encode",
    [
        bytes,
        base64.b64encode,
        gzip.compress,
        lambda said: said * 400,
        lambda said: b"x" * (ANSWER_BYTES - said.index(TOKEN.encode()) - 10) + said,
        lambda said: said[: said.index(TOKEN.encode()) + 12],
    ],
    ids=["plain", "base64", "gzip", "long", "over the cut", "cut off by the endpoint"],
)
async def test_an_endpoint_that_repeats_the_request_shows_no_secret(
    sink: Sink, tmp_path: Path, encode: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "secrets" / "acme").mkdir(parents=True)
    (tmp_path / "secrets" / "acme" / "token").write_text(TOKEN)
    secrets = sources(tmp_path / "secrets", PAIR="Basic " + base64.b64encode(b"user:canary-password").decode())
    wanted = destination(sink.port, headers=HEADERS, retry=Retry(enabled=False))
    sink.choose(echo(422, encode))
    async with places.opened(tmp_path / "queues") as queue, exporting(wanted, queue, secrets=secrets) as exporter:
        await put(queue, ["a"])
        await sent(exporter)
        failure = exporter.shown().last_failure
        [letter] = await places.letters(queue)
        refused = await exporter.test()
        sink.choose(echo(200, encode))
        taken = await exporter.test()
    assert TOKEN in str(sink.received[0].header("Authorization"))
    assert failure is not None
    assert letter.final_failure is not None
    answers = [failure.answer, letter.final_failure.answer, refused.answer, taken.answer]
    for said in answers:
        assert (canaries.leaks(said), len(said) <= ANSWER_BYTES) == ([], True)
        assert b"(sensitive)" in said or b"x" * 900 in said
    for file in (tmp_path / "queues").rglob("*"):
        assert not file.is_file() or canaries.leaks(file.read_bytes()) == [], file


@pytest.mark.parametrize(
    ("encoding", "body", "shown"),
    [
        ("gzip", gzip.compress(b"no such index"), b"no such index"),
        ("X-GZIP", gzip.compress(b"no such index"), b"no such index"),
        ("", gzip.compress(b"no such index"), b"no such index"),
        ("deflate", zlib.compress(b"no such index"), b"no such index"),
        ("zstd", zstandard.compress(b"no such index"), ENCODED),
        ("identity", b"no such index", b"no such index"),
        ("gzip", gzip.compress(b"x" * (8 << 20)), b"x" * ANSWER_BYTES),
        ("gzip", gzip.compress(b"no such index")[:-9], b"no such index"),
        ("gzip", b"it is none", b""),
        ("br", b"\x0b\x06\x80no such index\x03", ENCODED),
        ("canary-encoding", b"what", ENCODED),
        ("gzip, gzip", b"what", ENCODED),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_an_answer_is_decoded_before_it_is_shown(sink: Sink, encoding: str, body: bytes, shown: bytes) -> None:
    headers = (("Content-Encoding", encoding),) if encoding else ()
    sink.script(sinks.says(400, headers=headers, body=body))
    async with exporting(destination(sink.port), ListQueue(), start=False) as exporter:
        assert (await exporter.test()).answer == shown
