"""Addresses: what an address stands for, and which are refused on every machine."""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import webhooks

IPV4 = st.integers(0, 2**32 - 1).map(IPv4Address)
REFUSED_NETWORKS = [never.network for never in webhooks.FORBIDDEN_NETWORKS if never.network.version == 4]
REFUSED_IPV4 = st.sampled_from(REFUSED_NETWORKS).flatmap(
    lambda network: st.integers(int(network.network_address), int(network.broadcast_address)).map(IPv4Address)
)
LOW = st.integers(0, 2**32 - 1)


def text(prefix: str) -> Callable[[IPv4Address], str]:
    return lambda address: f"{prefix}{address}"


def six_to_four(address: IPv4Address) -> str:
    high, low = divmod(int(address), 1 << 16)
    return f"2002:{high:x}:{low:x}::1"


def teredo(*, server: IPv4Address, client: IPv4Address) -> IPv6Address:
    return IPv6Address((0x20010000 << 96) | (int(server) << 64) | (int(client) ^ 0xFFFFFFFF))


WRAPPED: dict[str, Callable[[IPv4Address], object]] = {
    "mapped": text("::ffff:"),
    "compatible": text("::"),
    "translated": text("::ffff:0:"),
    "nat64": text("64:ff9b::"),
    "6to4": six_to_four,
    "teredo server": lambda address: teredo(server=address, client=IPv4Address("192.0.2.1")),
    "teredo client": lambda address: teredo(server=IPv4Address("192.0.2.1"), client=address),
}


@given(REFUSED_IPV4, st.sampled_from(sorted(WRAPPED)))
def test_every_way_to_write_a_refused_ipv4_address_inside_ipv6_is_refused(address: IPv4Address, way: str) -> None:
    wrapped = IPv6Address(str(WRAPPED[way](address)))

    assert webhooks.refusal_reason(address) is not None
    if int(wrapped) > 1:  # :: and ::1 are IPv6 addresses of their own
        assert webhooks.refusal_reason(wrapped) is not None


@given(IPV4, st.sampled_from(sorted(WRAPPED)))
def test_what_is_written_inside_is_among_the_readings(address: IPv4Address, way: str) -> None:
    wrapped = IPv6Address(str(WRAPPED[way](address)))

    if int(wrapped) > 1:
        assert address in webhooks.address_readings(wrapped)


@given(IPV4)
def test_an_ipv4_address_stands_for_itself(address: IPv4Address) -> None:
    assert webhooks.address_readings(address) == (address,)
    assert webhooks.address_readings(IPv6Address(f"::ffff:{address}")) == (address,)


@given(st.sampled_from(webhooks.FORBIDDEN_NETWORKS), st.data(), st.sampled_from(["", "%1", "%eth0"]))
def test_every_address_of_a_refused_network_is_refused(
    never: webhooks.ForbiddenNetwork, data: st.DataObject, zone: str
) -> None:
    number = data.draw(st.integers(int(never.network.network_address), int(never.network.broadcast_address)))
    address = IPv4Address(number) if never.network.version == 4 else ip_address(f"{IPv6Address(number)}{zone}")

    assert webhooks.refusal_reason(address) is not None


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.254",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "100.100.100.201",
        "192.0.0.191",
        "168.63.129.17",
        "1.0.0.0",
        "169.253.255.255",
        "169.255.0.0",
        "223.255.255.255",
        "8.8.8.8",
        "::1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
        "fd00::1",
        "fd00:ec2::1",
        "fe00::1",
        "fec0::1",
        "2606:4700::1111",
    ],
)
def test_loopback_private_and_public_addresses_are_refused_nowhere_for_what_they_are(address: str) -> None:
    assert webhooks.refusal_reason(ip_address(address)) is None
