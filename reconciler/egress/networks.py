"""Where the service may connect to on behalf of what others wrote: one pure decision about one address and port.

Belongs here: the rules of this service: its own listeners, the operator's networks. Does not: what is refused
everywhere (`resources.addresses`), nor asking the machine or the network anything (`machine`, `client`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from reconciler.model import hosts
from reconciler.model.hosts import Address, Network

OWN_LISTENER = "is a listener of the service itself"
DENIED = "is denied by `delivery.egress`"


@dataclass(frozen=True, slots=True)
class Listener:
    """Where the service listens, as the bound socket says: never a name, and never port 0."""

    address: Address
    port: int


def _nowhere(_: Address) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """What decides besides the address: the settings' networks, and what is this machine.

    `is_local` says whether an address is one of this machine's; it is asked only about the port of a listener on a
    wildcard address (0.0.0.0 or ::), which takes connections to all of them.
    """

    listeners: tuple[Listener, ...] = ()
    is_local: Callable[[Address], bool] = field(default=_nowhere, repr=False)
    allow: tuple[Network, ...] = ()
    deny: tuple[Network, ...] = ()

    def for_proxy(self) -> "EgressPolicy":
        """What holds for the proxy itself: the operator named it, so the operator's networks do not apply."""
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
