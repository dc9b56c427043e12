"""The pure parts: frames and headers as bytes, sets of numbers, acknowledgements."""

import os
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.delivery.contract import MOVED_BYTES
from reconciler.delivery.queue import appender, segments
from reconciler.delivery.queue.contract import FinalFailure, Reason
from reconciler.delivery.queue.segments import Acknowledgements, Frame, SegmentHeader, Totals

MARK = 77
SHORT = st.binary(max_size=60)


def framed(number: int, payload: bytes) -> bytes:
    frame = Frame(number, 1, len(payload), 5, segments.checksum([payload]))
    return segments.encode_frame(frame, mark=MARK) + payload


@given(st.lists(SHORT, min_size=1, max_size=6), st.data())
def test_a_scan_finds_every_frame_around_one_that_was_overwritten(payloads: list[bytes], data: st.DataObject) -> None:
    pieces = [framed(number, payload) for number, payload in enumerate(payloads, start=1)]
    place = data.draw(st.integers(0, len(pieces) - 1))
    begins = sum(map(len, pieces[:place]))
    offset = data.draw(st.integers(begins, begins + segments.FRAME_HEADER_BYTES - 1))
    region = bytearray(b"".join(pieces))
    region[offset] ^= data.draw(st.integers(1, 255))
    scanned = segments.scan(bytes(region), 0, mark=MARK)
    others = [number for number in range(1, len(pieces) + 1) if number != place + 1]
    assert [frame.number for frame in scanned.frames] == others
    is_last = place == len(pieces) - 1
    assert (scanned.gaps, scanned.end) == (0, begins) if is_last else (1, len(region))


@given(st.lists(SHORT, min_size=1, max_size=4), st.data())
def test_a_scan_of_a_torn_region_ends_with_its_last_whole_frame(payloads: list[bytes], data: st.DataObject) -> None:
    pieces = [framed(number, payload) for number, payload in enumerate(payloads, start=1)]
    whole = b"".join(pieces)
    length = data.draw(st.integers(0, len(whole)))
    zeros = data.draw(st.integers(0, 100))
    scanned = segments.scan(whole[:length], 0, mark=MARK)
    ends = [sum(map(len, pieces[: count + 1])) for count in range(len(pieces))]
    expected = [end for end in ends if end <= length]
    assert len(scanned.frames) == len(expected)
    assert (scanned.end, scanned.torn, scanned.gaps) == (max([0, *expected]), True, 0)
    assert segments.scan(whole + bytes(zeros), 0, mark=MARK)[1:] == (0, len(whole), True)


@given(st.binary(max_size=300))
def test_nothing_that_was_not_written_is_taken_for_a_frame(region: bytes) -> None:
    assert segments.scan(region, 0, mark=MARK).frames == []
    assert read(region).gone == Totals()


def test_a_frame_with_another_mark_is_none() -> None:
    assert segments.find_frame(framed(1, b"x"), 0, mark=MARK + 1) is None
    assert segments.find_frame(b"?" + framed(1, b"x"), 0, mark=MARK) == 1


@given(
    st.builds(
        SegmentHeader,
        kind=st.integers(1, 2),
        mark=st.integers(0, 2**32 - 1),
        first=st.integers(0, 2**64 - 1),
        before=st.builds(Totals, *[st.integers(0, 2**64 - 1)] * 3),
        made_at=st.integers(0, 2**64 - 1),
        flags=st.integers(0, 255),
    )
)
def test_a_header_comes_back_as_it_was(header: SegmentHeader) -> None:
    data = segments.encode_segment(header)
    assert (len(data), segments.decode_segment(data)) == (segments.SEGMENT_HEADER_BYTES, header)


def test_a_header_of_a_newer_version_is_told_from_a_damaged_one() -> None:
    data = segments.encode_segment(SegmentHeader(1, MARK, 1, Totals(), 0))
    with pytest.raises(segments.UnknownVersion):
        segments.decode_segment(data[:8] + b"\x02\x00" + data[10:])
    assert segments.decode_segment(data[:20] + b"\x02" + data[21:]) is None
    assert segments.decode_segment(data[:-1]) is None


