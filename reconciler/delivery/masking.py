"""Masking secrets in what an endpoint answered, which may repeat what was sent to it. Pure.

An endpoint that repeats the headers of a request does so in plain text, in JSON, in HTML, in a URL, in hexadecimal or
in base64, and it may repeat a part alone, such as the token after `Bearer`. Letters count in any case.
"""

import base64
import binascii
import html
import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate
from urllib.parse import quote, quote_plus

MASK_BYTES = b"(sensitive)"
SHORTEST = 4  # bytes of a secret that is found within a word; a shorter one is masked where it is a word of its own
SHORTEST_PART = 8  # characters of a part of a value that counts by itself
MOST_PARTS = 32  # of one value

_BETWEEN = re.compile(r"[\s,;=:&\"']+")
_SCHEMES = frozenset({"negotiate", "signature"})  # words of eight characters and more that tell nobody anything
_LINE = re.compile(rb"[^\r\n]+")


class SecretMasks:
    """Masks some secrets. Their forms are made when something is masked first."""

    def __init__(self, secrets: Iterable[str]) -> None:
        """`secrets` are whole values, such as those of headers; their parts count, too."""
        self._secrets = tuple(secrets)

    def __repr__(self) -> str:
        """Without them."""
        return f"Masks({len(self._secrets)})"

    def work(self, size: int) -> int:
        """About how many bytes are compared to mask so many."""
        return size * len(self._forms)

    def mask(self, data: bytes) -> bytes:
        """The same text without the secrets. What it ends with may be the beginning of one that was cut off: that is
        masked like a whole one.
        """
        if not data or not self._secrets:
            return data
        shown: list[bytes] = []
        end = 0
        for start, stop in sorted(self._found(data)):
            if start > end or (start == end == 0):
                shown += (data[end:start], MASK_BYTES)
            end = max(end, stop)
        shown.append(data[end:])
        return b"".join(shown)

    def _found(self, data: bytes) -> Iterator[tuple[int, int]]:
        lowered = data.lower()
        yield from self._in_line(lowered)
        for word in self._words:
            yield from (found.span() for found in word.finditer(lowered))
        lines = [*_LINE.finditer(lowered)]
        if len(lines) > 1:  # base64 is often cut into lines
            starts = [0, *accumulate(len(line.group()) for line in lines)]
            for start, stop in self._in_line(b"".join(line.group() for line in lines)):
                first, last = bisect_right(starts, start) - 1, bisect_right(starts, stop - 1) - 1
                if first != last:
                    yield lines[first].start() + start - starts[first], lines[last].start() + stop - starts[last]

    def _in_line(self, text: bytes) -> Iterator[tuple[int, int]]:
        for form in self._forms:
            at = text.find(form)
            while at >= 0:
                yield at, at + len(form)
                at = text.find(form, at + len(form))
            beginning = form[:SHORTEST]
            at = text.find(beginning, max(0, len(text) - len(form) + 1))
            while at >= 0:
                if form.startswith(text[at:]):
                    yield at, len(text)
                    break
                at = text.find(beginning, at + 1)

    @cached_property
    def _forms(self) -> tuple[bytes, ...]:
        found = (form for secret in self._all if len(secret.encode()) >= SHORTEST for form in _forms(secret))
        return tuple(dict.fromkeys(form.lower() for form in found if len(form) >= SHORTEST))

    @cached_property
    def _words(self) -> tuple[re.Pattern[bytes], ...]:
        short = dict.fromkeys(secret.lower().encode() for secret in self._all if len(secret.encode()) < SHORTEST)
        return tuple(re.compile(rb"(?<![a-z0-9_])" + re.escape(word) + rb"(?![a-z0-9_])") for word in short)

    @cached_property
    def _all(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part for secret in self._secrets for part in _parts(secret.strip()) if part))


def _parts(value: str) -> Iterator[str]:
    """A value, and what of it is a secret by itself."""
    yield value
    scheme, _, rest = value.partition(" ")
    yield rest.strip()
    if scheme.lower() == "basic":
        try:
            pair = base64.b64decode(rest.strip(), validate=True).decode()
        except (binascii.Error, ValueError):
            pass
        else:
            yield pair
            yield pair.partition(":")[2]
    parts = (part for part in _BETWEEN.split(value, maxsplit=MOST_PARTS) if len(part) >= SHORTEST_PART)
    yield from (part for part in parts if part.lower() not in _SCHEMES)


def _forms(secret: str) -> Iterator[bytes]:
    plain, escaped = secret.encode(), json.dumps(secret)[1:-1].encode()
    yield from (plain, escaped, json.dumps(secret, ensure_ascii=False)[1:-1].encode(), html.escape(secret).encode())
    yield from (quote(secret, safe="").encode(), quote(secret).encode(), quote_plus(secret).encode())
    yield from (plain.hex().encode(), secret.encode("utf-16-le"), secret.encode("utf-16-be"))
    for text in dict.fromkeys((plain, escaped)):
        for offset in range(3):  # in base64 a text looks different at each of three offsets in what is encoded
            encoded = base64.b64encode(b"\0" * offset + text)
            own = encoded[(offset * 8 + 5) // 6 : (offset + len(text)) * 8 // 6]  # what it alone makes
            yield from (own, own.translate(bytes.maketrans(b"+/", b"-_")))
