"""Identifiers: ULIDs, sorted by the time when they were made."""

from functools import lru_cache

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32: no I, L, O, U
RANDOM_BYTES = 10
RANDOM_DIGITS = 16  # of the 26 that a ULID has
PAIRS = [first + second for first in ALPHABET for second in ALPHABET]  # two digits at a time
_OF_BYTES = bytes(ord(ALPHABET[byte % len(ALPHABET)]) for byte in range(256))


def ulid(*, milliseconds: int, randomness: bytes) -> str:
    """A ULID of 26 characters from a Unix time in milliseconds (48 bits) and 10 random bytes."""
    if not 0 <= milliseconds < 1 << 48 or len(randomness) != RANDOM_BYTES:
        raise ValueError("a ULID takes 48 bits of time and 10 bytes of randomness")
    pairs, first, second = PAIRS, int.from_bytes(randomness[:5], "big"), int.from_bytes(randomness[5:], "big")
    return (
        f"{instant(milliseconds)}"
        f"{pairs[first >> 30]}{pairs[first >> 20 & 1023]}{pairs[first >> 10 & 1023]}{pairs[first & 1023]}"
        f"{pairs[second >> 30]}{pairs[second >> 20 & 1023]}{pairs[second >> 10 & 1023]}{pairs[second & 1023]}"
    )


def milliseconds(identifier: str) -> int:
    """The Unix time in milliseconds that a ULID was made with."""
    if len(identifier) != 26 or not set(identifier) <= set(ALPHABET):
        raise ValueError("this is no ULID")
    return sum(ALPHABET.index(digit) << 5 * place for place, digit in enumerate(reversed(identifier[:10])))


def digits(randomness: bytes) -> str:
    """Random digits of ULIDs, one for each byte, of which five bits count: cheap for hundreds of ids at once."""
    return randomness.translate(_OF_BYTES).decode("ascii")


@lru_cache(maxsize=8)
def instant(milliseconds: int) -> str:
    """The digits of the time, with which a ULID begins. Remembered, since many requests come within one."""
    return "".join(PAIRS[milliseconds >> shift & 1023] for shift in range(40, -1, -10))
