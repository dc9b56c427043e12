"""Identifiers: ULIDs, sorted by the time when they were made. The only module that imports python-ulid."""

import hashlib

from ulid import ULID

RANDOM_BYTES = 10
_TIME_BYTES = 6
_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# Two digits at a time take a third of the library's time, and every request gets an id.
_PAIRS = [first + second for first in _DIGITS for second in _DIGITS]


def ulid(*, milliseconds: int, randomness: bytes) -> str:
    """Return a ULID of 26 characters from a Unix time in milliseconds and 10 random bytes."""
    if not 0 <= milliseconds < 1 << 8 * _TIME_BYTES or len(randomness) != RANDOM_BYTES:
        raise ValueError("a ULID takes 48 bits of time and 10 bytes of randomness")
    value = milliseconds << 8 * RANDOM_BYTES | int.from_bytes(randomness, "big")
    return "".join([_PAIRS[value >> shift & 1023] for shift in range(120, -1, -10)])


def following(seed: bytes, number: int, *, milliseconds: int) -> str:
    """Return the ULID with a number in a series that begins at a seed.

    The series is ascending, so the store's index of ids grows at its end.
    """
    first = int.from_bytes(hashlib.blake2b(key=seed, digest_size=RANDOM_BYTES).digest(), "big")
    randomness = (first + number) % (1 << 8 * RANDOM_BYTES)
    return ulid(milliseconds=milliseconds, randomness=randomness.to_bytes(RANDOM_BYTES, "big"))


def milliseconds(identifier: str) -> int:
    """Return the Unix time in milliseconds that a ULID was made with. Raises ValueError."""
    return ULID.from_str(identifier).milliseconds
