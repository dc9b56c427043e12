"""Stopping a fetch early."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from reconciler.git.remotes.program import NO_SMART_PROTOCOL, TOO_MANY_OBJECTS, FetchWatch

PROGRESS = (
    b"remote: Counting objects: 100% (9999/9999), done.\nremote: Receiving objects: 1% (1/9999)\n"
    b"Receiving objects:   0% (1/4000)\rReceiving objects:   1% (40/4000)\r"
)


def test_stops_a_fetch_as_soon_as_git_says_how_much_comes() -> None:
    assert FetchWatch(1000)(PROGRESS) == TOO_MANY_OBJECTS
    assert FetchWatch(4000)(PROGRESS) is None


def test_believes_git_and_not_the_remote() -> None:
    watch = FetchWatch(1000)
    assert watch(b"remote: Receiving objects: 1% (1/9999)\rremote: \x1b[K Receiving objects: 1% (1/9999)\n") is None
    assert watch(b"Receiving objects: 1% (1/9999)\n") is not None


def test_counts_from_the_first_byte_on() -> None:
    assert FetchWatch(1)(b"Indexing objects: 50% (1/2)\r") == TOO_MANY_OBJECTS


@given(cuts=st.lists(st.integers(0, len(PROGRESS)), max_size=8))
def test_finds_the_same_in_whatever_pieces_it_comes(cuts: list[int]) -> None:
    watch = FetchWatch(1000)
    edges = [0, *sorted(cuts), len(PROGRESS)]
    found = [watch(PROGRESS[start:end]) for start, end in pairwise(edges)]
    assert {one for one in found if one is not None} == {TOO_MANY_OBJECTS}


REFS = b"12:00:00.0 http.c:701  => Send header: GET /a.git/info/refs?service=git-upload-pack HTTP/1.1\n"
OBJECT = b"12:00:00.0 http.c:701  => Send header: GET /a.git/objects/info/packs HTTP/1.1\n"


def test_stops_a_fetch_that_goes_on_without_the_smart_protocol() -> None:
    assert FetchWatch(1, is_traced=True)(REFS) is None
    assert FetchWatch(1, is_traced=True)(OBJECT) == NO_SMART_PROTOCOL
    assert FetchWatch(1)(OBJECT) is None
    for cut in range(len(OBJECT)):
        watch = FetchWatch(1, is_traced=True)
        assert [watch(REFS), watch(OBJECT[:cut]), watch(OBJECT[cut:])] == [None, None, NO_SMART_PROTOCOL]
