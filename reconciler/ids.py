"""Identifiers. A ULID sorts by the time it was made; time and randomness come in as arguments."""

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32: no I, L, O, U
RANDOM_BYTES = 10
PAIRS = [first + second for first in ALPHABET for second in ALPHABET]  # two digits at a time: every request has an id


def ulid(*, milliseconds: int, randomness: bytes) -> str:
    """A ULID of 26 characters from a Unix time in milliseconds (48 bits) and 10 random bytes."""
    if not 0 <= milliseconds < 1 << 48 or len(randomness) != RANDOM_BYTES:
        raise ValueError("a ULID takes 48 bits of time and 10 bytes of randomness")
    number = (milliseconds << 80) | int.from_bytes(randomness, "big")
    return "".join([PAIRS[(number >> shift) & 1023] for shift in range(120, -1, -10)])
