"""Addresses to which the service may connect: own listeners, the operator's networks, and fixed rules."""

import subprocess
import sys
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.delivery import http_client
from reconciler.delivery.http_client import DENIED_BY_SETTINGS, OWN_LISTENER, EgressPolicy, Listener
from reconciler.model import webhooks
from tests.model.test_webhook_addresses import WRAPPED

IPV4 = st.integers(0, 2**32 - 1).map(IPv4Address)
NETWORK = st.builds(lambda address, bits: IPv4Network((address, bits), strict=False), IPV4, st.integers(0, 32))
NETWORKS = st.lists(NETWORK, max_size=4).map(tuple)
EVERYTHING = (ip_network("0.0.0.0/0"), ip_network("::/0"))


def policy(allow: str = "", deny: str = "") -> EgressPolicy:
    return EgressPolicy(allow=tuple(map(ip_network, allow.split())), deny=tuple(map(ip_network, deny.split())))


@pytest.mark.parametrize(
    ("allow", "deny", "address", "refusal"),
    [
        ("", "", "10.0.0.1", None),
        ("", "", "127.0.0.1", None),
        ("", "", "::1", None),
        ("10.0.0.0/8", "", "192.0.2.1", None),
        ("", "10.0.0.0/8", "10.0.0.1", DENIED_BY_SETTINGS),
        ("10.1.0.0/16", "10.0.0.0/8", "10.1.0.1", None),
        ("10.1.0.0/16", "10.0.0.0/8", "10.2.0.1", DENIED_BY_SETTINGS),
        ("10.0.0.0/8", "10.1.0.0/16", "10.1.0.1", DENIED_BY_SETTINGS),
        ("10.0.0.0/8", "10.0.0.0/8", "10.0.0.1", DENIED_BY_SETTINGS),
        ("0.0.0.0/0", "0.0.0.0/0", "10.0.0.1", DENIED_BY_SETTINGS),
        ("192.0.2.0/24", "0.0.0.0/0 ::/0", "192.0.2.1", None),
        ("192.0.2.0/24", "0.0.0.0/0 ::/0", "::ffff:192.0.2.1", None),
        ("192.0.2.0/24", "0.0.0.0/0 ::/0", "198.51.100.1", DENIED_BY_SETTINGS),
        ("192.0.2.0/24", "0.0.0.0/0 ::/0", "2001:db8::1", DENIED_BY_SETTINGS),
        ("192.0.2.0/24", "0.0.0.0/0", "2001:db8::1", None),
        # Both what is written and what is written inside have to be allowed.
        ("192.0.2.0/24", "0.0.0.0/0 ::/0", "64:ff9b::192.0.2.1", DENIED_BY_SETTINGS),
        ("192.0.2.0/24 64:ff9b::/96", "0.0.0.0/0 ::/0", "64:ff9b::192.0.2.1", None),
        ("64:ff9b::/96", "0.0.0.0/0 ::/0", "64:ff9b::192.0.2.1", DENIED_BY_SETTINGS),
        ("", "64:ff9b::/96", "64:ff9b::192.0.2.1", DENIED_BY_SETTINGS),
    ],
)
def test_the_longest_prefix_decides(allow: str, deny: str, address: str, refusal: str | None) -> None:
    found = http_client.egress_refusal(ip_address(address), port=80, policy=policy(allow, deny))

    assert found == refusal


@given(IPV4, NETWORKS, NETWORKS)
def test_an_address_is_denied_by_the_most_exact_network_that_holds_it(
    address: IPv4Address, allow: tuple[IPv4Network, ...], deny: tuple[IPv4Network, ...]
) -> None:
    exact = sorted(
        [(network.prefixlen, denied) for denied, listed in ((False, allow), (True, deny)) for network in listed
         if network.network_address <= address <= network.broadcast_address]
    )  # fmt: skip
    expected = DENIED_BY_SETTINGS if exact and exact[-1][1] else None

    found = http_client.egress_refusal(address, port=80, policy=EgressPolicy(allow=allow, deny=deny))

    assert found == (webhooks.refusal_reason(address) or expected)


@given(st.sampled_from(webhooks.FORBIDDEN_NETWORKS), st.integers(1, 65535))
def test_nothing_allows_what_is_always_refused(never: webhooks.ForbiddenNetwork, port: int) -> None:
    first = never.network.network_address
    allow = (*EVERYTHING, never.network, ip_network(first))

    assert http_client.egress_refusal(first, port=port, policy=EgressPolicy(allow=allow)) is not None


@given(IPV4, st.sampled_from(sorted(WRAPPED)))
def test_no_way_to_write_an_address_gets_around_deny_or_an_own_listener(address: IPv4Address, way: str) -> None:
    wrapped = IPv6Address(str(WRAPPED[way](address)))
    if address not in webhooks.address_readings(wrapped):
        return  # 0.x.y.z behind a local prefix, which a translator has nowhere to send
    closed = EgressPolicy(deny=(IPv4Network(address),))
    service = EgressPolicy(listeners=(Listener(address, 3001),), allow=(*EVERYTHING, IPv4Network(address)))

    assert http_client.egress_refusal(wrapped, port=80, policy=closed) is not None
    assert http_client.egress_refusal(wrapped, port=3001, policy=service) is not None


@pytest.mark.parametrize(
    ("listener", "address", "port", "refusal"),
    [
        ("127.0.0.1", "127.0.0.1", 3001, OWN_LISTENER),
        ("127.0.0.1", "127.0.0.1", 3002, None),
        ("127.0.0.1", "127.0.0.2", 3001, None),
        ("127.0.0.1", "::1", 3001, None),
        ("0.0.0.0", "127.0.0.2", 3001, OWN_LISTENER),  # noqa: S104
        ("0.0.0.0", "198.51.100.7", 3001, OWN_LISTENER),  # noqa: S104
        ("0.0.0.0", "198.51.100.8", 3001, None),  # noqa: S104
        ("0.0.0.0", "198.51.100.7", 3002, None),  # noqa: S104
        ("::", "127.0.0.1", 3001, OWN_LISTENER),
        ("::", "::1", 3001, OWN_LISTENER),
        ("::", "64:ff9b::127.0.0.1", 3001, OWN_LISTENER),
    ],
)
def test_the_services_own_listeners_are_refused(listener: str, address: str, port: int, refusal: str | None) -> None:
    def is_local(one: webhooks.Address) -> bool:
        return one.is_loopback or one == ip_address("198.51.100.7")

    service = EgressPolicy((Listener(ip_address(listener), 3001),), is_local, allow=EVERYTHING)

    assert http_client.egress_refusal(ip_address(address), port=port, policy=service) == refusal


def test_for_the_proxy_the_operators_networks_do_not_apply_and_all_else_does() -> None:
    proxied = EgressPolicy((Listener(ip_address("127.0.0.1"), 3001),), deny=EVERYTHING).for_proxy()

    found = [http_client.egress_refusal(ip_address("127.0.0.1"), port=port, policy=proxied) for port in (3128, 3001)]
    assert found == [None, OWN_LISTENER]


def test_the_machine_knows_its_own_addresses() -> None:
    known = [
        http_client.machine_has(ip_address(address))
        for address in ("127.0.0.1", "127.8.8.8", "192.0.2.254", "2001:db8::1")
    ]

    assert known == [True, True, False, False]


def test_when_the_kernel_cannot_say_an_address_counts_as_the_machines() -> None:
    code = (
        "import resource; from ipaddress import ip_address; from reconciler.delivery import http_client as machine; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3)); print(machine.machine_has(ip_address('192.0.2.254')))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)

    assert told.stdout == "True\n"
