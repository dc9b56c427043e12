"""Taking secrets out of what a remote or a program wrote: a server may answer with the very header that it was sent.

Pure. Which secrets there are is the caller's to know. What a text means is settled before: a secret may be a common
word.
"""

import base64
import re
from collections.abc import Collection, Iterable
from urllib.parse import quote

HIDDEN = b"(sensitive)"
BETWEEN = b"\n...\n"
FEWEST_CHARACTERS = 6  # of a secret: a shorter one is in many words, and what is taken out of them would tell it


def secret_forms(secret: bytes, *, username: str = "") -> frozenset[bytes]:
    """How a secret may stand in a text: plain, in a URL, and as basic authentication writes it with its user name."""
    percent = quote(secret, safe="").encode()
    converted = secret.decode("latin-1").encode()  # git takes a page for Latin-1 unless that says what it is
    encoded = (base64.b64encode(secret), base64.b64encode(username.encode() + b":" + secret))
    return frozenset({secret, converted, percent, percent.lower(), *encoded, *(one.rstrip(b"=") for one in encoded)})


def is_guessable(secrets: Collection[bytes]) -> bool:
    """Whether one of these is so short that a text without it would still tell it."""
    return any(len(one.decode("utf-8", "replace")) < FEWEST_CHARACTERS for one in secrets)


def redacted(text: bytes, secrets: Iterable[bytes]) -> bytes:
    """The text with every one of these replaced, the longest first, since one may be a part of another."""
    found = sorted(filter(None, secrets), key=lambda one: (-len(one), one))
    return re.sub(b"|".join(map(re.escape, found)), HIDDEN, text) if found else text


def redacted_text(text: str, secrets: Iterable[bytes]) -> str:
    """The same of a text that was decoded."""
    return redacted(text.encode("utf-8", "replace"), secrets).decode("utf-8", "replace")


def joined_lines(first: bytes, last: bytes | None) -> bytes:
    """The beginning and the end of what a program wrote; of `last` None, the beginning is all.

    Where something between the two was thrown away, only whole lines stay: of a line that was cut nobody could tell
    whose it is, nor whether a part of a secret is in it, which is never more than a line.
    """
    if last is None:
        return first
    return first[: first.rfind(b"\n") + 1].removesuffix(b"\n") + BETWEEN + last[last.find(b"\n") + 1 or len(last) :]
