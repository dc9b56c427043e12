"""Where a request comes from: the client's own address, also behind proxies that are trusted to say it.

Belongs here: reading `X-Forwarded-For`. Does not: deciding anything by it.
"""

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

from starlette.types import Scope

from api.answers import Header

Network: TypeAlias = IPv4Network | IPv6Network
Address: TypeAlias = IPv4Address | IPv6Address

UNKNOWN = "unknown"
HOPS = 32  # proxies one behind the other that are followed
CLIENTS_BITS = 64  # of an IPv6 address; the rest is the client's own to choose


def address_of(scope: Scope, *, trusted: Sequence[Network]) -> str:
    """Where a request comes from, see `client`."""
    peer = scope["client"][0] if scope.get("client") else None
    return client_address(peer, scope["headers"], trusted=trusted)


def client_address(peer: str | None, headers: Iterable[Header], *, trusted: Sequence[Network]) -> str:
    """Whom attempts are counted for: an IPv4 address, or the network of 64 bits around an IPv6 one, as text.

    `peer` is the other end of the connection. A proxy appends whom it got the request from; whatever stands before the
    last address that no trusted proxy has was written by who asks, and may be anything.
    """
    reached = None if peer is None else _address(peer.partition("%")[0])
    if reached is None:
        return UNKNOWN
    if trusted and _is_trusted(reached, trusted):
        reached = _before(reached, headers, trusted=trusted)
    return _counted(reached)


def _before(reached: Address, headers: Iterable[Header], *, trusted: Sequence[Network]) -> Address:
    """The nearest hop that is no trusted proxy; where the chain ends or says no address, the last proxy itself."""
    for hop in _hops(headers):
        address = _address(_without_port(hop))
        if address is None:
            break
        reached = address
        if not _is_trusted(address, trusted):
            break
    return reached


def _hops(headers: Iterable[Header]) -> Iterator[str]:
    """The nearest first, of all headers of the name, as if they were one (RFC 9110, 5.3)."""
    said = b",".join(value for name, value in headers if name == b"x-forwarded-for")
    if said:
        nearest = said.rsplit(b",", HOPS)[-HOPS:]
        yield from (hop.strip(b" \t").decode("latin-1") for hop in reversed(nearest))


def _without_port(hop: str) -> str:
    """The address of `192.0.2.1:80`, `[2001:db8::1]:80` and `[2001:db8::1]`, as some proxies write it."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


def _address(text: str) -> Address | None:
    """An address; None for what is none. One of IPv4 in IPv6 is that of IPv4; one with a zone could be any number."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    if isinstance(found, IPv4Address):
        return found
    return None if found.scope_id is not None else found.ipv4_mapped or found


def _is_trusted(address: Address, trusted: Sequence[Network]) -> bool:
    return any(address in network for network in trusted)


def _counted(address: Address) -> str:
    if isinstance(address, IPv4Address):
        return str(address)
    return str(IPv6Network((address, CLIENTS_BITS), strict=False))
