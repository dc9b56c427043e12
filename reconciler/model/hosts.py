"""Hosts and IP addresses that a URL or a parameter may contain.

A host is a DNS name, or an IP address in a form that hides nothing. An address may stand for others (IPv4 inside of
IPv6); to some of them nothing may ever connect.
"""

import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import NamedTuple

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class ForbiddenNetwork(NamedTuple):
    """A network that is always refused: `rule` continues a sentence about an address, `about` says whose it is."""

    network: Network
    rule: str
    about: str


THIS_NETWORK = "is unspecified (this host on this network)"
METADATA = "is a cloud's metadata service"
LINK_LOCAL = "is link-local"
MULTICAST = "is multicast"
RESERVED = "is reserved or broadcast"
LOCAL_NAT64 = "is of a NAT64 prefix whose meaning only its operator knows"


def _never(network: str, rule: str, about: str) -> ForbiddenNetwork:
    return ForbiddenNetwork(ip_network(network), rule, about)


# The first that holds an address names the rule. Where the clouds' own addresses are documented: docs/egress.md.
FORBIDDEN_NETWORKS = (
    _never("169.254.169.254/32", METADATA, "AWS, Google, Azure, Oracle, OpenStack and most others"),
    _never("169.254.170.2/32", METADATA, "AWS, credentials of containers (ECS)"),
    _never("169.254.170.23/32", METADATA, "AWS, credentials of pods (EKS)"),
    _never("169.254.42.42/32", METADATA, "Scaleway"),
    _never("100.100.100.200/32", METADATA, "Alibaba"),
    _never("168.63.129.16/32", METADATA, "Azure's platform, on every virtual machine"),
    _never("192.0.0.192/32", METADATA, "Oracle, the classic one"),
    _never("fd00:ec2::254/128", METADATA, "AWS"),
    _never("fd00:ec2::23/128", METADATA, "AWS, credentials of pods (EKS)"),
    _never("fd20:ce::254/128", METADATA, "Google"),
    _never("fd00:c1::a9fe:a9fe/128", METADATA, "Oracle"),
    _never("fd00:a9fe:a9fe::1/128", METADATA, "Akamai (Linode)"),
    _never("fd00:42::42/128", METADATA, "Scaleway"),
    _never("fd00:100::100:200/128", METADATA, "Alibaba"),
    _never("0.0.0.0/8", THIS_NETWORK, "on Linux 0.0.0.0 is the machine itself"),
    _never("169.254.0.0/16", LINK_LOCAL, "neighbours on the local network"),
    _never("224.0.0.0/4", MULTICAST, "many machines at once"),
    _never("240.0.0.0/4", RESERVED, "255.255.255.255 among them"),
    _never("::/128", THIS_NETWORK, "on Linux the machine itself"),
    _never("64:ff9b:1::/48", LOCAL_NAT64, "any IPv4 address, written in one of several ways (RFC 8215)"),
    _never("fe80::/10", LINK_LOCAL, "neighbours on the local network"),
    _never("ff00::/8", MULTICAST, "many machines at once"),
)

_MAPPED = IPv6Network("::ffff:0:0/96")  # RFC 4291, 2.5.5.2
_COMPATIBLE = IPv6Network("::/96")  # RFC 4291, 2.5.5.1
_TRANSLATED = IPv6Network("::ffff:0:0:0/96")  # RFC 2765, 2.1
_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052, 2.1
_LAST_BITS = (_COMPATIBLE, _TRANSLATED, _NAT64)  # the IPv4 address is the last 32 bits
_WHOLE_IPV6 = (IPv6Address("::"), IPv6Address("::1"))  # in the block of compatible ones, and none of them


def address_readings(address: Address) -> tuple[Address, ...]:
    """Every address that this one may mean to a kernel, a translator or a tunnel: itself and what is written inside.

    An IPv4-mapped address means the IPv4 address alone, since that is what a kernel connects to. A zone is left out.
    """
    if isinstance(address, IPv4Address):
        return (address,)
    plain = IPv6Address(int(address))
    if plain in _MAPPED:
        return (_low(plain),)
    return (plain, *dict.fromkeys(_inside(plain)))


def refusal_reason(address: Address) -> str | None:
    """Why nothing may ever connect to this address, as the rest of a sentence: `is link-local`. None: it may."""
    for reading in address_readings(address):
        for never in FORBIDDEN_NETWORKS:
            if reading in never.network:
                return never.rule
    return None


def _inside(address: IPv6Address) -> Iterator[IPv4Address]:
    if any(address in network for network in _LAST_BITS) and address not in _WHOLE_IPV6:
        yield _low(address)
    if address.sixtofour is not None:
        yield address.sixtofour
    yield from address.teredo or ()


def _low(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFFFFFF)


LONGEST_HOST = 253  # characters of a name, RFC 1035, 2.3.4, as text
HOST_RULE = (
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


def wrong_host(text: str) -> str | None:
    """Say why a host is wrong, as the rest of a sentence that does not repeat it; None if it is right."""
    if not text.isascii():
        return NOT_ASCII
    if ":" in text:
        if "%" in text:
            return ZONE
        return None if literal(text) is not None else HOST_RULE
    if is_name(text) or literal(text) is not None:
        return None
    name = text.removesuffix(".")  # a name may be absolute
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return NUMERIC
    return None if len(name) <= LONGEST_HOST and all(map(_LABEL.fullmatch, labels)) else HOST_RULE


def is_name(text: str) -> bool:
    """Return True if a host is a name whose last label begins with a letter, as most are: it is right, and no program
    reads it as an address.
    """
    return len(text) <= LONGEST_HOST and _NAME.fullmatch(text) is not None


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
