"""What a remote says in headers, read off git's trace."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.git.remotes.https import LINE_BYTES, HttpAnswers
from reconciler.model.text import visible

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
URL = "https://git.example:8443/team/telemetry.git"


def trace(*headers: str, arrow: str = "<= Recv header: ") -> bytes:
    """Lines as `GIT_TRACE_CURL` has them."""
    return "".join(f"12:00:00.000000 http.c:684              {arrow}{header}\r\n" for header in headers).encode()


def answers(*headers: str) -> HttpAnswers:
    found = HttpAnswers()
    found.feed(trace(*headers))
    return found


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        ("0", 0.0),
        ("3601", 3600.0),
        ("9" * 400, 3600.0),
        ("Sat, 21 Nov 2026 12:02:00 GMT", 120.0),
        ("Sat, 21 Nov 2026 13:02:00 +0100", 120.0),
        ("Sat, 21 Nov 2026 11:00:00 GMT", 0.0),
        ("Sun, 21 Nov 2027 12:00:00 GMT", 3600.0),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
    ],
)
@pytest.mark.parametrize("status", ["HTTP/1.1 429 Too Many Requests", "HTTP/2 503"])
def test_waits_as_long_as_a_refusal_asks_and_an_hour_at_most(status: str, value: str, seconds: float | None) -> None:
    assert answers(status, f"Retry-After: {value}").retry_after(NOW) == seconds
    assert answers(status, f"retry-after:{value}").retry_after(NOW) == seconds


def test_waits_for_no_other_answer() -> None:
    assert answers("HTTP/1.1 200 OK", "Retry-After: 9").retry_after(NOW) is None
    assert answers("HTTP/1.1 429 No", "Retry-After-All: 9").retry_after(NOW) is None
    asked = HttpAnswers()
    asked.feed(trace("HTTP/1.1 429 No", "Retry-After: 9", arrow="=> Send header: "))
    assert asked.retry_after(NOW) is None


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        (
            "https://joe:canary-password@new.example/a/b.git/info/refs?service=git-upload-pack&token=canary-token",
            "https://new.example/a/b.git",
        ),
        ("http://new.example:81/sign-in#top", "http://new.example:81/sign-in"),
        ("/moved.git/info/refs", "https://git.example:8443/moved.git"),
        ("//other.example/x", "https://other.example/x"),
        ("https://[2001:db8::1]:444/x", "https://[2001:db8::1]:444/x"),
        ("https://new.example/\x1b[31m", "https://new.example/\\x1b[31m"),
        ("https://new.example:port/x", "an address that is none"),
        ("https://new.example/" + "x" * 999, "https://new.example/" + "x" * 180),
    ],
)
def test_says_where_a_redirect_leads_and_no_secret_of_it(location: str, shown: str) -> None:
    assert answers("HTTP/1.1 302 Found", f"Location: {location}").redirect(URL) == shown
    assert answers("HTTP/1.1 201 Created", f"Location: {location}").redirect(URL) is None


def exchange(request: str, *headers: str) -> bytes:
    return trace(request, "Host: a", "", arrow="=> Send header: ") + trace(*headers, "")


def judged(*exchanges: bytes) -> tuple[bool, bool]:
    """Whether it is foreign, and whether it has strayed."""
    found = HttpAnswers()
    for one in exchanges:
        found.feed(one)
    return found.is_foreign, found.has_strayed


REFS = "GET /team/telemetry.git/info/refs?service=git-upload-pack HTTP/1.1"
SMART = "Content-Type: application/x-git-upload-pack-advertisement"
OK = "HTTP/1.1 200 OK"
CONNECT = exchange("CONNECT git.example:443 HTTP/1.1", "HTTP/1.1 200 Connection established")


@pytest.mark.parametrize(
    "exchanges",
    [
        [exchange(REFS, OK, SMART)],
        [exchange(REFS, OK, "content-type:\tApplication/X-Git-Upload-Pack-Advertisement ; charset=utf-8")],
        [exchange(REFS.replace(" /", " http://git.example/"), OK, SMART)],
        [CONNECT, exchange(REFS, OK, SMART)],
        [exchange(REFS, "HTTP/1.1 401 Who", "Content-Type: text/html"), exchange(REFS, OK, SMART)],
        [
            exchange(REFS, OK, SMART),
            exchange("POST /team/telemetry.git/git-upload-pack HTTP/1.1", OK, "Content-Type: text/plain"),
        ],
    ],
)
def test_takes_the_smart_protocol_for_what_it_is(exchanges: list[bytes]) -> None:
    assert judged(*exchanges) == (False, False)


@pytest.mark.parametrize(
    "exchanges",
    [
        [exchange(REFS, OK, "Content-Type: text/html")],
        [exchange(REFS, OK)],
        [exchange(REFS, OK, SMART, "Content-Type: text/plain")],
        [exchange(REFS, OK, "X: y", f"X: {SMART}", "Content-Type: text/plain")],
        [exchange(REFS, OK, SMART + "s")],
        [exchange(REFS, OK, SMART), exchange(REFS, OK, "Content-Type: text/plain")],
        [exchange(REFS, OK, SMART.replace("advertisement", "result"))],
        [exchange(REFS, OK, SMART), exchange("GET /team/telemetry.git/HEAD HTTP/1.1", OK, SMART)],
        [exchange(REFS, OK, "Content-Type: \x1capplication/x-git-upload-pack-advertisement")],
        [
            trace(REFS, arrow="=> Send header: "),
            trace(OK),
            trace(f"<= Recv header: {SMART}", arrow="== Info: "),  # a certificate may say anything
            trace(""),
        ],
    ],
)
def test_knows_what_strays_from_the_smart_protocol(exchanges: list[bytes]) -> None:
    assert judged(*exchanges) == (True, True)


def test_takes_silence_for_nothing_and_a_refusal_for_no_repository() -> None:
    assert judged() == (False, False)
    assert judged(exchange(REFS, "HTTP/1.1 404 Not Found", "Content-Type: text/html")) == (True, False)


def test_passes_over_a_line_without_end_and_keeps_none_of_it() -> None:
    found = HttpAnswers()
    for _ in range(100):
        found.feed(b"x" * LINE_BYTES)
        assert len(vars(found)["_rest"]) <= LINE_BYTES
    found.feed(b"\n" + trace("HTTP/1.1 429 No", "Retry-After: 7"))
    assert found.retry_after(NOW) == 7.0


@given(value=st.text(max_size=60), cuts=st.lists(st.integers(0, 200), max_size=6))
def test_bears_whatever_a_remote_says_in_whatever_pieces(value: str, cuts: list[int]) -> None:
    text = trace("HTTP/1.1 429 No", f"Retry-After: {value}", "HTTP/1.1 302 Found", f"Location: {value}")
    whole, pieces = HttpAnswers(), HttpAnswers()
    whole.feed(text)
    edges = [0, *sorted(cuts), len(text)]
    for start, end in pairwise(edges):
        pieces.feed(text[start:end])
    seconds, shown = whole.retry_after(NOW), whole.redirect(URL)
    assert (pieces.retry_after(NOW), pieces.redirect(URL)) == (seconds, shown)
    assert seconds is None or 0 <= seconds <= 3600
    assert shown is None or (visible(shown) == shown and len(shown) < 2500)
