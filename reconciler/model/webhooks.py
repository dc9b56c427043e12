"""Rules for the values of a webhook, which become an HTTP request: hosts and addresses, paths and headers.

A host is a DNS name, or an IP address in an unambiguous form. An address may contain others (IPv4 inside IPv6); some of
them are always refused. The rules are stricter than the types of the parameters: a header must not add a line to a
request or change its framing. No sentence repeats a value, because headers contain credentials. A reference,
`${env:NAME}`, is an unknown value, so only the text around it is judged.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import NamedTuple

from reconciler.model import cron, secret_references
from reconciler.model.components import MASK, parameter_name
from reconciler.model.values import Pointer, Value
from reconciler.model.violations import Violation

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


# The first network that contains an address gives the rule. docs/egress.md has the sources for the addresses of clouds.
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
_WHOLE_IPV6 = (IPv6Address("::"), IPv6Address("::1"))  # in the block of compatible addresses, but not compatible


def address_readings(address: Address) -> tuple[Address, ...]:
    """Return every address that a kernel, a translator or a tunnel may use for this one: itself and embedded ones. An
    IPv4-mapped address only means the IPv4 address, because a kernel connects to that. A zone is left out.
    """
    if isinstance(address, IPv4Address):
        return (address,)
    plain = IPv6Address(int(address))
    if plain in _MAPPED:
        return (_low(plain),)
    return (plain, *dict.fromkeys(_inside(plain)))


def refusal_reason(address: Address) -> str | None:
    """Return why connections to this address are always refused, as the end of a sentence: `is link-local`. None: they
    are not.
    """
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
_HOST_NAME = re.compile(rf"(?:{_LABEL.pattern}\.)*(?=[A-Za-z]){_LABEL.pattern}")
# A name must not end like a number (RFC 3986, WHATWG), because inet_aton() reads decimal, octal and hexadecimal parts.
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")


def wrong_form(text: str) -> str | None:
    """Return why a host is wrong, as the end of a sentence that does not repeat it; None if it is right."""
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
    """Return True if a host is a name whose last label begins with a letter, as most are. Such a name is right, and no
    program reads it as an address.
    """
    return len(text) <= LONGEST_HOST and _HOST_NAME.fullmatch(text) is not None


def literal(text: str) -> Address | None:
    """Return the host as an IP address, with or without the brackets of IPv6 in a URL. None for a name, or a wrong
    host.
    """
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        if ":" in bare:
            return None if "%" in bare or not bare.isascii() else IPv6Address(bare)
        return IPv4Address(text) if text[-1:].isdigit() else None  # most hosts are names: avoid an exception for each
    except AddressValueError:
        return None


def bracketed(text: str) -> str:
    """Return the host in the form for a URL and the header `Host`."""
    return f"[{text}]" if ":" in text and not text.startswith("[") else text


MOST_HEADERS = 64  # headers of one request
LONGEST_HEADER = 8192  # bytes of one, name and value together
LONGEST_TOGETHER = 32768  # bytes of all

TOKEN_RULE = "must be a header's name: letters, digits and any of `!#$%&'*+-.^_`|~`"  # noqa: S105 (RFC 9110, 5.6.2)
HOP_BY_HOP = frozenset(
    {
        "connection",
        "expect",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "trailers",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that concern only one connection: RFC 9110, 7.6.1, those in RFC 2616, 13.5.1, and `Expect`, whose answer
comes before the request is complete.
"""
CONTENT_LENGTH = "content-length"
TWICE = "stands in these headers already, perhaps in other letters; keep one of them"

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # noqa: S105
_QUOTED = r'"(?:[\t \x21\x23-\x5b\x5d-\x7e]|\\[\t \x21-\x7e])*"'
_NAME = re.compile(_TOKEN)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")  # all but the tab
_MEDIA_TYPE = re.compile(rf"{_TOKEN}/{_TOKEN}(?:[ \t]*;[ \t]*{_TOKEN}=(?:{_TOKEN}|{_QUOTED}))*")


def wrong_header_name(name: str) -> str | None:
    """Say why a header's name is wrong; None if it is right."""
    if not _NAME.fullmatch(name):
        return TOKEN_RULE
    if name.lower() in HOP_BY_HOP:
        return "is a header of the connection, which the service sets itself; leave it out"
    if name.lower() == CONTENT_LENGTH:
        return "is the length of the body, which the service counts itself; leave it out"
    return None


def wrong_header_value(value: str) -> str | None:
    """Say why a header's value is wrong; None if it is right."""
    if _CONTROL.search(value):
        return "must not hold line ends, NUL or other control characters"
    return "must not begin or end with white space" if value != value.strip() else None


def header_size(name: str, value: str) -> int:
    """Return the size of a header in bytes, as it counts against the limits."""
    return len(name.encode()) + len(value.encode())


def wrong_headers(headers: Iterable[tuple[str, str]]) -> str | None:
    """Say why the headers of one request are wrong together, though each is right."""
    sizes = [header_size(name, value) for name, value in headers]
    if len(sizes) > MOST_HEADERS:
        return f"has more than {MOST_HEADERS} headers"
    return f"is longer than {LONGEST_TOGETHER} bytes in all" if sum(sizes) > LONGEST_TOGETHER else None


