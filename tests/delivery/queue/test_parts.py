"""The pure parts: frames and headers as bytes, sets of numbers, acknowledgements."""

import os
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.delivery.queue import acknowledgements, committer, frames
from reconciler.delivery.queue.contract import Obituary, Reason
from reconciler.delivery.queue.frames import Frame, NumberSet, Progress, SegmentHeader, SegmentTotals

MARK = 77
SHORT = st.binary(max_size=60)


def framed(number: int, payload: bytes) -> bytes:
    frame = Frame(number, 1, len(payload), 5, frames.checksum([payload]))
    return frames.header(frame, mark=MARK) + payload


@given(st.lists(SHORT, min_size=1, max_size=6), st.data())
def test_a_scan_finds_every_frame_around_one_that_was_overwritten(payloads: list[bytes], data: st.DataObject) -> None:
    pieces = [framed(number, payload) for number, payload in enumerate(payloads, start=1)]
    place = data.draw(st.integers(0, len(pieces) - 1))
    begins = sum(map(len, pieces[:place]))
    offset = data.draw(st.integers(begins, begins + frames.HEADER_BYTES - 1))
    region = bytearray(b"".join(pieces))
    region[offset] ^= data.draw(st.integers(1, 255))
    scanned = frames.scan(bytes(region), 0, mark=MARK)
    others = [number for number in range(1, len(pieces) + 1) if number != place + 1]
    assert [found.frame.number for found in scanned.frames] == others
    is_last = place == len(pieces) - 1
    assert (scanned.gaps, scanned.end) == (0, begins) if is_last else (1, len(region))


@given(st.lists(SHORT, min_size=1, max_size=4), st.data())
def test_a_scan_of_a_torn_region_ends_with_its_last_whole_frame(payloads: list[bytes], data: st.DataObject) -> None:
    pieces = [framed(number, payload) for number, payload in enumerate(payloads, start=1)]
    whole = b"".join(pieces)
    length = data.draw(st.integers(0, len(whole)))
    zeros = data.draw(st.integers(0, 100))
    scanned = frames.scan(whole[:length], 0, mark=MARK)
    ends = [sum(map(len, pieces[: count + 1])) for count in range(len(pieces))]
    expected = [end for end in ends if end <= length]
    assert len(scanned.frames) == len(expected)
    assert (scanned.end, scanned.torn, scanned.gaps) == (max([0, *expected]), True, 0)
    assert frames.scan(whole + bytes(zeros), 0, mark=MARK)[1:] == (0, len(whole), True)


@given(st.binary(max_size=300))
def test_nothing_that_was_not_written_is_taken_for_a_frame(region: bytes) -> None:
    assert frames.scan(region, 0, mark=MARK).frames == []
    assert acknowledgements.read_acknowledgements(region, first=1, mark=MARK).totals == SegmentTotals()


def test_a_frame_with_another_mark_is_none() -> None:
    assert frames.find(framed(1, b"x"), 0, mark=MARK + 1) is None
    assert frames.find(b"?" + framed(1, b"x"), 0, mark=MARK) == 1


@given(
    st.builds(
        SegmentHeader,
        kind=st.integers(1, 2),
        mark=st.integers(0, 2**32 - 1),
        first=st.integers(0, 2**64 - 1),
        before=st.builds(SegmentTotals, *[st.integers(0, 2**64 - 1)] * 3),
        made_at=st.integers(0, 2**64 - 1),
        flags=st.integers(0, 255),
    )
)
def test_a_header_comes_back_as_it_was(header: SegmentHeader) -> None:
    data = frames.encode_segment(header)
    assert (len(data), frames.decode_segment(data)) == (frames.SEGMENT_HEADER_BYTES, header)


def test_a_header_of_a_newer_version_is_told_from_a_damaged_one() -> None:
    data = frames.encode_segment(SegmentHeader(1, MARK, 1, SegmentTotals(), 0))
    with pytest.raises(frames.UnknownVersion):
        frames.decode_segment(data[:8] + b"\x02\x00" + data[10:])
    assert frames.decode_segment(data[:20] + b"\x02" + data[21:]) is None
    assert frames.decode_segment(data[:-1]) is None


