"""A set of numbers that lie close together, one bit each.

Belongs here: a set of any such numbers. Does not: what the numbers are, files.
"""

BLOCK_BITS = 8


class NumberSet:
    """Numbers from the first one on that was added, or given."""

    __slots__ = ("_bits", "_first")

    def __init__(self, first: int = 0) -> None:
        self._first = first
        self._bits = bytearray()

    def add(self, number: int) -> None:
        """Take it in. Raises ValueError for one below the first."""
        place = number - self._first
        if place < 0:
            raise ValueError("the number is below the first")
        block = place // BLOCK_BITS
        if block >= len(self._bits):
            self._bits.extend(bytes(block + 1 - len(self._bits)))
        self._bits[block] |= 1 << place % BLOCK_BITS

    def __contains__(self, number: int) -> bool:
        place = number - self._first
        block = place // BLOCK_BITS
        return place >= 0 and block < len(self._bits) and bool(self._bits[block] >> place % BLOCK_BITS & 1)

    def __len__(self) -> int:
        return int.from_bytes(self._bits, "little").bit_count()

    def bits(self) -> bytes:
        """Bit i of byte j is the number `first` + 8 j + i."""
        return bytes(self._bits)

    def add_bits(self, first: int, bits: bytes) -> None:
        """Take in what `bits` of another set with that first number says; what is below our first is left out."""
        value = int.from_bytes(bits, "little")
        shift = first - self._first
        value = value << shift if shift >= 0 else value >> -shift
        value |= int.from_bytes(self._bits, "little")
        self._bits = bytearray(value.to_bytes((value.bit_length() + 7) // 8, "little"))

    @property
    def first(self) -> int:
        """The lowest that there can be."""
        return self._first

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return len(self._bits)

    def highest(self) -> int | None:
        """The highest of them."""
        length = int.from_bytes(self._bits, "little").bit_length()
        return self._first + length - 1 if length else None


def pack_numbers(places: frozenset[int]) -> bytes:
    """Places from 0 on, as bits."""
    numbers = NumberSet()
    for place in places:
        numbers.add(place)
    return numbers.bits()


def unpack_numbers(bits: bytes) -> frozenset[int]:
    """The places that `packed` packed."""
    return frozenset(
        place * BLOCK_BITS + bit
        for place, byte in enumerate(bits)
        if byte
        for bit in range(BLOCK_BITS)
        if byte >> bit & 1
    )
