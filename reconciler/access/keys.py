"""API keys as text: how one is made, taken apart, and recognised.

A key is `rck_<12 letters and digits>_<43 characters>`. The first two parts are its prefix, which is stored and shown,
so that people can tell keys apart and a scanner for leaked secrets finds one; the last is 32 random bytes. Stored is a
digest of the whole alone: with 256 bits to guess, a plain SHA-256 is as good as a slow one.

Belongs here: text and digests. Does not: what a key may do (`principals`), keeping it.
"""

import base64
import hashlib
import hmac
import re

MARK = "rck_"
PREFIX_BYTES = 8  # of randomness, 60 bits of which are used
SECRET_BYTES = 32
RANDOM_BYTES = PREFIX_BYTES + SECRET_BYTES

_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"  # as base32 has it, in lower case
_PREFIX_LETTERS = 12
_KEY = re.compile(rf"({MARK}[{_ALPHABET}]{{{_PREFIX_LETTERS}}})_[A-Za-z0-9_-]{{43}}")
_BEGINNING = re.compile(rf"{MARK}[{_ALPHABET}]{{{_PREFIX_LETTERS}}}_")
_NOBODYS = hashlib.sha256(b"").digest()


def make(randomness: bytes) -> str:
    """A new key. `randomness` is 40 bytes from the system's source."""
    assert len(randomness) == RANDOM_BYTES
    letters = base64.b32encode(randomness[:PREFIX_BYTES]).decode().lower()[:_PREFIX_LETTERS]
    secret = base64.urlsafe_b64encode(randomness[PREFIX_BYTES:]).decode().rstrip("=")
    return f"{MARK}{letters}_{secret}"


def prefix(key: str) -> str | None:
    """The part of a key that may be shown; None when the text is no key of ours."""
    found = _KEY.fullmatch(key)
    return found[1] if found else None


def stands_in(text: str) -> bool:
    """Whether a key of ours, whole or cut off, stands anywhere in a text."""
    return _BEGINNING.search(text) is not None


def digest(key: str) -> bytes:
    """What is stored of a key: 32 bytes."""
    return hashlib.sha256(key.encode()).digest()


def is_same(key: str, stored: bytes | None) -> bool:
    """Whether a key is the one of which this is stored, in a time that does not tell whether any is (None)."""
    same = hmac.compare_digest(digest(key), _NOBODYS if stored is None else stored)
    return same and stored is not None
