"""Identifiers: ULIDs, sorted by the time when they were made. The only module that imports python-ulid."""

from ulid import ULID

RANDOM_BYTES = 10
_TIME_BYTES = 6


def ulid(*, milliseconds: int, randomness: bytes) -> str:
    """Return a ULID of 26 characters from a Unix time in milliseconds and 10 random bytes."""
    if not 0 <= milliseconds < 1 << 8 * _TIME_BYTES or len(randomness) != RANDOM_BYTES:
        raise ValueError("a ULID takes 48 bits of time and 10 bytes of randomness")
    return str(ULID.from_bytes(milliseconds.to_bytes(_TIME_BYTES, "big") + randomness))


def milliseconds(identifier: str) -> int:
    """Return the Unix time in milliseconds that a ULID was made with. Raises ValueError."""
    return ULID.from_str(identifier).milliseconds
