"""Plain values of documents: types, pointers, scalars, copies without recursion, and canonical bytes.

Scalars follow the YAML 1.2 core schema, with numbers in canonical form. Equal values have equal canonical bytes.
"""

import math
import re
from collections.abc import Mapping
from typing import Final, TypeAlias, cast

import msgspec

Scalar: TypeAlias = bool | int | float | str | None
Value: TypeAlias = Scalar | list["Value"] | dict[str, "Value"]

# Keys and list positions from the document's root down; () is the whole document.
Pointer: TypeAlias = tuple[str | int, ...]


class Document(msgspec.Struct, frozen=True, gc=False):
    """One document of a text.

    Its value is a tree: no list or mapping appears in two places, not even where the text used an alias, so changing
    one place never changes another. A number is already in canonical form (1.0 is 1).
    """

    value: Value
    index: int  # 0-based place in the stream; empty documents count, although they are left out
    line: int  # 1-based, of the first node
    column: int  # 1-based, in characters

    def __repr__(self) -> str:
        """Leave out the value, which may contain secrets."""
        return f"Document({self.index}, line {self.line}, column {self.column})"


def pointer_text(pointer: Pointer) -> str:
    """Return the pointer as RFC 6901 writes it; '' is the whole document."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in pointer)


LOWEST: Final = -(2**63)
HIGHEST: Final = 2**64 - 1
_EXACT: Final = 2**53  # from here on, floats cannot represent all integers
_DIGITS: Final = 20  # of HIGHEST; a longer number is out of range, and Python refuses to convert really long ones

_CONSTANTS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMERIC: Final = frozenset("+-.0123456789")
# The first characters of plain scalars that are not text; "" is for the empty scalar. All other scalars are text.
FIRST: Final = frozenset({"", *(word[:1] for word in _CONSTANTS), *_NUMERIC})

_NUMBER: Final = re.compile(
    r"(?P<decimal>[-+]?[0-9]+)|0o(?P<octal>[0-7]+)|0x(?P<hexadecimal>[0-9a-fA-F]+)"
    r"|(?P<infinite>[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))"
    r"|(?P<fraction>[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)"
)
_BASES: Final = {"decimal": 10, "octal": 8, "hexadecimal": 16}
_TAG: Final = "tag:yaml.org,2002:"
_TAGGED: Final[dict[str, frozenset[type]]] = {
    "null": frozenset({type(None)}),
    "bool": frozenset({bool}),
    "int": frozenset({int}),
    "float": frozenset({int, float}),  # `!!float 1` is 1 in canonical form
}


class NotAScalar(Exception):
    """A scalar that a document must not have. The message is a sentence; the reader adds the position."""


def integer(digits: str, *, base: int = 10) -> int:
    """Parse an integer of at most 64 bits. Raises NotAScalar."""
    sign = "-" if digits.startswith("-") else ""
    significant = digits.lstrip("+-").lstrip("0") or "0"
    # Octal needs the most characters for the same number: 22 for 64 bits.
    if len(significant) <= _DIGITS + 2:
        number = int(sign + significant, base)
        if LOWEST <= number <= HIGHEST:
            return number
    raise NotAScalar(f"the integer is outside {LOWEST} to {HIGHEST}; quote it to make it text")


def decimal(text: str) -> int | float:
    """Parse a number. An integral value below 2^53 becomes an integer, so that 1, 1.0 and 1e0 are equal."""
    number = float(text)
    if math.isinf(number):
        raise NotAScalar("the number is too large for a 64-bit float; quote it to make it text")
    if -_EXACT < number < _EXACT and number.is_integer():
        return int(number)
    return number


def plain_scalar(text: str) -> Scalar:
    """Return the value of an unquoted scalar."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _NUMERIC or (found := _NUMBER.fullmatch(text)) is None:
        return text
    form = found.lastgroup or ""
    if form == "fraction":
        return decimal(text)
    if form == "infinite":
        raise NotAScalar("infinity and not-a-number have no place in a resource; quote the word to make it text")
    return integer(found[form], base=_BASES[form])


def tagged_scalar(text: str, tag: str) -> Scalar:
    """Return the value of a scalar with an explicit tag; only the tags of the core schema are known."""
    if tag == _TAG + "str":
        return text
    name = tag.removeprefix(_TAG)
    if name == tag or name not in _TAGGED:
        raise NotAScalar("only the tags of the YAML core schema are allowed; quote text that begins with `!`")
    value = plain_scalar(text)
    if value.__class__ not in _TAGGED[name]:
        raise NotAScalar(f"the text does not fit its tag `!!{name}`; remove the tag or change the text")
    return value


