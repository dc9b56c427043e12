"""A request without its offer of another protocol: what is left of the head."""

import pytest

from api.responses import Header
from reconciler.server import connections

LINE = b"GET / HTTP/1.1"


@pytest.mark.parametrize(
    ("headers", "left"),
    [
        ([], b""),
        ([(b"host", b"x"), (b"upgrade", b"h2c"), (b"connection", b"Upgrade")], b"host: x\r\n"),
        ([(b"connection", b"Upgrade, HTTP2-Settings"), (b"http2-settings", b"AA"), (b"upgrade", b"h2c")], b""),
        ([(b"connection", b"close ,UPGRADE"), (b"upgrade", b"x, y")], b"connection: close\r\n"),
        (
            [(b"connection", b"keep-alive"), (b"connection", b"upgrade"), (b"a", b"b")],
            b"connection: keep-alive\r\na: b\r\n",
        ),
    ],
)
def test_an_offer_goes_and_nothing_else(headers: list[Header], left: bytes) -> None:
    assert connections.head_without_offer(LINE, headers) == LINE + b"\r\n" + left + b"\r\n"