def wrong_media_type(text: str) -> str | None:
    """Say why the value of `Content-Type` is wrong (RFC 9110, 8.3.1); None if it is right."""
    if len(text) <= LONGEST_HEADER and _MEDIA_TYPE.fullmatch(text):
        return None
    return "must be a media type such as `application/json` or `text/plain; charset=utf-8`"


INITIAL = "retry_on_failure_initial_interval"
LONGEST = "retry_on_failure_max_interval"
ELAPSED = "retry_on_failure_max_elapsed_time"

LONGEST_PATH = 4096  # characters; servers refuse longer ones

PATH_CHARACTERS = "must not hold white space, control characters, a backslash or `#`; write them percent-encoded"

_OUTSIDE_PATHS = re.compile(r"[\s\\#\x00-\x20\x7f-\xa0]")


def intervals(initial: int, longest: int, elapsed: int) -> tuple[int, int]:
    """Return the effective initial and longest interval: each is limited by the next larger setting. `elapsed` 0 is no
    limit.
    """
    longest = min(longest, elapsed) if elapsed else longest
    return min(initial, longest), longest


def noted(given: list[Value], settled: Callable[[], Mapping[str, Value]], *, at: Pointer) -> Iterator[Violation]:
    """Yield a note for each interval of a valid webhook that exceeds its limit, which is used instead. `settled` has
    its values with the defaults. A value that is marked sensitive is not compared.
    """
    places: dict[Value, int] = {}
    for index, each in enumerate(given):
        if isinstance(each, dict) and each.get("name") in (INITIAL, LONGEST, ELAPSED):
            if each.get("sensitive") is True:
                return
            places[each.get("name")] = index
    values = settled() if places else {}
    for name, bound in ((INITIAL, LONGEST), (LONGEST, ELAPSED)):
        value, limit = values.get(name), values.get(bound)
        if values.get("retry_on_failure_enabled") is not True or not (name in places or bound in places):
            continue
        if isinstance(value, int) and isinstance(limit, int) and value > limit > 0:
            yield _violation((*at, places[name if name in places else bound], "value"), _OVER.format(name, bound))


def wrong_path(path: str) -> str | None:
    """Say why the path of a request, its query included, is wrong; None if it is right."""
    if _OUTSIDE_PATHS.search(path):
        return PATH_CHARACTERS
    return f"is longer than {LONGEST_PATH} characters" if len(path) > LONGEST_PATH else None


def wrong_host(host: str) -> str | None:
    """Say why the host of a request is wrong: its form, or an address to which nothing may connect."""
    if is_name(host):
        return None
    written = wrong_form(host)
    if written is not None:
        return written
    address = literal(host)
    rule = None if address is None else refusal_reason(address)
    return None if rule is None else f"{rule}; the service never connects there"


_OVER = "`{}` is over `{}`, which is used instead; lower it, or raise the other"

_TEXTS = {
    "hostname": wrong_host,
    "path": wrong_path,
    "content_type": wrong_media_type,
    # In UTC, because the zones of a machine must not decide what is valid. The type lists the allowed zones.
    "delivery_schedule": cron.wrong,
}


def broken_rules(given: list[Value], *, at: Pointer) -> Iterator[Violation]:
    """Yield every rule that the parameters of a webhook break; `at` is the pointer of the list in the document."""
    for index, parameter in enumerate(given):
        name, value = parameter_name(parameter), parameter.get("value") if isinstance(parameter, dict) else None
        if name == "headers" and isinstance(value, dict):
            yield from _headers(value, (*at, index, "value"))
        elif name in _TEXTS and isinstance(value, str) and value:
            wrong = None if _is_unknown(value) else _TEXTS[name](_around(value))
            if wrong is not None:
                yield _violation((*at, index, "value"), wrong)


def _headers(given: dict[str, Value], at: Pointer) -> Iterator[Violation]:
    texts = [(name, value) for name, value in given.items() if isinstance(value, str)]
    together = wrong_headers(texts)
    if together is not None:
        yield _violation(at, together)
    seen: set[str] = set()
    for name, value in given.items():
        pointer = (*at, name)
        wrong = wrong_header_name(name) or (TWICE if name.lower() in seen else None)
        seen.add(name.lower())
        if wrong is not None:
            yield _violation(pointer, wrong, at_key=True)
        if isinstance(value, str):
            yield from _value(name, value, pointer)


def _value(name: str, value: str, pointer: Pointer) -> Iterator[Violation]:
    wrong = wrong_header_value(_around(value))
    if wrong is not None:
        yield _violation(pointer, wrong)
    if header_size(name, value) > LONGEST_HEADER:
        yield _violation(pointer, f"is longer than {LONGEST_HEADER} bytes, its name included")


def _is_unknown(value: str) -> bool:
    """Return True if there is nothing to check: a whole reference, or the mask of a secret."""
    return value == MASK or ("${" in value and secret_references.whole_secret_reference(value) is not None)


def _around(value: str) -> str:
    """Return the text with a letter in place of each reference, because a letter breaks no rule."""
    if "${" not in value:
        return value
    pieces = secret_references.text_pieces(value)
    return "".join(piece if isinstance(piece, str) else "x" for piece in pieces)


def _violation(pointer: Pointer, message: str, *, at_key: bool = False) -> Violation:
    return Violation(pointer, message, at_key=at_key, of_parameter=True)
