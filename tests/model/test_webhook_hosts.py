"""Hosts: names and addresses as they may be written, and forms that hide an address."""

import socket
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import webhooks

IPV4 = st.integers(0, 2**32 - 1).map(IPv4Address)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "siem.example.com",
        "SIEM.Example.com.",
        "my_service",
        "_dmarc.example",
        "a",
        "1password.com",
        "3.example",
        "xn--bcher-kva.example",
        "x" * 63 + ".example",
        ".".join(["x" * 49] * 5) + ".com",
        "0xa.example",
        "deadbeef",
        "127.0.0.1",
        "::1",
        "[::1]",
        "2001:DB8::0:1",
        "::ffff:127.0.0.1",
    ],
)
def test_names_and_addresses_may_be_hosts(host: str) -> None:
    assert webhooks.wrong_form(host) is None


@pytest.mark.parametrize(
    ("host", "sentence"),
    [
        *((host, webhooks.NUMERIC) for host in (
            "2852039166", "0251.0376.0251.0376", "0xa9fea9fe", "0XA9.0xfe.0xa9.0xfe", "169.254.43518", "169.16689662",
            "127.1", "127.0.0.1.", "127.0.0.01", "256.0.0.1", "1.2.3.4.5", "0x", "0", "example.0x7f", "a.1",
        )),
        *((host, webhooks.HOST_RULE) for host in (
            "", ".", "..", "a..b", ".a", "-a", "a-", "a.-b", "x" * 64, "x." * 127 + "x", "a b", "a\n", "a\0", "a/b",
            "a@b", "a:b", "a:80", "127.0.0.1:80", "[127.0.0.1]", "[::1", "::1]", "[]", "a%2eb", "a?b", "a#b", "a\\b",
            "${env:A}", "(sensitive)", "1.2.3.4\n", "::1\n",
        )),
        ("fe80::1%eth0", webhooks.ZONE),
        ("[fe80::1%25eth0]", webhooks.ZONE),
        ("bücher.example", webhooks.NOT_ASCII),
        ("\N{FULLWIDTH DIGIT ONE}27.0.0.1", webhooks.NOT_ASCII),
        ("127\N{IDEOGRAPHIC FULL STOP}0.0.1", webhooks.NOT_ASCII),
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_what_to_write_instead(host: str, sentence: str) -> None:
    assert webhooks.wrong_form(host) == sentence
    assert webhooks.literal(host) is None


@given(IPV4, st.integers(1, 4), st.lists(st.sampled_from(["{}", "0{:o}", "0x{:x}", "0X{:X}"]), min_size=4, max_size=4))
def test_no_form_that_programs_read_as_an_address_hides_one(address: IPv4Address, parts: int, forms: list[str]) -> None:
    first, last = divmod(int(address), 1 << 8 * (5 - parts))
    numbers = [*first.to_bytes(4, "big")[5 - parts :], last]
    host = ".".join(form.format(number) for form, number in zip(forms, numbers, strict=False))

    assert socket.inet_aton(host) == address.packed
    assert host == str(address) or webhooks.wrong_form(host) == webhooks.NUMERIC


@given(st.text(st.sampled_from("0123456789xXaAfF.:-"), max_size=20))
def test_what_is_no_literal_is_nothing_that_programs_read_as_an_address(host: str) -> None:
    if webhooks.wrong_form(host) is None and webhooks.literal(host) is None:
        with pytest.raises(OSError, match="illegal"):
            socket.inet_aton(host)


@given(IPV4)
def test_an_ipv4_literal_is_its_address(address: IPv4Address) -> None:
    assert webhooks.literal(str(address)) == address
    assert webhooks.bracketed(str(address)) == str(address)


@given(st.integers(0, 2**128 - 1).map(IPv6Address), st.booleans(), st.booleans())
def test_an_ipv6_literal_is_its_address_in_each_form(address: IPv6Address, short: bool, brackets: bool) -> None:
    host = address.compressed if short else address.exploded.upper()
    host = f"[{host}]" if brackets else host

    assert (webhooks.wrong_form(host), webhooks.literal(host)) == (None, address)
    assert webhooks.bracketed(host) == (host if brackets else f"[{host}]")


@given(st.from_regex(r"[-A-Za-z0-9_.:\[\]x]{0,12}", fullmatch=True))
def test_what_passes_for_a_name_is_one_and_no_address(text: str) -> None:
    if webhooks.is_name(text):
        assert webhooks.wrong_form(text) is None
        assert webhooks.literal(text) is None
        with pytest.raises(OSError, match="illegal"):
            socket.inet_aton(text)
