"""Whom attempts are counted for: never whom a stranger names."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.auth import HOPS, UNKNOWN, client_address

PROXY, BEHIND, STRANGER = "10.0.0.1", "10.0.0.2", "192.0.2.7"
TRUSTED = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
TRUSTED_TEXTS = st.integers(1, 254).map("10.0.0.{}".format) | st.integers(1, 0xFFFF).map("fd00::{:x}".format)
FOREIGN = st.ip_addresses().filter(
    lambda one: not any(one in network for network in TRUSTED) and getattr(one, "ipv4_mapped", None) is None
)


def of(peer: str | None, *values: str) -> str:
    """Return what a request with these headers counts for, behind the trusted networks."""
    return client_address(peer, [(b"x-forwarded-for", value.encode("latin-1")) for value in values], trusted=TRUSTED)


def counted(address: IPv4Address | IPv6Address) -> str:
    return str(address) if address.version == 4 else str(ip_network((address, 64), strict=False))


@pytest.mark.parametrize(
    ("peer", "values", "expected"),
    [
        (STRANGER, [], STRANGER),
        (STRANGER, ["198.51.100.1"], STRANGER),
        (PROXY, [], PROXY),
        (PROXY, [STRANGER], STRANGER),
        (PROXY, [f"{STRANGER}:4711"], STRANGER),
        (PROXY, [f" {STRANGER}\t"], STRANGER),
        (PROXY, [f"198.51.100.1, {STRANGER}"], STRANGER),
        (PROXY, ["198.51.100.1", STRANGER], STRANGER),
        (PROXY, [STRANGER, BEHIND], STRANGER),
        (PROXY, [f"198.51.100.1, {STRANGER}, {BEHIND}"], STRANGER),
        (PROXY, [f"{BEHIND}, 10.0.0.3"], BEHIND),  # all of it ours: the farthest
        (PROXY, ["2001:db8:1:2:3:4:5:6"], "2001:db8:1:2::/64"),
        (PROXY, ["[2001:db8:1:2::1]:443"], "2001:db8:1:2::/64"),
        (PROXY, ["[2001:db8:1:2::1]"], "2001:db8:1:2::/64"),
        (PROXY, [f"::ffff:{STRANGER}"], STRANGER),
        (PROXY, [f"{STRANGER}, ::ffff:10.0.0.9"], STRANGER),
        (PROXY, ["fe80::1%eth0"], PROXY),
        (PROXY, ["unknown"], PROXY),
        (PROXY, [""], PROXY),
        (PROXY, [f"{STRANGER},"], PROXY),
        (PROXY, [f"{STRANGER}, _hidden"], PROXY),
        (PROXY, [f"{STRANGER}, 010.0.0.9"], PROXY),
        (PROXY, [f"{STRANGER}, 10.0.0.9\xa0"], PROXY),
        (PROXY, [f'for="{STRANGER}"'], PROXY),
        ("::ffff:10.0.0.1", [STRANGER], STRANGER),
        (f"::ffff:{STRANGER}", ["198.51.100.1"], STRANGER),
        ("fd00::1", [STRANGER], STRANGER),
        ("fe80::1%eth0", [STRANGER], "fe80::/64"),
        ("2001:db8::1", [], "2001:db8::/64"),
        (None, [STRANGER], UNKNOWN),
        ("a socket's path", [STRANGER], UNKNOWN),
    ],
)
def test_the_client_is_the_nearest_that_is_no_proxy_of_ours(peer: str | None, values: list[str], expected: str) -> None:
    assert of(peer, *values) == expected


def test_other_headers_say_nothing() -> None:
    headers = [(b"forwarded", b"for=192.0.2.7"), (b"x-real-ip", b"192.0.2.7"), (b"x-forwarded-for-x", b"192.0.2.7")]
    assert client_address(PROXY, headers, trusted=TRUSTED) == PROXY


def test_without_trusted_proxies_nobody_is_believed() -> None:
    assert client_address("127.0.0.1", [(b"x-forwarded-for", b"192.0.2.7")], trusted=()) == "127.0.0.1"


@given(st.text(alphabet=st.characters(max_codepoint=255), max_size=200), FOREIGN, st.lists(TRUSTED_TEXTS, max_size=5))
def test_what_a_stranger_writes_changes_nothing(
    written: str, stranger: IPv4Address | IPv6Address, proxies: list[str]
) -> None:
    chain = ", ".join([str(stranger), *proxies])
    assert of(PROXY, f"{written}, {chain}") == of(PROXY, written, chain) == counted(stranger)
    assert of(str(stranger), f"{written}, {chain}") == counted(stranger)


@given(st.lists(st.binary(max_size=60), max_size=5), st.sampled_from([PROXY, STRANGER, "fd00::1", "2001:db8::1", None]))
def test_whatever_is_written_it_is_an_address_a_network_or_unknown(values: list[bytes], peer: str | None) -> None:
    found = client_address(peer, [(b"x-forwarded-for", value) for value in values], trusted=TRUSTED)
    assert found == UNKNOWN or ip_network(found) is not None
    assert (found == UNKNOWN) is (peer is None)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_who_has_a_network_of_ipv6_is_one_client(one: int, other: int) -> None:
    network = int(ip_address("2001:db8:1:2::"))
    assert of(str(IPv6Address(network + one))) == of(str(IPv6Address(network + other))) == "2001:db8:1:2::/64"


def test_as_many_proxies_as_are_followed_are_followed_and_the_rest_is_not_looked_at() -> None:
    assert of(PROXY, ", ".join([STRANGER, *[BEHIND] * (HOPS - 1)])) == STRANGER
    assert of(PROXY, ", ".join([STRANGER, *[BEHIND] * HOPS])) == BEHIND
    assert of(PROXY, ",".join([STRANGER, *[BEHIND] * 6_000])) == BEHIND