@given(st.integers(0, 100), st.frozensets(st.integers(100, 300)), st.integers(0, 300), st.binary(max_size=20))
def test_numbers_are_a_set(first: int, added: frozenset[int], begins: int, bits: bytes) -> None:
    numbers = NumberSet(first)
    for number in added:
        numbers.add(number)
    numbers.add_bits(begins, bits)
    more = {begins + place for place in frames.unpack_numbers(bits) if begins + place >= first}
    assert {number for number in range(700) if number in numbers} == added | more
    assert (len(numbers), numbers.highest()) == (len(added | more), max(added | more, default=None))
    with pytest.raises(ValueError, match="below the first"):
        numbers.add(first - 1)


@given(st.frozensets(st.integers(0, 500)))
def test_places_come_back_as_they_were(places: frozenset[int]) -> None:
    assert frames.unpack_numbers(frames.pack_numbers(places)) == places


def test_acknowledgements_add_up_once_each() -> None:
    parts = [
        acknowledgements.MAGIC,
        acknowledgements.progressed(4, Progress(1, 2, b""), mark=MARK),
        acknowledgements.done(3, SegmentTotals(1, 10, 100), mark=MARK),
        acknowledgements.done(3, SegmentTotals(1, 10, 100), mark=MARK),
        acknowledgements.done(1, SegmentTotals(1, 7, 7), mark=MARK),  # below the first
        acknowledgements.progressed(4, Progress(5, 6, b"\x01"), mark=MARK),
        acknowledgements.progressed(3, Progress(1, 1, b""), mark=MARK),  # has left
        acknowledgements.several(6, b"\x03", SegmentTotals(2, 20, 200), mark=MARK),
    ]
    found = acknowledgements.read_acknowledgements(b"".join(parts) + b"torn", first=2, mark=MARK)
    assert (found.totals, found.progress) == (SegmentTotals(3, 30, 300), {4: Progress(5, 6, b"\x01")})
    assert [number for number in range(10) if number in found.done] == [3, 6, 7]
    assert found.end == sum(map(len, parts))
    assert acknowledgements.read_acknowledgements(b"".join(parts), first=2, mark=MARK + 1).totals == SegmentTotals()


@given(st.binary(max_size=1024), st.integers(100, 599) | st.none(), st.booleans(), SHORT)
def test_an_obituary_comes_back_as_it_was(answer: bytes, status: int | None, outage: bool, payload: bytes) -> None:
    obituary = Obituary(Reason.NO_RETRY, 9, 2, "Why; ü.", status, answer, outage)
    data = b"".join(frames.encode_dead_letter(obituary, [payload], taken_at=4))
    assert frames.decode_dead_letter(data) == (obituary, 4, payload)
    assert frames.decode_dead_letter(data[:20]) is None


@given(st.lists(SHORT, max_size=5), st.data())
def test_what_is_left_of_buffers_is_what_was_not_written(buffers: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(buffers)
    written = data.draw(st.integers(0, len(whole)))
    assert b"".join(committer.rest(buffers, written)) == whole[written:]


def test_the_kernel_takes_as_many_pieces_as_a_commit_gives_it() -> None:
    assert os.sysconf("SC_IOV_MAX") >= committer.MOST_PIECES


@pytest.mark.parametrize(
    ("version", "size", "is_read"),
    [
        (frames.VERSION, frames.MOST_BYTES, True),
        (frames.VERSION, frames.MOST_BYTES + 1, False),
        (frames.VERSION + 1, 5, False),
    ],
)
def test_a_whole_header_of_a_newer_version_or_for_too_much_is_none(version: int, size: int, is_read: bool) -> None:
    sealed = bytearray(frames.header(Frame(1, 1, size, 5, 0), mark=MARK)[:-4])
    sealed[len(frames.MAGIC)] = version
    whole = bytes(sealed) + zlib.crc32(sealed, MARK).to_bytes(4, "little")
    assert (frames.decode(whole, 0, mark=MARK) is not None) == is_read


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_a_file_of_acknowledgements_is_never_longer_than_is_read(batches: int, records: int) -> None:
    """At its longest when it was not quite to be written anew, and then of each batch all is written at once."""
    held = SegmentTotals(batches, records * batches, 0)
    before = acknowledgements.rewrite_at(2 * batches, batches // 8 + 1) - 1
    places = frozenset(range(records))
    tried = acknowledgements.progressed(1, Progress(1, 1, frames.pack_numbers(places)), mark=MARK)
    left = acknowledgements.done(1, SegmentTotals(1, records, 1), mark=MARK)
    dead = acknowledgements.replayed(1, 1, mark=MARK)
    assert before + (len(tried) + len(left) + len(dead)) * batches <= acknowledgements.longest(held)