def check_collection(tag: str, *, mapping: bool) -> None:
    """Refuse a tag on a list or mapping, except the one of its own type."""
    if tag != _TAG + ("map" if mapping else "seq"):
        raise NotAScalar("the tag is not allowed here; remove it, or quote text that begins with `!`")


def copied(value: Value, *, levels: int) -> Value:
    """Return a deep copy of a list or mapping. Raises NotAScalar if it is nested deeper than this number of levels.

    A YAML alias becomes such a copy, so that a later change never affects two places, and the memory of a value is its
    counted size.
    """
    if not isinstance(value, list | dict):
        return value
    if not levels:
        raise NotAScalar("is nested too deep")
    if isinstance(value, dict):
        return {name: copied(item, levels=levels - 1) for name, item in value.items()}
    return [copied(item, levels=levels - 1) for item in value]


def has_more_nodes_than(value: Value, *, nodes: int) -> bool:
    """Return True if the value has more than this number of scalars, keys, lists and mappings."""
    counted, todo = 0, [value]
    while todo and counted <= nodes:
        one = todo.pop()
        counted += 1
        if isinstance(one, dict):
            counted += len(one)
            todo += one.values()
        elif isinstance(one, list):
            todo += one
    return counted + len(todo) > nodes


_ENCODER = msgspec.json.Encoder(order="sorted")


def canonical_json(value: Value) -> bytes:
    """Return JSON in UTF-8 with sorted keys (by code point, as by UTF-8 bytes), without white space.

    The value comes from a reader: NaN would become null, and a lone surrogate raises UnicodeEncodeError.
    """
    return _ENCODER.encode(value)


def is_same(one: Value, other: Value) -> bool:
    """Return True if two values are equal in canonical form."""
    if isinstance(one, str) and isinstance(other, str):
        return one == other
    return canonical_json(one) == canonical_json(other)


Container: TypeAlias = dict[str, Value] | list[Value]


class Copies:
    """A copy on write of a document: each list or mapping is copied once, when it is first changed."""

    def __init__(self, document: dict[str, Value]) -> None:
        self.document = dict(document)
        self._made: dict[Pointer, Container] = {(): self.document}

    def at(self, pointer: Pointer) -> Container:
        """Return the copy of the list or mapping at this place of the original; it may be changed."""
        if pointer not in self._made:
            above, step = self.at(pointer[:-1]), pointer[-1]
            self._made[pointer] = copy = cast("Container", child_of(above, step)).copy()
            replace_at(above, step, copy)
        return self._made[pointer]


def replaced(document: dict[str, Value], values: Mapping[Pointer, Value]) -> dict[str, Value]:
    """Return the document with these values at these places. No place is below another."""
    if not values:
        return document
    copies = Copies(document)
    for pointer, value in values.items():
        replace_at(copies.at(pointer[:-1]), pointer[-1], value)
    return copies.document


def child_of(container: Value, step: str | int) -> Value:
    """Follow one step of a pointer. Raises LookupError when there is nothing."""
    if isinstance(container, list) and isinstance(step, int):
        return container[step]
    if isinstance(container, dict) and isinstance(step, str):
        return container[step]
    raise LookupError("a pointer leads to where its document holds nothing")


def value_at(value: Value, pointer: Pointer) -> Value:
    """Return the value at a place. Raises LookupError when there is nothing."""
    for step in pointer:
        value = child_of(value, step)
    return value


def holds(document: Value, pointer: Pointer, value: Value) -> bool:
    """Return True if there is this value at this place."""
    try:
        return is_same(value_at(document, pointer), value)
    except LookupError:
        return False


def replace_at(container: Container, step: str | int, value: Value) -> None:
    """Set what one step of a pointer leads to."""
    if isinstance(container, list):
        container[cast("int", step)] = value
    else:
        container[cast("str", step)] = value


def located(document: Value, text: str) -> Pointer:
    """Return the place of a JSON pointer (RFC 6901) in a document that contains it."""
    found: list[str | int] = []
    for part in text.split("/")[1:]:
        step = int(part) if isinstance(document, list) else part.replace("~1", "/").replace("~0", "~")
        document = child_of(document, step)
        found.append(step)
    return tuple(found)


def by_place(document: Value, values: Mapping[str, Value]) -> dict[Pointer, Value]:
    """Convert values by JSON pointer into values by place, in a document that contains them."""
    return {located(document, text): value for text, value in values.items()}
