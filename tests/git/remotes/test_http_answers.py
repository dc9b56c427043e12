"""Headers of a remote, read from git's trace."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.git.remotes.https import HttpAnswers, split_trace
from reconciler.model.text import visible

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
URL = "https://git.example:8443/team/telemetry.git"


def trace(*headers: str, arrow: str = "<= Recv header: ") -> bytes:
    """Lines as `GIT_TRACE_CURL` has them."""
    before = "12:00:00.000000 http.c:684              "
    return "".join(
        f"{before}{arrow.rstrip(': ')}, 0000000017 bytes\n{before}{arrow}{header}".rstrip(" ") + "\n"
        for header in headers
    ).encode()


def answers(*headers: str) -> HttpAnswers:
    return split_trace(trace(*headers))[1]


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
    asked = trace("HTTP/1.1 429 No", "Retry-After: 9", arrow="=> Send header: ")
    assert split_trace(asked)[1].retry_after(NOW) is None


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


def is_foreign(*exchanges: bytes) -> bool:
    return split_trace(b"".join(exchanges))[1].is_foreign


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
    assert not is_foreign(*exchanges)


@pytest.mark.parametrize(
    "exchanges",
    [
        [exchange(REFS, OK, "Content-Type: text/html")],
        [exchange(REFS, OK)],
        [exchange(REFS, OK, "X: y", f"X: {SMART}", "Content-Type: text/plain")],
        [exchange(REFS, OK, SMART + "s")],
        [exchange(REFS, OK, "Content-Type: \x1capplication/x-git-upload-pack-advertisement")],
        [
            trace(REFS, arrow="=> Send header: "),
            trace(OK),
            trace(f"<= Recv header: {SMART}", arrow="== Info: "),  # a certificate may say anything
            trace(""),
        ],
    ],
)
def test_knows_what_is_not_the_smart_protocol(exchanges: list[bytes]) -> None:
    assert is_foreign(*exchanges)


def test_takes_silence_for_nothing() -> None:
    assert not is_foreign()


def test_leaves_what_git_says_besides() -> None:
    said = b"remote: 12:00:00.0 http.c:1 <= Recv header: x\nReceiving objects: 50% (1/2)\r", b"fatal: no\n"
    between = trace("HTTP/1.1 200 OK", "") + trace("Connection #0 left", arrow="== Info: ")
    left, found = split_trace(between.join(said) + trace("HTTP/1.1 429 No", "Retry-After: 7"))
    assert (left, found.retry_after(NOW)) == (b"".join(said), 7.0)


@given(value=st.text(max_size=60))
def test_bears_whatever_a_remote_says(value: str) -> None:
    found = answers("HTTP/1.1 429 No", f"Retry-After: {value}", "HTTP/1.1 302 Found", f"Location: {value}")
    seconds, shown = found.retry_after(NOW), found.redirect(URL)
    assert seconds is None or 0 <= seconds <= 3600
    assert shown is None or (visible(shown) == shown and len(shown) < 2500)