def read(data: bytes, *, first: int = 1) -> Acknowledgements:
    found = Acknowledgements(first, mark=MARK)
    found.read(data)
    return found


def told(found: Acknowledgements) -> tuple[object, ...]:
    return [number for number in range(50) if number in found], found.gone, found.highest()


def record(kind: int, body: bytes) -> bytes:
    sealed = len(body).to_bytes(4, "little") + bytes([kind]) + body
    return zlib.crc32(sealed, MARK).to_bytes(4, "little") + sealed


def test_acknowledgements_come_back_as_they_were() -> None:
    written = Acknowledgements(2, mark=MARK)
    written.leave(3, 3, Totals(1, 10, 100))
    written.leave(6, 7, Totals(2, 20, 200))
    assert told(written) == ([3, 6, 7], Totals(3, 30, 300), 7)
    file = written.encode()
    for data in (file, file + b"torn"):
        again = read(data, first=2)
        assert (told(again), again.length) == (told(written), len(file))
    before = read(file, first=4)  # the file was emptied: what is below its first does not count
    assert told(before) == ([], Totals(), 3)
    other = Acknowledgements(2, mark=MARK + 1)
    other.read(file)
    assert other.gone == Totals()


def test_acknowledgements_of_earlier_versions_are_read() -> None:
    file = segments.ACKNOWLEDGEMENTS_MAGIC
    file += record(2, (5).to_bytes(8, "little") + (1).to_bytes(4, "little") + (2).to_bytes(8, "little"))
    for number in (3, 3, 4):
        file += record(4, number.to_bytes(8, "little") + bytes(8))
        file += record(1, number.to_bytes(8, "little") + (10).to_bytes(4, "little") + (100).to_bytes(4, "little"))
    assert told(read(file, first=2)) == ([3, 4], Totals(2, 20, 200), 4)


@given(st.binary(max_size=1024), st.integers(100, 599) | st.none(), st.booleans(), SHORT)
def test_a_final_failure_comes_back_as_it_was(answer: bytes, status: int | None, outage: bool, payload: bytes) -> None:
    final_failure = FinalFailure(Reason.NO_RETRY, 9, 2, "Why; ü.", status, answer, outage)
    data = b"".join(segments.encode_dead_letter(final_failure, [payload], taken_at=4))
    assert segments.decode_dead_letter(data) == (final_failure, 4, payload)
    assert segments.decode_dead_letter(data[:20]) is None


@given(st.lists(SHORT, max_size=5), st.data())
def test_what_is_left_of_buffers_is_what_was_not_written(buffers: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(buffers)
    written = data.draw(st.integers(0, len(whole)))
    assert b"".join(appender.rest(buffers, written)) == whole[written:]


def test_the_kernel_takes_as_many_pieces_as_a_commit_gives_it() -> None:
    assert os.sysconf("SC_IOV_MAX") >= appender.MOST_PIECES


@pytest.mark.parametrize(
    ("version", "size", "is_read"),
    [
        (segments.VERSION, segments.MOST_BYTES, True),
        (segments.VERSION, segments.MOST_BYTES + 1, False),
        (segments.VERSION + 1, 5, False),
    ],
)
def test_a_whole_header_of_a_newer_version_or_for_too_much_is_none(version: int, size: int, is_read: bool) -> None:
    sealed = bytearray(segments.encode_frame(Frame(1, 1, size, 5, 0), mark=MARK)[:-4])
    sealed[len(segments.FRAME_MAGIC)] = version
    whole = bytes(sealed) + zlib.crc32(sealed, MARK).to_bytes(4, "little")
    assert (segments.decode_frame(whole, 0, mark=MARK) is not None) == is_read


def test_a_segment_of_any_size_can_be_moved() -> None:
    assert MOVED_BYTES == segments.LONGEST_BYTES
