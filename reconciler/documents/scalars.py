"""What a scalar written as text means: the YAML 1.2 core schema, and numbers in canonical form.

Belongs here: text to None, bool, int, float or str. Does not: positions (the readers add them), quoting, structure.
YAML 1.1's surprises are absent on purpose: `no` and `on` are text, `012` is twelve, `1:30` and dates are text.
"""

import math
import re
from typing import Final

from reconciler.documents.values import Scalar

LOWEST: Final = -(2**63)
HIGHEST: Final = 2**64 - 1
_EXACT: Final = 2**53  # from here on a float no longer tells neighbouring integers apart
_DIGITS: Final = 20  # of HIGHEST; a longer number is out of range, and Python refuses to convert really long ones

_CONSTANTS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMERIC: Final = frozenset("+-.0123456789")
# What a plain scalar that is not text begins with; "" stands for the empty one. Everything else needs no second look.
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


class Unfit(Exception):
    """A scalar that has no place in a document; the message is a sentence, and the reader knows the position."""


def integer(digits: str, *, base: int = 10) -> int:
    """The integer, if 64 bits hold it."""
    sign = "-" if digits.startswith("-") else ""
    significant = digits.lstrip("+-").lstrip("0") or "0"
    # Octal needs the most characters for the same number: 22 for 64 bits.
    if len(significant) <= _DIGITS + 2:
        number = int(sign + significant, base)
        if LOWEST <= number <= HIGHEST:
            return number
    raise Unfit(f"the integer is outside {LOWEST} to {HIGHEST}; quote it to make it text")


def fraction(text: str) -> int | float:
    """The number; one with an integral value below 2^53 is an integer, so that 1, 1.0 and 1e0 are equal."""
    number = float(text)
    if math.isinf(number):
        raise Unfit("the number is too large for a 64-bit float; quote it to make it text")
    if -_EXACT < number < _EXACT and number.is_integer():
        return int(number)
    return number


def plain(text: str) -> Scalar:
    """What an unquoted scalar means."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _NUMERIC or (found := _NUMBER.fullmatch(text)) is None:
        return text
    form = found.lastgroup or ""
    if form == "fraction":
        return fraction(text)
    if form == "infinite":
        raise Unfit("infinity and not-a-number have no place in a resource; quote the word to make it text")
    return integer(found[form], base=_BASES[form])


def tagged(text: str, tag: str) -> Scalar:
    """What a scalar with an explicit tag means; only the tags of the core schema are known."""
    if tag == _TAG + "str":
        return text
    name = tag.removeprefix(_TAG)
    if name == tag or name not in _TAGGED:
        raise Unfit("only the tags of the YAML core schema are allowed; quote text that begins with `!`")
    value = plain(text)
    if value.__class__ not in _TAGGED[name]:
        raise Unfit(f"the text does not fit its tag `!!{name}`; remove the tag or change the text")
    return value


def check_collection(tag: str, *, mapping: bool) -> None:
    """Refuse a tag on a list or mapping, unless it says what the thing is anyway."""
    if tag != _TAG + ("map" if mapping else "seq"):
        raise Unfit("the tag is not allowed here; remove it, or quote text that begins with `!`")
