"""Secrets of tests: recognisable wherever they come out.

Every secret in a test begins with `MARKER`, so that one search finds any of them: in what a test prints
(`tests/conftest.py` looks), in what a daemon or a command wrote, in answers and in files.
"""

import base64
import json
from collections.abc import Iterator
from urllib.parse import quote

MARKER = "canary-"


def forms(secret: str) -> Iterator[bytes]:
    """A secret as an encoder might write it: plain, in JSON, in a URL, in hexadecimal, in base64 and UTF-16.

    In base64 it looks different at each of three offsets; of each, the characters that it alone makes are given.
    """
    plain = secret.encode()
    yield from dict.fromkeys((plain, json.dumps(secret)[1:-1].encode(), quote(secret, safe="").encode()))
    yield from (plain.hex().encode(), plain.hex().upper().encode(), secret.encode("utf-16-le"))
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + plain)
        own = encoded[(offset * 8 + 5) // 6 : (offset + len(plain)) * 8 // 6]
        yield from dict.fromkeys((own, own.translate(bytes.maketrans(b"+/", b"-_"))))


def leaks(data: bytes) -> list[str]:
    """Return what of any secret of tests is in the data, in any of these forms, with what stands around it."""
    return [
        data[max(0, at - 60) : at + 60].decode("utf-8", "backslashreplace")
        for form in forms(MARKER)
        if (at := data.find(form)) >= 0
    ]
