"""Content-Encodings: request bodies decoded within a limit, and the readable beginning of an answer.

Requests come as gzip or zstd; answers of endpoints as gzip or deflate. The only module that imports zstandard.

These are refused: a stream that ends early, bytes after its end, more than `MOST_MEMBERS` gzip members (each costs a
call and a copy), and a larger zstd window than RFC 9659 allows over HTTP.
"""

import asyncio
import zlib
from collections.abc import Callable
from typing import Final, TypeAlias

import zstandard

from reconciler.delivery.otlp.models import MalformedRequest, RequestTooLarge

MOST_MEMBERS: Final = 64
MOST_WINDOW: Final = 8 << 20  # bytes; RFC 9659 section 3
INLINE: Final = 64 << 10  # bytes of input that are decoded on the event loop ...
INLINE_DECODED: Final = 256 << 10  # ... while they come to no more than this: about a millisecond

_GZIP: Final = 16 + zlib.MAX_WBITS  # with the header and the trailer of gzip, whose checksum zlib compares
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS  # as the header says
_GZIP_MAGIC: Final = b"\x1f\x8b\x08"
_INFLATED: Final = frozenset({"gzip", "x-gzip", "deflate"})
_CHUNK: Final = 64 << 10
_SMALL_CHUNK: Final = 1 << 10  # of a damaged body, whose last chunk is lost
# This frame is appended to a zstd stream, twice. It has the text once, not eight times, and a checksum. A frame that
# was cut off may take its bytes for the missing rest; but then the decoded text differs, or the following bytes do not
# begin a frame.
_END: Final = b"end of the request;" * 8
_END_FRAMES: Final = zstandard.ZstdCompressor(write_checksum=True).compress(_END) * 2
_ENDS: Final = _END * 2

_Decode: TypeAlias = Callable[[bytes, int], bytes]


async def decode_body(body: bytes, encoding: str, *, most: int) -> bytes:
    """Return the body without its encoding, one of `DECODERS`, at most `most` bytes.

    Long ones are decoded on a thread, in calls that release the interpreter. Raises MalformedRequest, RequestTooLarge.
    """
    decode = DECODERS[encoding]
    if len(body) <= INLINE:
        try:
            return decode(body, min(INLINE_DECODED, most))
        except RequestTooLarge:
            pass  # too large for the event loop; the thread finds out if it is too large at all
    return await asyncio.to_thread(decode, body, most)


def beginning(body: bytes, encodings: str, *, most: int) -> bytes | None:
    """Return the decoded beginning of a body that may be cut off, at most `most` bytes; None for an unknown encoding.
    The encoding is the header's value, "" for none. Never raises, because the body is an answer from a stranger.
    """
    named = [name for each in encodings.lower().split(",") if (name := each.strip()) not in ("", "identity")]
    if not named and not body.startswith(_GZIP_MAGIC):
        return body[:most]
    if len(named) > 1 or not _INFLATED.issuperset(named):
        return None
    stream = zlib.decompressobj(_GZIP_OR_ZLIB)
    data = b""
    for at in range(0, len(body), _SMALL_CHUNK):
        try:
            data += stream.decompress(body[at : at + _SMALL_CHUNK], most - len(data))
        except zlib.error:
            break
        if stream.eof or len(data) >= most:
            break
    return data


def _gunzip(body: bytes, most: int) -> bytes:
    pieces: list[bytes] = []
    size, at = 0, 0
    for _ in range(MOST_MEMBERS):
        stream = zlib.decompressobj(_GZIP)
        while not stream.eof:
            chunk = body[at : at + _CHUNK]  # small, because the bytes after a member's end are copied
            if not chunk:
                raise MalformedRequest("The request ends in the middle of its gzip stream; send it whole.")
            try:
                piece = stream.decompress(chunk, most - size + 1)
            except zlib.error:
                raise MalformedRequest("The body of the request is not gzip, as its Content-Encoding says.") from None
            pieces.append(piece)
            size += len(piece)
            if size > most:
                raise _too_large(most)
            at += len(chunk) - len(stream.unused_data)
        if at == len(body):
            return b"".join(pieces)
    raise MalformedRequest(f"The request has more than {MOST_MEMBERS} gzip members; compress it as one.")


def _unzstd(body: bytes, most: int) -> bytes:
    """Decode zstd. The library raises nothing for a stream that ends early. So frames of ours are appended: an
    incomplete stream takes its missing bytes from them, and then they do not decode to their own text.
    """
    try:
        if zstandard.get_frame_parameters(body).window_size > MOST_WINDOW:
            raise RequestTooLarge("The zstd window of the request is over 8 MiB; compress it with a smaller one.")
        decompressor = zstandard.ZstdDecompressor(max_window_size=MOST_WINDOW)
        with decompressor.stream_reader(body + _END_FRAMES, read_across_frames=True) as stream:
            data = stream.read(most + len(_ENDS) + 1)
    except zstandard.ZstdError:
        raise MalformedRequest(
            "The body of the request is not zstd, as its Content-Encoding says, or not whole."
        ) from None
    if len(data) > most + len(_ENDS):
        raise _too_large(most)
    if not data.endswith(_ENDS):
        raise MalformedRequest("The request ends in the middle of its zstd stream; send it whole.")
    return data[: -len(_ENDS)]


def _too_large(most: int) -> RequestTooLarge:
    limit = f"{most >> 20} MiB" if most >= 1 << 20 and not most % (1 << 20) else f"{most} bytes"
    return RequestTooLarge(f"The request is over {limit} when decoded; send fewer records at a time.")


DECODERS: Final[dict[str, _Decode]] = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,  # the same, by RFC 9110 section 8.4.1.3
    "zstd": _unzstd,
}
