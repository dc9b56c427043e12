"""What a host may be in a URL or a parameter: a DNS name, or an IP address in a form that hides nothing.

Belongs here: how hosts are written; pure. Does not: where they lead (`addresses`, and `egress` at the time).
"""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from reconciler.resources.addresses import Address

LONGEST = 253  # characters of a name, RFC 1035, 2.3.4, as text
RULE = (
    "must be a DNS name (labels of 1 to 63 letters, digits, `-` or `_`, with dots between them, 253 characters in all) "
    "or an IP address"
)
NOT_ASCII = "must be ASCII; write an international name in its `xn--` form"
NUMERIC = (
    "is a number that programs read as an IP address, which hides where it leads; write four decimal numbers without "
    "leading zeros, such as `192.0.2.1`"
)
ZONE = "must not have a zone (`%`), which means something on one machine alone"

_LABEL = re.compile(r"[A-Za-z0-9_](?:[-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?")
_NAME = re.compile(rf"(?:{_LABEL.pattern}\.)*(?=[A-Za-z]){_LABEL.pattern}")
# RFC 3986 and WHATWG agree that no name ends so, and inet_aton() reads decimal, octal and hexadecimal parts.
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")


def wrong(text: str) -> str | None:
    """What is wrong with a host, as the rest of a sentence that does not repeat it; None: nothing."""
    if not text.isascii():
        return NOT_ASCII
    if ":" in text:
        if "%" in text:
            return ZONE
        return None if literal(text) is not None else RULE
    if is_name(text) or literal(text) is not None:
        return None
    name = text.removesuffix(".")  # a name may be absolute
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return NUMERIC
    return None if len(name) <= LONGEST and all(map(_LABEL.fullmatch, labels)) else RULE


def is_name(text: str) -> bool:
    """Whether a host is a name whose last label begins with a letter, as most are: nothing is wrong with it, and no
    program reads it as an address.
    """
    return len(text) <= LONGEST and _NAME.fullmatch(text) is not None


def literal(text: str) -> Address | None:
    """The IP address that a host is; IPv6 with or without the brackets of a URL. None for a name, or a wrong host."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        if ":" in bare:
            return None if "%" in bare or not bare.isascii() else IPv6Address(bare)
        return IPv4Address(text) if text[-1:].isdigit() else None  # most are names: no exception for each
    except AddressValueError:
        return None


def bracketed(text: str) -> str:
    """The host as a URL and the header `Host` have it."""
    return f"[{text}]" if ":" in text and not text.startswith("[") else text
