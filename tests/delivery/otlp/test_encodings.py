"""Bodies are decoded within a limit, whatever they claim of themselves."""

import asyncio
import gzip
import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import zstandard

from reconciler.delivery.otlp import encodings
from reconciler.delivery.otlp.models import MalformedRequest, RequestTooLarge

NOISE = random.Random(1).randbytes(70_000)  # noqa: S311 - what does not compress, no secret
TEXT = b"a line of a log; " * 40
MOST = 8 << 20  # bytes
FULL = bytes(MOST)
WIDE = zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def streamed(data: bytes, *, checksum: bool = True) -> bytes:
    """A frame whose header says no size, flushed in its middle, as exporters write them."""
    compressor = zstandard.ZstdCompressor(write_content_size=False, write_checksum=checksum).compressobj()
    return b"".join(
        (compressor.compress(data[:100]), compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK),
         compressor.compress(data[100:]), compressor.flush())
    )  # fmt: skip


def wide(data: bytes) -> bytes:
    """A frame that wants a window of 128 MiB."""
    compressor = zstandard.ZstdCompressor(compression_params=WIDE).compressobj()
    return compressor.compress(data) + compressor.flush()


def claiming(size: int) -> bytes:
    """A frame that claims to be so large, and is not."""
    descriptor = 0b1110_0000  # eight bytes of content size, no window of its own
    last_block = b"\x19\x00\x00abc"
    return zstandard.FRAME_HEADER + bytes((descriptor,)) + size.to_bytes(8, "little") + last_block


