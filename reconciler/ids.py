"""Identifiers. A ULID sorts by the time it was made; time and randomness come in as arguments."""

from functools import lru_cache

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32: no I, L, O, U
RANDOM_BYTES = 10
PAIRS = [first + second for first in ALPHABET for second in ALPHABET]  # two digits at a time: every request has an id


def ulid(*, milliseconds: int, randomness: bytes) -> str:
    """A ULID of 26 characters from a Unix time in milliseconds (48 bits) and 10 random bytes."""
    if not 0 <= milliseconds < 1 << 48 or len(randomness) != RANDOM_BYTES:
        raise ValueError("a ULID takes 48 bits of time and 10 bytes of randomness")
    pairs, first, second = PAIRS, int.from_bytes(randomness[:5], "big"), int.from_bytes(randomness[5:], "big")
    return (
        f"{_instant(milliseconds)}"
        f"{pairs[first >> 30]}{pairs[first >> 20 & 1023]}{pairs[first >> 10 & 1023]}{pairs[first & 1023]}"
        f"{pairs[second >> 30]}{pairs[second >> 20 & 1023]}{pairs[second >> 10 & 1023]}{pairs[second & 1023]}"
    )


@lru_cache(maxsize=8)
def _instant(milliseconds: int) -> str:
    """Remembered, since many requests come within one."""
    return "".join(PAIRS[milliseconds >> shift & 1023] for shift in range(40, -1, -10))
