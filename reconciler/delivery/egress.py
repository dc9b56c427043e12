"""Egress rules: whether the service may connect to an address and port on behalf of what others wrote."""

import errno
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from ipaddress import IPv6Address

from reconciler.model import hosts
from reconciler.model.hosts import Address, Network

OWN_LISTENER = "is a listener of the service itself"
DENIED = "is denied by `delivery.egress`"


@dataclass(frozen=True, slots=True)
class Listener:
    """An address at which the service listens, as the bound socket says: never a name, and never port 0."""

    address: Address
    port: int


def _nowhere(_: Address) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """The settings' networks, and the addresses of this machine and of the service.

    `is_local` says whether an address is one of this machine's; it is asked only about the port of a listener on a
    wildcard address (0.0.0.0 or ::), which takes connections to all of them.
    """

    listeners: tuple[Listener, ...] = ()
    is_local: Callable[[Address], bool] = field(default=_nowhere, repr=False)
    allow: tuple[Network, ...] = ()
    deny: tuple[Network, ...] = ()

    def for_proxy(self) -> "EgressPolicy":
        """Return the policy for the proxy itself: the operator named it, so the operator's networks do not apply."""
        return replace(self, allow=(), deny=())


def egress_refusal(address: Address, *, port: int, policy: EgressPolicy) -> str | None:
    """Why the service must not connect there, as the rest of a sentence that does not name the address; None: it may.

    Every reading of the address is judged by every rule, so that no way to write it gets further than another.
    """
    always = hosts.refusal_reason(address)
    if always is not None:
        return always
    readings = hosts.address_readings(address)
    if any(_is_own(reading, port, policy) for reading in readings):
        return OWN_LISTENER
    if any(_is_denied(reading, policy) for reading in readings):
        return DENIED
    return None


def _is_own(address: Address, port: int, policy: EgressPolicy) -> bool:
    for listener in policy.listeners:
        if listener.port == port and (
            address == listener.address or (listener.address.is_unspecified and policy.is_local(address))
        ):
            return True
    return False


def _is_denied(address: Address, policy: EgressPolicy) -> bool:
    """The longest prefix that holds the address decides; `deny` wins a tie; without any it is allowed."""
    return _longest(address, policy.deny) >= max(_longest(address, policy.allow), 0)


def _longest(address: Address, networks: Iterable[Network]) -> int:
    """Bits of the longest prefix that holds the address; -1 for none."""
    return max((network.prefixlen for network in networks if address in network), default=-1)


_NOT_OURS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def machine_has(address: Address) -> bool:
    """Tell whether a program on this machine could listen on the address; microseconds, nothing is sent.

    When the kernel refuses for any other reason (too many open files, a sandbox), the answer is yes: what asks must
    rather not connect than connect to ourselves.
    """
    family = socket.AF_INET6 if isinstance(address, IPv6Address) else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError as problem:
        return problem.errno not in _NOT_OURS
    return True
