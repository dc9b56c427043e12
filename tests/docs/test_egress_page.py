"""docs/egress.md says what the code that judges addresses does."""

import re
from ipaddress import ip_address, ip_network

import yaml

from reconciler.delivery import http_client
from reconciler.delivery import http_client as delivery_egress
from reconciler.delivery.http_client import Denied, EgressPolicy, HttpTarget
from reconciler.model import webhooks
from reconciler.settings.models import Egress
from tests.docs import pages

PAGE = pages.read(pages.ROOT / "docs/egress.md")
WEBHOOK = pages.read(pages.KINDS / "Destination.webhook.md")


def quoted(cell: str) -> list[str]:
    return re.findall("`([^`]+)`", cell)


def test_what_is_always_refused_is_in_the_table_in_the_order_that_decides() -> None:
    told = [(*quoted(row["addresses"]), row["the address ..."], row["whose"]) for row in
            pages.table(pages.section(PAGE, "Always refused"))]  # fmt: skip
    assert told == [(str(never.network), never.rule, never.about) for never in webhooks.FORBIDDEN_NETWORKS]


def test_what_is_written_inside_is_what_is_read() -> None:
    rows = pages.table(pages.section(PAGE, "IPv4 inside IPv6"))
    assert len(rows) == 7
    for row in rows:
        [example], [inside] = quoted(row["for example"]), quoted(row["holds"])
        assert ip_address(inside) in webhooks.address_readings(ip_address(example)), row


def test_the_worked_rows_come_out_as_they_say() -> None:
    for row in pages.table(pages.section(PAGE, "`allow` and `deny`")):
        allow, deny = (tuple(map(ip_network, quoted(row[column]))) for column in ("`allow`", "`deny`"))
        [address] = quoted(row["address"])
        found = delivery_egress.egress_refusal(
            ip_address(address), port=443, policy=EgressPolicy(allow=allow, deny=deny)
        )
        verdict = "allowed" if found is None else "denied" if found == delivery_egress.DENIED_BY_SETTINGS else "refused"
        assert row[""].startswith(verdict), row


def test_the_hosts_are_judged_as_they_say() -> None:
    for row in pages.table(pages.section(PAGE, "Host names")):
        [host] = quoted(row["written"])
        assert row[""].startswith("fine" if webhooks.wrong_host(host) is None else "refused"), row


def test_the_first_example_is_a_setting() -> None:
    [example] = pages.blocks(PAGE, "yaml")
    egress = Egress.model_validate(yaml.safe_load(example)["delivery"]["egress"])
    policy = EgressPolicy(allow=egress.allow, deny=egress.deny)
    reached = [
        delivery_egress.egress_refusal(ip_address(address), port=443, policy=policy) is None
        for address in ("192.0.2.9", "2001:db8:10::1", "10.1.2.3", "10.1.2.4", "127.0.0.1", "::1")
    ]
    assert reached == [True, True, True, False, False, False]


def test_the_error_is_as_it_is_shown() -> None:
    error = Denied(HttpTarget("https", "siem.example.com", 443), delivery_egress.DENIED_BY_SETTINGS)
    assert f"\n{error.message}\n" in PAGE


def test_the_numbers_are_those_of_the_program() -> None:
    text = " ".join(PAGE.split())
    assert f"the first {http_client.MOST_ADDRESSES} of them" in text
    assert (
        f"up to {http_client.MOST_HEADERS} headers, each of at most {round(http_client.LONGEST_LINE / 1024)} KiB"
        in text
    )
    assert f"the first {http_client.AnswerLimits().answer_bytes // 1024} KiB as they come" in text


def test_the_webhooks_page_has_every_header_that_is_refused_and_the_bounds() -> None:
    section = pages.section(WEBHOOK, "Rules for values")
    refused = {name.lower() for row in pages.table(section) if row["parameter"] == "`headers`, names"
               for name in quoted(row["rule"])}  # fmt: skip
    assert refused == {*webhooks.HOP_BY_HOP, webhooks.CONTENT_LENGTH}
    text = " ".join(section.split())
    bounds = (
        webhooks.MOST_HEADERS,
        webhooks.LONGEST_HEADER // 1024,
        webhooks.LONGEST_TOGETHER // 1024,
        webhooks.LONGEST_PATH,
    )
    assert "{} headers, {} KiB each with its name, {} KiB together".format(*bounds) in text
    assert f"at most {bounds[3]:,} characters" in text