@dataclass(frozen=True)
class Row:
    what: str
    encoding: str
    body: bytes | Callable[[], bytes]  # what is large is made by the test, not for all who collect it
    comes_out: bytes | type[Exception]

    def __str__(self) -> str:
        return f"{self.encoding or 'none'}: {self.what}"

    def sent(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else self.body()


ROWS = [
    Row("text", "gzip", gzip.compress(TEXT), TEXT),
    Row("by its old name", "x-gzip", gzip.compress(TEXT), TEXT),
    Row("nothing, compressed", "gzip", gzip.compress(b""), b""),
    Row("no stream", "gzip", b"", MalformedRequest),
    Row("three members", "gzip", gzip.compress(b"a") + gzip.compress(b"") + gzip.compress(TEXT), b"a" + TEXT),
    Row("as many members as may be", "gzip", gzip.compress(b"a") * 64, b"a" * 64),
    Row("a member more", "gzip", gzip.compress(b"a") * 65, MalformedRequest),
    Row("400,000 members", "gzip", lambda: gzip.compress(b"") * 400_000, MalformedRequest),
    Row("as much as may be", "gzip", lambda: gzip.compress(FULL), FULL),
    Row("a byte more", "gzip", lambda: gzip.compress(FULL + b"x"), RequestTooLarge),
    Row("a byte more in another member", "gzip", lambda: gzip.compress(FULL) + gzip.compress(b"x"), RequestTooLarge),
    Row("a bomb", "gzip", lambda: gzip.compress(bytes(1 << 28), 9), RequestTooLarge),
    Row("cut off", "gzip", gzip.compress(TEXT)[:-1], MalformedRequest),
    Row("cut off in the second member", "gzip", gzip.compress(TEXT) + gzip.compress(TEXT)[:-9], MalformedRequest),
    Row("something behind it", "gzip", gzip.compress(TEXT) + b"garbage", MalformedRequest),
    Row("zeros behind it", "gzip", gzip.compress(TEXT) + bytes(8), MalformedRequest),
    Row("a checksum that is wrong", "gzip", gzip.compress(TEXT)[:-8] + bytes(8), MalformedRequest),
    Row("no gzip", "gzip", TEXT, MalformedRequest),
    Row("zlib without gzip's header", "gzip", zlib.compress(TEXT), MalformedRequest),
    Row("text", "zstd", zstd(TEXT), TEXT),
    Row("a frame that does not say how large it is", "zstd", streamed(TEXT), TEXT),
    Row("nothing, compressed", "zstd", zstd(b""), b""),
    Row("no stream", "zstd", b"", MalformedRequest),
    Row("two frames", "zstd", zstd(TEXT) + streamed(b"more"), TEXT + b"more"),
    Row("a frame to be skipped behind it", "zstd", zstd(TEXT) + b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc", TEXT),
    Row("as much as may be", "zstd", lambda: zstd(FULL), FULL),
    Row("a byte more", "zstd", lambda: zstd(FULL + b"x"), RequestTooLarge),
    Row("a byte more in another frame", "zstd", lambda: zstd(FULL) + zstd(b"x"), RequestTooLarge),
    Row("a bomb", "zstd", lambda: zstd(bytes(1 << 28)), RequestTooLarge),
    Row("a bomb of many frames", "zstd", lambda: zstd(bytes(1 << 20)) * 1_000, RequestTooLarge),
    Row("a frame that does not say that it is a bomb", "zstd", lambda: streamed(bytes(1 << 28)), RequestTooLarge),
    Row("a window of 128 MiB", "zstd", wide(TEXT), RequestTooLarge),
    Row("a window of 128 MiB in another frame", "zstd", zstd(TEXT) + wide(TEXT), MalformedRequest),
    Row("a frame that claims a terabyte", "zstd", claiming(1 << 40), RequestTooLarge),
    Row("a frame that claims what it has not", "zstd", claiming(1 << 20), MalformedRequest),
    Row("a frame that claims what it has", "zstd", claiming(3), b"abc"),
    Row("cut off", "zstd", zstd(TEXT)[:-1], MalformedRequest),
    Row("cut off before its checksum", "zstd", streamed(TEXT)[:-4], MalformedRequest),
    Row("cut off behind a block", "zstd", streamed(TEXT)[:-8], MalformedRequest),
    Row("a checksum that is wrong", "zstd", zstd(TEXT)[:-4] + bytes(4), MalformedRequest),
    Row("something behind it", "zstd", zstd(TEXT) + b"garbage", MalformedRequest),
    Row("no zstd", "zstd", TEXT, MalformedRequest),
]


@pytest.mark.anyio
@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_a_body_is_decoded_or_refused(row: Row) -> None:
    if isinstance(row.comes_out, bytes):
        assert await encodings.decode_body(row.sent(), row.encoding, most=MOST) == row.comes_out
    else:
        with pytest.raises(row.comes_out):
            await encodings.decode_body(row.sent(), row.encoding, most=MOST)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "text", [b"", b"a", TEXT, bytes(range(256))], ids=["none", "short", "repeated", "not repeated"]
)
async def test_no_part_of_a_stream_is_taken_for_all_of_it(text: bytes) -> None:
    frames = [zstd(text), streamed(text), streamed(text, checksum=False)]
    for encoding, whole in (("gzip", gzip.compress(text)), *(("zstd", frame) for frame in frames)):
        for size in range(len(whole)):
            with pytest.raises(MalformedRequest):
                await encodings.decode_body(whole[:size], encoding, most=MOST)


@pytest.mark.anyio
async def test_the_sender_is_told_what_to_do() -> None:
    with pytest.raises(RequestTooLarge, match=r"over 8 MiB when decoded; send fewer records at a time\."):
        await encodings.decode_body(gzip.compress(FULL + b"x"), "gzip", most=MOST)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("body", "at_once"),
    [
        (gzip.compress(bytes(200_000)), True),
        (gzip.compress(bytes(300_000)), False),
        (gzip.compress(NOISE), False),
        (zstd(bytes(200_000)), True),
        (zstd(bytes(300_000)), False),
    ],
)
async def test_what_takes_long_leaves_the_event_loop(body: bytes, *, at_once: bool) -> None:
    decoding = asyncio.ensure_future(encodings.decode_body(body, "gzip" if body[0] == 0x1F else "zstd", most=MOST))
    await asyncio.sleep(0)
    assert decoding.done() is at_once
    assert len(await decoding) >= 70_000
